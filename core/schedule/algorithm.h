/* schedule/algorithm.h: what an algorithm is, which there are, and how one is chosen.
 *
 * An algorithm is a function that writes the steps of one rank (writer.h), and formulas of what it
 * costs. To add one: a file in alg/, and a line in alg/table.c. */
#ifndef SCHEDULE_ALGORITHM_H
#define SCHEDULE_ALGORITHM_H

#include "schedule/writer.h"

/* What a request takes by an algorithm, for the member with the most of each: latencies that follow
 * one another, messages and bytes that it sends; bytes that it reads to reduce. near: between
 * members of one machine; far: between machines, where bytes count for all members of a machine
 * together, since they share its way out. Without a layout all is near.
 *
 * fill: further bytes that have to pass one after the other while this member sends nothing: the
 * first chunk on its way through a pipeline, or what one rank receives beyond what any sends. So
 * the longest way takes as long as `bytes` + `fill` one after the other. */
typedef struct sched_way {
    double rounds, messages, bytes, fill;
} sched_way;
typedef struct sched_terms {
    sched_way near, far;
    double reduced;
} sched_terms;

#define SCHED_ON(kind) (1u << (kind))

struct sched_algorithm {
    const char *name;
    uint32_t kinds; /* SCHED_ON(kind) | ... */
    uint32_t maps;  /* touches peers' memory: needs a link that maps */
    uint32_t once;  /* reads all inputs of an element at once: a sum is rounded once */
    uint64_t chunk; /* bytes, see builder; 0: never cut */
    void (*emit)(sched_writer *b);
    void (*terms)(const sched_request *r, sched_terms *out); /* the formulas of its top comment */
};

/* What every request with a form to compress to takes; it has no other use. */
extern const sched_algorithm sched_compressed;

/* Can devices that import each other's memory do the work of this request themselves? Does it by
 * this algorithm (core/comm/import_peer.c)? */
int sched_device_reads_peers(const sched_request *r, const sched_algorithm *a);
int sched_device_reduce_able(const sched_request *r);

/* By name; the one-rank case and `auto` are resolved by select.c. */
extern const sched_algorithm sched_ring, sched_halving, sched_pairwise, sched_one_shot,
    sched_mapped;
extern const sched_algorithm sched_tree, sched_chain, sched_dissemination, sched_single;
extern const sched_algorithm sched_doubling, sched_double_tree, sched_bruck;
extern const sched_algorithm sched_hierarchical;
extern const sched_algorithm *const sched_algorithms[]; /* NULL-ended */

/* sched_make() with this algorithm, which need not be in the table (tune.c), whatever the
 * request's name says. */
weft_status sched_make_with(const sched_request *r, const sched_algorithm *a, sched_schedule **out);

/* Can it do this request, over this link? */
bool sched_able(const sched_algorithm *a, const sched_request *r);

/* The algorithm that `auto` means for this request: the same on every rank of the group. By
 * r->cost (cost.c), or where there is none, or no algorithm has terms, by thresholds (select.c). */
const sched_algorithm *sched_select(const sched_request *r);
const sched_algorithm *sched_cheapest(const sched_request *r); /* NULL: by thresholds */

/* The algorithm that the request names, or that `auto` means; WEFT_USAGE, naming those that can,
 * when the named one cannot do it. [plan] */
weft_status sched_choose(const sched_request *r, const sched_algorithm **out);

double sched_seconds(const sched_terms *t, const sched_cost *c);

/* Seconds of the request by `a`, which is able to do it; negative: not known. */
double sched_predict(const sched_algorithm *a, const sched_request *r);

/* Partial sums would be rounded on their way, were they to travel. */
int sched_sum_rounds(const sched_request *r);

/* Phases that several algorithms share. The first two begin with every rank's in [count] and end
 * with part `me` of the result at `to`; the gathers begin with part `me` in place in out. */
void sched_ring_reduce_scatter(sched_writer *b, sched_place to);
void sched_ring_all_gather(sched_writer *b);
void sched_gather_to_root(sched_writer *b, sched_place mine);

#endif
