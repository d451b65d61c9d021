/* comm/levels.h: a group seen as machines with members, for the algorithms that treat the way
 * between machines as dearer than the way inside one (hierarchical.c, hierarchical_tree.c). */
#ifndef COMM_LEVELS_H
#define COMM_LEVELS_H

#include "comm/schedule.h"

typedef struct levels {
    builder *b;
    uint32_t ranks, me;
    uint32_t machines, machine; /* `machine` and `place` are my own */
    uint32_t place;             /* on the machine; 0 is nearest to the network */
    uint32_t most, least;       /* members of the fullest and the emptiest machine */
    uint32_t *size;             /* [machines] members */
    uint32_t *member;           /* [machines][most] rank at a place */
    uint32_t *at;               /* [ranks] machine */
} levels;

void levels_begin(const comm_request *r, builder *b, levels *out); /* without layout: one machine */
void levels_end(levels *v);

static inline uint32_t member(const levels *v, uint32_t machine, uint32_t place)
{
    return v->member[machine * v->most + place];
}

/* Part i of n of a span, as equal as whole elements allow; long ones begin at cache lines. */
span levels_share(const builder *b, span whole, uint32_t i, uint32_t n);

/* How many members of each machine lead in an all-reduce. */
uint32_t levels_leaders(const levels *v);

/* The member of `machine` that stands for rank q there. */
uint32_t levels_stands_for(const levels *v, uint32_t machine, uint32_t q);

/* The member that speaks for a machine under the request's root, and the one at node `index` of
 * the tree below it. */
uint32_t levels_speaker(const levels *v, uint32_t machine);
uint32_t levels_node(const levels *v, uint32_t machine, uint32_t index);

void levels_terms(const comm_request *r, comm_terms *out); /* hierarchical_terms.c */

/* Broadcast and reduce over trees: hierarchical_tree.c. */
void levels_broadcast(levels *v);
void levels_reduce(levels *v);

#endif
