/* view/view.h: plans as text for people and as JSON for programs. All [any]. */
#ifndef VIEW_VIEW_H
#define VIEW_VIEW_H

#include "plan/plan.h"

#include <jansson.h>

/* Pipeline bubble: the idle share of the step's schedule if communication takes no time, with equal
 * stages (forward 1, backward 2) or with the plan's operation counts. view_live: the most cells of
 * a stage whose forward is done and whose backward is not. */
double view_bubble(const plan_set *p, bool equal);
uint32_t view_live(const plan *p);

/* What a rank sends while it runs a list once: by collectives of one kind (weft/coll.h), along one
 * mesh axis, by entries of one update interval (0: of none); VIEW_ANY: of all. */
#define VIEW_ANY UINT32_MAX
typedef struct view_traffic {
    uint64_t sent, plain; /* bytes; plain: without compression */
    uint32_t starts;      /* of collectives */
} view_traffic;
view_traffic view_traffic_of(const plan *p, const plan_list *l, uint32_t kind, uint32_t mesh_axis,
                             uint32_t interval);

/* A mesh axis with its transport: "dp 4 over shm+tcp", "tp 1". [any] */
#define PLAN_AXIS_TEXT 256u /* room for it */
void view_mesh_axis(const spec *s, uint32_t a, char *text, size_t capacity);

void view_print_schedule(const plan_set *p, FILE *to);
void view_print(const plan_set *p, FILE *to);

/* The passes of planning, in order, and the wall time of each. JSON: {"digest": TEXT, "passes":
 * [{"name": TEXT, "seconds": NUMBER}, ...]}. */
void view_print_passes(const plan_set *p, FILE *to);
weft_status view_print_passes_json(const plan_set *p, FILE *to);

weft_status view_print_json(const plan_set *p, FILE *to);

/* The same as an object, which the caller owns; `of_each_plan`: "ranks" has the first rank of each
 * plan alone. */
json_t *view_json(const plan_set *p, bool of_each_plan);

/* The pipeline's schedule with the plan's operation counts: {"stages": N, "micro_batches": N,
 * "bubble": SHARE, "span": TIME, "cells": [[STAGE, CHUNK, MICRO-BATCH, BACKWARD, BEGIN, END], ...],
 * "left_out": N}, in units of operations; null for a job without stages. */
json_t *view_schedule_json(const plan_set *p);

/* What the arena holds while rank 0 of `p` walks the list "step": see arena.c. */
json_t *view_arena_json(const plan *p);

/* The lists of a rank, every instruction. Operand k of an op (inputs, then outputs) has an address
 * in the arena, the name of the base that it comes from ("fixed", "param", "grad", "saved",
 * "frame", "inout": BASE_...) and its bytes. JSON: "in" and "out" have the addresses, "base" and
 * "bytes" the rest, of all operands in this order. */
const char *view_base_name(uint32_t base);
uint64_t view_operand_bytes(const plan *p, const plan_instr *x, uint32_t k);
void view_print_list(const plan *p, uint32_t rank, FILE *to);
weft_status view_print_list_json(const plan *p, uint32_t rank, FILE *to);

#endif
