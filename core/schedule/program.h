/* schedule/program.h: what a schedule is made of: steps, the memory that they touch, and who waits
 * for whom.
 *
 * A step waits for the earlier steps whose result it needs or whose source it overwrites (deps.h).
 * Two more rules give a step its time. The sends to one peer are posted in the order of the list,
 * and so are the receives from one peer, because a link matches them by order alone. And what does
 * not follow from places (a signal) is said with build_after(). Steps only wait for earlier ones,
 * so a list cannot wait for itself. */
#ifndef SCHEDULE_PROGRAM_H
#define SCHEDULE_PROGRAM_H

#include "schedule/schedule.h"

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

/* Does the schedule read or write peers' memory? */
int comm_schedule_maps(const comm_schedule *s);

/* Bytes of in and out at this rank. */
void comm_sides(const comm_request *r, uint64_t *in, uint64_t *out);

#endif
