/* schedule/algorithm.h: the collective algorithms, their interface, and their selection.
 *
 * An algorithm is a function that writes the steps of one rank (writer.h), and formulas of what it
 * costs. Plugins cannot add one. To add one: a file in alg/, its extern below, a line at the end of
 * alg/table.c, its name in the help of comm.algorithm (config/options.c; then regenerate
 * docs/CONFIG.md), a row of `claims` in tests/schedule/terms_test.c. Tests that walk
 * sched_algorithms include it by themselves; others name algorithms: git grep double_tree tests.
 * The plan gets bytes and scratch by running emit(); terms() serves `auto` alone, and only where
 * costs are measured: other jobs use it by name, or by a threshold in select.c. */
#ifndef SCHEDULE_ALGORITHM_H
#define SCHEDULE_ALGORITHM_H

#include "schedule/writer.h"

/* Cost terms of a request, for the member with the most of each: latencies that follow one another,
 * messages and bytes that it sends; bytes that it reads to reduce. intra: intra-node; inter:
 * inter-node, where bytes count for all members of a machine together, because they share its
 * network. Without a layout all is intra-node. Bytes to all peers count alike: what sending to two
 * at once gains has no term (cost.c).
 *
 * fill: further bytes that have to pass one after the other while this member sends nothing: the
 * first chunk on its way through a pipeline, or what one rank receives beyond what any sends. The
 * longest path takes as long as `bytes` + `fill` one after the other. */
typedef struct sched_way {
    double rounds, messages, bytes, fill;
} sched_way;
typedef struct sched_terms {
    sched_way intra, inter;
    double reduced;
} sched_terms;

typedef struct sched_traffic sched_traffic; /* terms.h */

#define SCHED_ON(kind) (1u << (kind))

struct sched_algorithm {
    const char *name;
    uint32_t kinds; /* SCHED_ON(kind) | ... */
    uint32_t maps;  /* accesses peers' memory: needs a link that maps */
    uint32_t once;  /* reads all inputs of an element at once: a sum is rounded once */
    uint64_t chunk; /* bytes of a message's chunks unless the request says; 0: never cut */
    void (*emit)(sched_writer *w);
    /* The formulas of its top comment: adds who sends what, and returns the bytes that the busiest
     * member reads to reduce. NULL: unknown. */
    double (*terms)(sched_writer *w, sched_traffic *t);
};

/* Used for every request with compression, and for nothing else. */
extern const sched_algorithm sched_compressed;

/* Whether devices that import each other's memory execute this request themselves with this
 * algorithm (core/comm/import_peer.c); and whether they support its reduction. */
int sched_device_reads_peers(const sched_request *r, const sched_algorithm *a);
int sched_device_reduce_able(const sched_request *r);

/* By name; the one-rank case and `auto` are resolved by select.c. */
extern const sched_algorithm sched_ring, sched_halving, sched_pairwise, sched_one_shot,
    sched_mapped;
extern const sched_algorithm sched_tree, sched_chain, sched_dissemination, sched_single;
extern const sched_algorithm sched_doubling, sched_double_tree, sched_bruck;
extern const sched_algorithm sched_hierarchical;
extern const sched_algorithm *const sched_algorithms[]; /* NULL-ended */

/* sched_make() with this algorithm, which need not be in the table (used by `weft tune`); ignores
 * the algorithm named in the request. */
weft_status sched_make_with(const sched_request *r, const sched_algorithm *a, sched_schedule **out);

/* Whether it supports this request over this link. */
bool sched_able(const sched_algorithm *a, const sched_request *r);

/* The algorithm that `auto` selects for this request: the same on every rank of the group. By
 * r->cost (cost.c), or without costs or terms, by thresholds (select.c). */
const sched_algorithm *sched_select(const sched_request *r);
const sched_algorithm *sched_cheapest(const sched_request *r); /* NULL: by thresholds */

/* The algorithm that the request names, or that `auto` selects; WEFT_USAGE, listing those that
 * support the request, when the named one does not. [plan] */
weft_status sched_choose(const sched_request *r, const sched_algorithm **out);

/* The terms of the request by `a`, which has formulas and supports it. */
void sched_terms_of(const sched_algorithm *a, const sched_request *r, sched_terms *out);

double sched_seconds(const sched_terms *t, const sched_cost *c);

/* Predicted seconds of the request by `a`, which supports it; negative: unknown. */
double sched_predict(const sched_algorithm *a, const sched_request *r);

/* Whether partial sums would be rounded on the way. */
int sched_sum_rounds(const sched_request *r);

/* A phase that several algorithms share: begins with part `me` at `mine`, ends with all parts in
 * out of the root. */
void sched_gather_to_root(sched_writer *w, sched_place mine);

#endif
