/* comm/schedule.h: what a schedule is made of, and how an algorithm writes one.
 *
 * An algorithm writes down its steps for one rank as if each were finished before the next began.
 * From the places that the steps touch the builder finds which of them really have to wait for
 * which: a step waits for the earlier steps whose result it needs, or whose source it overwrites,
 * and for nothing else. So chunks overlap without a word about it in the algorithm.
 *
 * Two more rules give a step its time. The sends to one peer are posted in the order of the list,
 * and so are the receives from one peer, because a link matches them by order alone. And whatever
 * does not follow from places (a signal) is said with build_after(). Steps only ever wait for
 * earlier ones, so a list cannot wait for itself.
 *
 * An algorithm runs twice: once counting, which is cheap enough to plan thousands of ranks, and
 * once more when an operation is made ready, which keeps the steps. */
#ifndef COMM_SCHEDULE_H
#define COMM_SCHEDULE_H

#include "comm/comm.h"

/* Memory that steps touch. PLACES holds one comm_whereabouts a rank: this rank's own, to be sent,
 * and those that peers have sent. KEPT stays from one start to the next. PEER_IN and PEER_OUT are
 * the in and out of another rank, in its arena as mapped here. */
#define COMM_IN 0u
#define COMM_OUT 1u
#define COMM_SCRATCH 2u
#define COMM_PLACES 3u
#define COMM_KEPT 4u
#define COMM_PEER_IN 5u
#define COMM_PEER_OUT 6u

typedef struct comm_place {
    uint32_t buffer, rank; /* rank (of the group): PEER_IN and PEER_OUT */
    uint64_t at;           /* bytes from its start */
} comm_place;

/* Where a rank's buffers lie in its arena, as told to peers that map it. COMM_NOWHERE: it has no
 * such buffer. */
#define COMM_NOWHERE UINT64_MAX
typedef struct comm_whereabouts {
    uint64_t in, out;
} comm_whereabouts;

#define COMM_SEND 0u   /* from[0], `bytes` of it (0: a signal), to `peer`          */
#define COMM_RECV 1u   /* to[0], `bytes`, from `peer`                              */
#define COMM_REDUCE 2u /* each to[] = from[0] op from[1] op ..., in this order     */
#define COMM_COPY 3u   /* to[0] = from[0]                                          */

/* Steps of compressed sums (compress.c), whose `bytes` are those of the elements; code_touched()
 * says how many they touch at a place. What is kept is added first, and written again.
 *
 *   ENCODE  to[0] = the code of from[0] + to[1], kept if there is such a place
 *   ADD     to[0] = the sum of all from[], which are codes but for number `peer`, elements
 *   FOLD    the same: to[0] = its code, to[1] = that decoded, to[2] kept if there is such a place
 *   DECODE  to[0] = what the code from[0] says */
#define COMM_ENCODE 4u
#define COMM_ADD 5u
#define COMM_FOLD 6u
#define COMM_DECODE 7u
#define COMM_FETCH 8u /* to[0] has been copied from the device (stage.c) */
#define COMM_STORE 9u /* from[0] may be copied to the device */

typedef struct comm_step {
    uint32_t what, peer; /* peer: rank of the group; SEND and RECV. ADD, FOLD: see above */
    uint64_t bytes;
    uint32_t place, nfrom, nto; /* program->place[place]: nfrom sources, then nto destinations */
    uint32_t need;              /* how many steps it waits for */
    uint32_t next, nexts;       /* program->next[next]: the steps that wait for it */
} comm_step;

/* The sends to and receives from one peer, in order: numbers of steps in program->order. */
typedef struct comm_lane {
    uint32_t peer;
    uint32_t send, sends;
    uint32_t recv, recvs;
} comm_lane;

typedef struct comm_program {
    comm_step *step; /* [steps] */
    comm_place *place;
    uint32_t *next, *order;
    comm_lane *lane; /* [lanes], by peer */
    uint32_t steps, lanes;
    uint32_t moves;  /* steps that are neither send nor receive */
    uint32_t widest; /* most places of one step */
} comm_program;

/* The steps of a schedule. Freed by comm_program_free(). [setup] */
void comm_program_make(const comm_schedule *s, comm_program *out);
void comm_program_free(comm_program *p);
const comm_request *comm_schedule_request(const comm_schedule *s);

/* Does the schedule read or write peers' memory? May schedules over this link do that? */
int comm_schedule_maps(const comm_schedule *s);
int comm_link_maps(uint64_t link_caps);

const char *comm_kind_name(uint32_t kind); /* "all-reduce" */

/* --- for algorithms --- */

#define COMM_NO_STEP UINT32_MAX

typedef struct tracker tracker; /* depend.c */
typedef struct comm_algorithm comm_algorithm;

typedef struct builder {
    const comm_request *r;
    uint64_t size;  /* bytes of an element */
    uint64_t bytes; /* of the larger side */
    uint64_t chunk; /* bytes in which long messages are cut, so that what follows may begin */
    int fair;       /* parts are ours to choose; else they are count / ranks */
    int lines;      /* all of them begin at lines */
    int alias;      /* in place: one of IN and OUT is `alias_to` from `alias_at` on */
    uint32_t alias_to;
    uint64_t alias_at;
    uint64_t scratch, sent, kept;
    uint32_t steps, places, messages;
    uint32_t open;         /* the reduction that is being written */
    comm_step open_as;     /* that step so far */
    tracker *track;        /* NULL while counting */
    comm_program *program; /* likewise */
} builder;

