/* schedule/alg/hierarchical/hierarchy.h: a group seen as machines with members, for the algorithms
 * that treat the way between machines as dearer than the way inside one (hierarchical.c,
 * hierarchical_tree.c). */
#ifndef SCHEDULE_ALG_HIERARCHICAL_HIERARCHY_H
#define SCHEDULE_ALG_HIERARCHICAL_HIERARCHY_H

#include "schedule/algorithm.h"

#define SCHED_HIERARCHY_CHUNK (128u << 10) /* bytes in which long messages are cut */
#define SCHED_HIERARCHY_SLOTS 3            /* chunks under way at once in each phase */

typedef struct sched_hierarchy {
    sched_writer *b;
    uint32_t ranks, me;
    uint32_t machines, machine; /* `machine` and `place` are my own */
    uint32_t place;             /* on the machine; 0 is nearest to the network */
    uint32_t most, least;       /* members of the fullest and the emptiest machine */
    uint32_t *size;             /* [machines] members */
    uint32_t *member;           /* [machines][most] rank at a place */
    uint32_t *at;               /* [ranks] machine */
} sched_hierarchy;

void sched_hierarchy_begin(const sched_request *r, sched_writer *b,
                           sched_hierarchy *out); /* without layout: one machine */
void sched_hierarchy_end(sched_hierarchy *v);

static inline uint32_t sched_hierarchy_member(const sched_hierarchy *v, uint32_t machine,
                                              uint32_t place)
{
    return v->member[machine * v->most + place];
}

/* Part i of n of a span, as equal as whole elements allow; long ones begin at cache lines. */
sched_span sched_hierarchy_share(const sched_writer *b, sched_span whole, uint32_t i, uint32_t n);

/* How many members of each machine lead in an all-reduce. */
uint32_t sched_hierarchy_leaders(const sched_hierarchy *v);

/* Room for what `who` contributes to a chunk: for a few chunks, in turn. */
typedef struct sched_landing {
    sched_place base;
    uint64_t stride, each; /* bytes of a contribution, and of a chunk with all of them */
} sched_landing;
sched_place sched_hierarchy_landed(const sched_landing *l, uint64_t chunk, uint32_t who);

/* An all-reduce: leader j of each machine answers for part j. */
typedef struct sched_lead {
    sched_hierarchy v;
    uint32_t leaders;
    sched_landing near, far;
} sched_lead;

/* Where a leader has its machine's sum, from byte `at` of the whole on. */
sched_place sched_hierarchy_summed(const sched_lead *d, uint64_t at);

/* compress_levels.c: what leaders do between machines with chunk `s` of their `part`, and how many
 * places each chunk takes in d->far; and the sum for q, the nth rank that I stand for, on its way.
 */
uint32_t sched_hierarchy_codes(const sched_hierarchy *v);
void sched_hierarchy_keep_residual(const sched_hierarchy *v,
                                   uint64_t longest); /* part of a leader */
void sched_hierarchy_inter_node(const sched_lead *d, sched_span s, sched_span part, uint64_t chunk);
void sched_hierarchy_round(const sched_lead *d, sched_span s, uint64_t chunk);
void sched_hierarchy_send_code(sched_hierarchy *v, uint32_t q, uint32_t nth, sched_span s,
                               sched_place sum, sched_place code);

/* The member of `machine` that stands for rank q there. */
uint32_t sched_hierarchy_leads_for(const sched_hierarchy *v, uint32_t machine, uint32_t q);

/* The member that speaks for a machine under the request's root, and the one at node `index` of
 * the tree below it. */
uint32_t sched_hierarchy_root_leader(const sched_hierarchy *v, uint32_t machine);
uint32_t sched_hierarchy_node(const sched_hierarchy *v, uint32_t machine, uint32_t index);

void sched_hierarchy_terms(const sched_request *r, sched_terms *out); /* hierarchical_terms.c */

/* Broadcast and reduce over trees: hierarchical_tree.c. */
void sched_hierarchy_broadcast(sched_hierarchy *v);
void sched_hierarchy_reduce(sched_hierarchy *v);

#endif
