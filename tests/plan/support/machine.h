/* Simulates a plan's list without computing: each two bytes of the arena have a tag that names
 * their content. The graph is built again here, with the functions of graph/ and none of plan/; for
 * each instruction the machine checks that the operands are where the list says, and tags what the
 * instruction writes. So an overwritten buffer, a missing instruction, a sum that adds to old
 * values or a gradient that is read too early shows as an unexpected tag. */
#ifndef MACHINE_H
#define MACHINE_H

#include "plan/plan.h"

/* Content of a cell. `id` is a tensor of the graph except for T_BUSY, T_STATE and T_KEPT. */
#define T_NOTHING 0u
#define T_INPUT 1u
#define T_PARAM 2u /* as forward and backward read it */
#define T_MASTER 3u
#define T_VALUE 4u /* an activation of micro-batch `n` */
#define T_SUM 5u   /* `n` contributions, `sums` all-reduces */
#define T_STATE 6u
#define T_BUSY 7u    /* a collective in flight: id is its number */
#define T_UPDATED 8u /* id: the parameter */
#define T_SCRATCH 9u
#define T_KEPT 10u /* residual of a compressed sum; id: its channel */

typedef struct tag {
    uint8_t what, sums;
    uint16_t n;
    uint32_t id;
    uint32_t at; /* element index in the parameter, gradient or state */
} tag;

typedef struct machine {
    const plan *p;
    graph g;
    uint32_t axes;       /* that split the data */
    uint32_t passes;     /* micro-batches of the list */
    tag *cells;          /* [peak / 2] */
    tag *before;         /* content below a collective in flight */
    uint8_t **squared;   /* [tensor][element] how often the norm has counted it */
    uint64_t *bases;     /* the plan's, with the shifts of the rank */
    uint64_t *grad_at;   /* [tensor] address of its sum; UINT64_MAX before the first contribution */
    uint32_t *grad_pass; /* [tensor] of the last contribution */
    uint32_t *writes;    /* [tensor] contributions to a sum per micro-batch */
    uint32_t *work;      /* nodes of the current call */
    uint32_t nwork, at;  /* their number, and the next one */
    uint32_t works;      /* calls of blocks so far */
    uint64_t updated;    /* elements */
    uint32_t rank;
} machine;

/* `want`: 0 for the training list, 1 for the evaluation list. */
void machine_begin(machine *m, const plan *p, int want, uint32_t rank);
void machine_end(machine *m);

/* One machine for each rank; all ranks must share the plan. */
void machine_team(const plan *p, int want, machine **out);
void machine_dismiss(machine *all);
void machine_walk(machine *all, uint32_t n, const plan_list *l);
void machine_end_of_step(machine *all, uint32_t n); /* what must hold after a step */

/* All lists of the job's ranks, of training and of evaluation, and the check of its plans. */
void machine_walk_all(const plan_set *plans, const plan *p);

/* --- for walk.c. `size`: bytes of an element where cells are numbered, 0 where they are not --- */
void machine_mark(machine *m, uint64_t at, uint64_t bytes, tag t, uint64_t size);
void machine_expect(machine *m, uint64_t at, uint64_t bytes, tag want, uint64_t size,
                    const char *who);
void machine_call_block(machine *m, const plan_entry *e);
uint64_t machine_place(const machine *m, const plan_entry *e, const plan_instr *x, uint32_t k);
uint64_t machine_bytes(const machine *m, weft_tensor t);
weft_tensor machine_param(const machine *m, const char *name);
uint32_t machine_level(const machine *m, weft_tensor grad);
bool machine_afresh(const machine *m, weft_tensor t);

#endif
