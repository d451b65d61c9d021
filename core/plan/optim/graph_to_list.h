/* plan/optim/graph_to_list.h: small graphs on their way into a list, for straight.c and together.c alone. */
#ifndef PLAN_STRAIGHT_H
#define PLAN_STRAIGHT_H

#include "plan/build.h"

typedef struct straight {
    builder *b;
    list *l;
    graph *g;
    const straight_job *job;
    VEC(node) order;  /* nodes, assignments that are put off at the end */
    uint32_t at;      /* node in order that comes next */
    uint32_t *last;   /* [tensor] 1 + last run that reads it */
    uint32_t *run_of; /* [node in order] */
    uint64_t *temp;   /* [tensor] 1 + offset in the zone */
    uint64_t *cell;   /* [tensor] 1 + offset in the zone, of a number that together.c has placed */
    bool *wanted;     /* [tensor] another run reads it */
} straight;

/* Owns what it takes; straight_end() gives it back, and what is left in the zone. `by_levels`: sums
 * of numbers come as late as they can, those that do not need each other side by side. */
void straight_begin(straight *s, builder *b, list *l, const straight_work *w, bool by_levels);
void straight_end(straight *s);

/* Is this an all-reduce of one number that nobody else reads? */
bool straight_sums_number(const straight *s, const node *n);

/* Write nodes to the list up to the next of that kind, or the end. */
weft_status straight_go_on(straight *s);

/* Does it have such a sum? *held: bytes of temporaries that wait for the first, or of all. */
bool straight_held(const straight *s, uint64_t *held);

#endif
