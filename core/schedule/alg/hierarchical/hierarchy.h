/* schedule/alg/hierarchical/hierarchy.h: a group as machines with members, for algorithms that
 * treat inter-node traffic as more expensive than intra-node traffic (hierarchical.c,
 * hierarchical_tree.c). */
#ifndef SCHEDULE_ALG_HIERARCHICAL_HIERARCHY_H
#define SCHEDULE_ALG_HIERARCHICAL_HIERARCHY_H

#include "schedule/algorithm.h"

typedef struct sched_hierarchy {
    sched_writer *w;
    uint32_t ranks, me;
    uint32_t machines, machine; /* `machine` and `place` are this rank's */
    uint32_t place;             /* on the machine; 0 is nearest to the network */
    uint32_t max, least;        /* members of the fullest and the emptiest machine */
    uint32_t *size;             /* [machines] members */
    uint32_t *member;           /* [machines][most] rank at a place */
    uint32_t *at;               /* [ranks] machine */
} sched_hierarchy;

void sched_hierarchy_begin(sched_writer *w, sched_hierarchy *out); /* without layout: one machine */
void sched_hierarchy_end(sched_hierarchy *v);

static inline uint32_t sched_hierarchy_member(const sched_hierarchy *v, uint32_t machine,
                                              uint32_t place)
{
    return v->member[machine * v->max + place];
}

/* Part i of n of a span, as equal as whole elements allow; parts of long spans begin at cache
 * lines. */
sched_span sched_hierarchy_share(const sched_writer *w, sched_span whole, uint32_t i, uint32_t n);

/* Number of leaders per machine in an all-reduce. */
uint32_t sched_hierarchy_leaders(const sched_hierarchy *v);

/* An all-reduce: leader j of each machine owns part j. */
typedef struct sched_lead {
    sched_hierarchy v;
    uint32_t leaders;
    sched_landing intra, inter;
} sched_lead;

/* Where a leader has its machine's sum, from byte `at` of the whole. */
sched_place sched_hierarchy_summed(const sched_lead *d, uint64_t at);

/* hierarchical_compress.c: the inter-node phase of the leaders for chunk `s` of their `part`, and
 * the number of places each chunk takes in d->inter; and sending the sum for q, the nth rank that
 * this member is responsible for. */
uint32_t sched_hierarchy_codes(const sched_hierarchy *v);
void sched_hierarchy_keep_residual(const sched_hierarchy *v,
                                   uint64_t longest); /* bytes of a leader's part */
void sched_hierarchy_inter_node(const sched_lead *d, sched_span s, sched_span part, uint64_t chunk);
void sched_hierarchy_round(const sched_lead *d, sched_span s, uint64_t chunk);
void sched_hierarchy_send_code(sched_hierarchy *v, uint32_t q, uint32_t nth, sched_span s,
                               sched_place sum, sched_place code);

/* The member of `machine` that is responsible for rank q. */
uint32_t sched_hierarchy_leads_for(const sched_hierarchy *v, uint32_t machine, uint32_t q);

/* The leader of a machine in operations with a root, and the member at node `index` of the tree
 * below it. */
uint32_t sched_hierarchy_root_leader(const sched_hierarchy *v, uint32_t machine);
uint32_t sched_hierarchy_node(const sched_hierarchy *v, uint32_t machine, uint32_t index);

double sched_hierarchy_terms(sched_writer *w, sched_traffic *t); /* hierarchical_terms.c */

/* Tree broadcast and reduce: hierarchical_tree.c. */
void sched_hierarchy_broadcast(sched_hierarchy *v);
void sched_hierarchy_reduce(sched_hierarchy *v);

#endif
