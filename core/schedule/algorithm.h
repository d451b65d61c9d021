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
typedef struct comm_way {
    double rounds, messages, bytes, fill;
} comm_way;
typedef struct comm_terms {
    comm_way near, far;
    double reduced;
} comm_terms;

#define COMM_ON(kind) (1u << (kind))

struct comm_algorithm {
    const char *name;
    uint32_t kinds; /* COMM_ON(kind) | ... */
    uint32_t maps;  /* touches peers' memory: needs a link that maps */
    uint32_t once;  /* reads all inputs of an element at once: a sum is rounded once */
    uint64_t chunk; /* bytes, see builder; 0: never cut */
    void (*emit)(sched_writer *b);
    void (*terms)(const comm_request *r, comm_terms *out); /* the formulas of its top comment */
};

/* What every request with a form to compress to takes; it has no other use. */
extern const comm_algorithm comm_compressed;

/* Can devices that import each other's memory do the work of this request themselves? Does it by
 * this algorithm (core/comm/import_peer.c)? */
int comm_attached(const comm_request *r, const comm_algorithm *a);
int attach_able(const comm_request *r);

/* By name; the one-rank case and `auto` are resolved by select.c. */
extern const comm_algorithm comm_ring, comm_halving, comm_direct, comm_exchange, comm_mapped;
extern const comm_algorithm comm_tree, comm_chain, comm_dissemination, comm_alone;
extern const comm_algorithm comm_doubling, comm_double_tree, comm_bruck;
extern const comm_algorithm comm_hierarchical;
extern const comm_algorithm *const comm_algorithms[]; /* NULL-ended */

/* comm_schedule_make() with this algorithm, which need not be in the table (tune.c), whatever the
 * request's name says. */
weft_status comm_schedule_with(const comm_request *r, const comm_algorithm *a, comm_schedule **out);

/* Can it do this request, over this link? */
int comm_able(const comm_algorithm *a, const comm_request *r);

/* The algorithm that `auto` means for this request: the same on every rank of the group. By
 * r->cost (cost.c), or where there is none, or no algorithm has terms, by thresholds (select.c). */
const comm_algorithm *comm_select(const comm_request *r);
const comm_algorithm *comm_cheapest(const comm_request *r); /* NULL: by thresholds */

/* The algorithm that the request names, or that `auto` means; WEFT_USAGE, naming those that can,
 * when the named one cannot do it. [plan] */
weft_status comm_choose(const comm_request *r, const comm_algorithm **out);

double comm_seconds(const comm_terms *t, const comm_cost *c);

/* Seconds of the request by `a`, which is able to do it; negative: not known. */
double comm_predict(const comm_algorithm *a, const comm_request *r);

/* Partial sums would be rounded on their way, were they to travel. */
int comm_sum_rounds(const comm_request *r);

/* Phases that several algorithms share. The first two begin with every rank's in [count] and end
 * with part `me` of the result at `to`; the gathers begin with part `me` in place in out. */
void ring_reduce_scatter(sched_writer *b, comm_place to);
void ring_all_gather(sched_writer *b);
void gather_to_root(sched_writer *b, comm_place mine);

#endif
