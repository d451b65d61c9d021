/* schedule/program.h: what a schedule is made of: steps, the memory that they touch, and who waits
 * for whom.
 *
 * A step waits for the earlier steps whose result it needs or whose source it overwrites (deps.h).
 * Two more rules give a step its time. The sends to one peer are posted in the order of the list,
 * and so are the receives from one peer, because a link matches them by order alone. And what does
 * not follow from places (a signal) is said with sched_writer_after(). Steps only wait for earlier
 * ones, so a list cannot wait for itself. */
#ifndef SCHEDULE_PROGRAM_H
#define SCHEDULE_PROGRAM_H

#include "schedule/schedule.h"

/* Memory that steps touch. PLACES holds one sched_buffer_offsets a rank: this rank's own, to be
 * sent, and those that peers have sent. KEPT stays from one start to the next. PEER_IN and PEER_OUT
 * are the in and out of another rank, in its arena as mapped here. */
#define SCHED_IN 0u
#define SCHED_OUT 1u
#define SCHED_SCRATCH 2u
#define SCHED_OFFSETS 3u
#define SCHED_RESIDUAL 4u
#define SCHED_PEER_IN 5u
#define SCHED_PEER_OUT 6u

typedef struct sched_place {
    uint32_t buffer, rank; /* rank (of the group): PEER_IN and PEER_OUT */
    uint64_t at;           /* bytes from its start */
} sched_place;

/* Where a rank's buffers lie in its arena, as told to peers that map it. SCHED_NO_OFFSET: it has no
 * such buffer. */
#define SCHED_NO_OFFSET UINT64_MAX
typedef struct sched_buffer_offsets {
    uint64_t in, out;
} sched_buffer_offsets;

#define SCHED_SEND 0u   /* from[0], `bytes` of it (0: a signal), to `peer`          */
#define SCHED_RECV 1u   /* to[0], `bytes`, from `peer`                              */
#define SCHED_REDUCE 2u /* each to[] = from[0] op from[1] op ..., in this order     */
#define SCHED_COPY 3u   /* to[0] = from[0]                                          */

/* Steps of compressed sums (compress.c), whose `bytes` are those of the elements;
 * sched_code_touched() says how many they touch at a place. What is kept is added first, and
 * written again.
 *
 *   ENCODE  to[0] = the code of from[0] + to[1], kept if there is such a place
 *   ADD     to[0] = the sum of all from[], which are codes but for number `peer`, elements
 *   FOLD    the same: to[0] = its code, to[1] = that decoded, to[2] kept if there is such a place
 *   DECODE  to[0] = what the code from[0] says */
#define SCHED_ENCODE 4u
#define SCHED_REDUCE_DECODE 5u
#define SCHED_REDUCE_ENCODE 6u
#define SCHED_DECODE 7u
#define SCHED_FETCH 8u /* to[0] has been copied from the device (stage.c) */
#define SCHED_STORE 9u /* from[0] may be copied to the device */

typedef struct sched_step {
    uint32_t what, peer; /* peer: rank of the group; SEND and RECV. ADD, FOLD: see above */
    uint64_t bytes;
    uint32_t place, nfrom, nto; /* program->place[place]: nfrom sources, then nto destinations */
    uint32_t need;              /* how many steps it waits for */
    uint32_t next, nexts;       /* program->next[next]: the steps that wait for it */
} sched_step;

/* The sends to and receives from one peer, in order: numbers of steps in program->order. */
typedef struct sched_lane {
    uint32_t peer;
    uint32_t send, sends;
    uint32_t recv, recvs;
} sched_lane;

typedef struct sched_program {
    sched_step *step; /* [steps] */
    sched_place *place;
    uint32_t *next, *order;
    sched_lane *lane; /* [lanes], by peer */
    uint32_t steps, lanes;
    uint32_t moves;  /* steps that are neither send nor receive */
    uint32_t widest; /* most places of one step */
} sched_program;

/* The steps of a schedule. Freed by sched_program_free(). [setup] */
void sched_program_make(const sched_schedule *s, sched_program *out);
void sched_program_free(sched_program *p);
const sched_request *sched_request_of(const sched_schedule *s);

/* Does the schedule read or write peers' memory? */
int sched_maps_peers(const sched_schedule *s);

/* Bytes of in and out at this rank. */
void sched_sides(const sched_request *r, uint64_t *in, uint64_t *out);

#endif