typedef struct span {
    uint64_t at, bytes;
} span;

/* A builder that counts. */
builder build_for(const comm_request *r, const comm_algorithm *a);

/* What belongs to rank i: part i of n, as equal as whole elements allow; of a long message parts
 * begin at multiples of 64 bytes. */
span build_part(const builder *b, uint32_t i);
span build_parts(const builder *b, uint32_t first, uint32_t end); /* parts first ... end - 1 */
uint64_t build_longest(const builder *b);                         /* bytes of the longest part */

/* Chunk c of a span; bytes 0 beyond its end. */
span build_chunk(const builder *b, span whole, uint64_t c);
uint64_t build_chunks(const builder *b, uint64_t bytes);

static inline comm_place in_at(uint64_t at)
{
    return (comm_place){COMM_IN, 0, at};
}

static inline comm_place out_at(uint64_t at)
{
    return (comm_place){COMM_OUT, 0, at};
}

static inline comm_place peer_in(uint32_t rank, uint64_t at)
{
    return (comm_place){COMM_PEER_IN, rank, at};
}

static inline comm_place peer_out(uint32_t rank, uint64_t at)
{
    return (comm_place){COMM_PEER_OUT, rank, at};
}

static inline comm_place place_plus(comm_place p, uint64_t bytes)
{
    p.at += bytes;
    return p;
}

/* Whole cache lines. */
static inline uint64_t lines(uint64_t bytes)
{
    return (bytes + 63) & ~(uint64_t)63;
}

comm_place build_scratch(builder *b, uint64_t bytes);

/* Each returns its step's number. 0 bytes of data make no step (COMM_NO_STEP), at both ends. */
uint32_t build_send(builder *b, uint32_t peer, comm_place from, uint64_t bytes);
uint32_t build_recv(builder *b, uint32_t peer, comm_place to, uint64_t bytes);
uint32_t build_copy(builder *b, comm_place to, comm_place from, uint64_t bytes);
uint32_t build_reduce2(builder *b, comm_place to, comm_place first, comm_place second,
                       uint64_t bytes);

/* A reduction of any width: begin, then its sources in order, its destinations, end. */
void build_reduce(builder *b, uint64_t bytes);
void build_from(builder *b, comm_place from);
void build_to(builder *b, comm_place to);
uint32_t build_reduced(builder *b);

/* A step of a compressed sum over `bytes` of elements, its places written like a reduction's. Of
 * the sources of a sum number `plain` is not a code. */
void build_coding(builder *b, uint32_t what, uint64_t bytes);
void build_summing(builder *b, uint32_t what, uint32_t plain, uint64_t bytes);

/* Steps of an operation whose buffers are mirrored in host memory. */
uint32_t build_fetch(builder *b, comm_place to, uint64_t bytes);
uint32_t build_store(builder *b, comm_place from, uint64_t bytes);
int comm_attached(const comm_request *r, const comm_algorithm *a); /* by devices: attach.c */
int attach_able(const comm_request *r);                            /* can they do it? */
uint32_t build_flag(builder *b, uint32_t what); /* one of them that touches nothing */
void stage_fetches(builder *b);
void stage_stores(builder *b);
uint64_t stage_room(const comm_request *r); /* bytes of the mirror */

/* Bytes of in and out at this rank. */
void comm_sides(const comm_request *r, uint64_t *in, uint64_t *out);

/* Messages without data of the operation: a signal, its wait, and this rank's whereabouts. */
uint32_t build_signal(builder *b, uint32_t peer);
uint32_t build_wait(builder *b, uint32_t peer);
void build_tell_place(builder *b, uint32_t peer);
void build_hear_place(builder *b, uint32_t peer);

/* `step` also waits for `earlier`; COMM_NO_STEP for either is allowed. */
void build_after(builder *b, uint32_t step, uint32_t earlier);

/* Others read `bytes` of this rank's memory themselves: counts as sent. */
void build_lent(builder *b, uint64_t bytes);

/* --- an algorithm --- */

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
    void (*emit)(builder *b);
    void (*terms)(const comm_request *r, comm_terms *out); /* the formulas of its top comment */
};

/* What every request with a form to compress to takes; it has no other use. */
extern const comm_algorithm comm_compressed;

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

double comm_seconds(const comm_terms *t, const comm_cost *c);

/* Seconds of the request by `a`, which is able to do it; negative: not known. */
double comm_predict(const comm_algorithm *a, const comm_request *r);

/* Partial sums would be rounded on their way, were they to travel. */
int comm_sum_rounds(const comm_request *r);

/* Phases that several algorithms share. The first two begin with every rank's in [count] and end
 * with part `me` of the result at `to`; the gathers begin with part `me` in place in out. */
void ring_reduce_scatter(builder *b, comm_place to);
void ring_all_gather(builder *b);
void gather_to_root(builder *b, comm_place mine);

/* --- depend.c: who waits for whom --- */

tracker *track_create(void);
void track_destroy(tracker *t);
void track_read(tracker *t, uint32_t step, uint32_t buffer, uint64_t at, uint64_t bytes);
void track_write(tracker *t, uint32_t step, uint32_t buffer, uint64_t at, uint64_t bytes);
void track_after(tracker *t, uint32_t step, uint32_t earlier);

/* Fill in need, next and nexts of all steps. */
void track_finish(tracker *t, comm_program *p);

#endif
