/* schedule/program.h: the steps of a schedule, the memory that they access, and their dependencies.
 *
 * A step depends on earlier steps whose result it reads or whose source it overwrites (deps.h). Two
 * more rules set the order. Sends to one peer are posted in list order, and so are receives from
 * one peer, because a link matches messages by order only. Dependencies that memory accesses do not
 * show (a signal) are added with sched_writer_after(). Steps depend on earlier steps only, so a
 * list cannot deadlock on itself. */
#ifndef SCHEDULE_PROGRAM_H
#define SCHEDULE_PROGRAM_H

#include "schedule/schedule.h"

/* Buffers that steps access. OFFSETS holds one sched_buffer_offsets per rank: this rank's own,
 * which it sends, and those received from peers. RESIDUAL persists from one start to the next
 * (error-feedback residual). PEER_IN and PEER_OUT are the in and out buffers of another rank, in
 * its arena as mapped here. */
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

/* Offsets of a rank's buffers in its arena, sent to peers that map it. SCHED_NO_OFFSET: it has no
 * such buffer. */
#define SCHED_NO_OFFSET UINT64_MAX
typedef struct sched_buffer_offsets {
    uint64_t in, out;
} sched_buffer_offsets;

#define SCHED_SEND 0u   /* from[0], `bytes` of it (0: a signal), to `peer`          */
#define SCHED_RECV 1u   /* to[0], `bytes`, from `peer`                              */
#define SCHED_REDUCE 2u /* each to[] = from[0] op from[1] op ..., in this order     */
#define SCHED_COPY 3u   /* to[0] = from[0]                                          */

/* Steps of compressed sums (alg/compress.c). `bytes` counts the uncompressed elements;
 * sched_code_touched() gives the bytes accessed at a place. A residual is added first, then
 * replaced by the new one.
 *
 *   ENCODE         to[0] = code of from[0] + to[1]; to[1], if present, is the residual
 *   REDUCE_DECODE  to[0] = sum of all from[]: codes, except that number `peer` is plain elements
 *   REDUCE_ENCODE  the same, but to[0] = code of the sum, to[1] = that decoded, to[2] = residual if
 *                  present
 *   DECODE         to[0] = decoded code from[0] */
#define SCHED_ENCODE 4u
#define SCHED_REDUCE_DECODE 5u
#define SCHED_REDUCE_ENCODE 6u
#define SCHED_DECODE 7u
#define SCHED_FETCH 8u /* to[0] has been copied from the device (core/comm/staging.c) */
#define SCHED_STORE 9u /* from[0] may be copied to the device */

typedef struct sched_step {
    uint32_t what, peer; /* peer: rank of the group; SEND and RECV. REDUCE_...: see above */
    uint64_t bytes;
    uint32_t place, nfrom, nto; /* program->place[place]: nfrom sources, then nto destinations */
    uint32_t need;              /* number of steps it depends on */
    uint32_t next, nexts;       /* program->next[next]: the steps that depend on it */
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
    uint32_t widest; /* most places in one step */
} sched_program;

/* Makes the steps of a schedule. Freed by sched_program_free(). [setup] */
void sched_program_make(const sched_schedule *s, sched_program *out);
void sched_program_free(sched_program *p);

/* Bytes of in and out at this rank. */
void sched_sides(const sched_request *r, uint64_t *in, uint64_t *out);

#endif
