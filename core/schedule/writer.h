/* schedule/writer.h: how an algorithm writes a schedule.
 *
 * An algorithm writes its steps for one rank as if each were finished before the next began. The
 * writer finds from the places that the steps touch which of them have to wait for which (deps.h),
 * so chunks overlap although the algorithm does not mention it.
 *
 * An algorithm runs twice: once counting, which is cheap enough to plan thousands of ranks, and
 * once more when an operation is made ready, which keeps the steps. */
#ifndef SCHEDULE_WRITER_H
#define SCHEDULE_WRITER_H

#include "schedule/deps.h"

typedef struct comm_algorithm comm_algorithm; /* algorithm.h */

typedef struct sched_writer {
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
    sched_deps *track;     /* NULL while counting */
    comm_program *program; /* likewise */
} sched_writer;

typedef struct sched_span {
    uint64_t at, bytes;
} sched_span;

/* A builder that counts. */
sched_writer build_for(const comm_request *r, const comm_algorithm *a);

/* What belongs to rank i: part i of n, as equal as whole elements allow; of a long message parts
 * begin at multiples of 64 bytes. */
sched_span sched_writer_part(const sched_writer *b, uint32_t i);
sched_span build_parts(const sched_writer *b, uint32_t first,
                       uint32_t end);          /* parts first ... end - 1 */
uint64_t build_longest(const sched_writer *b); /* bytes of the longest part */

/* Chunk c of a span; bytes 0 beyond its end. */
sched_span build_chunk(const sched_writer *b, sched_span whole, uint64_t c);
uint64_t build_chunks(const sched_writer *b, uint64_t bytes);

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
static inline uint64_t sched_align_line(uint64_t bytes)
{
    return (bytes + 63) & ~(uint64_t)63;
}

comm_place build_scratch(sched_writer *b, uint64_t bytes);

/* Each returns its step's number. 0 bytes of data make no step (COMM_NO_STEP), at both ends. */
uint32_t build_send(sched_writer *b, uint32_t peer, comm_place from, uint64_t bytes);
uint32_t build_recv(sched_writer *b, uint32_t peer, comm_place to, uint64_t bytes);
uint32_t build_copy(sched_writer *b, comm_place to, comm_place from, uint64_t bytes);
uint32_t build_reduce2(sched_writer *b, comm_place to, comm_place first, comm_place second,
                       uint64_t bytes);

/* A reduction of any width: begin, then its sources in order, its destinations, end. */
void build_reduce(sched_writer *b, uint64_t bytes);
void build_from(sched_writer *b, comm_place from);
void build_to(sched_writer *b, comm_place to);
uint32_t build_reduced(sched_writer *b);

/* A step of a compressed sum over `bytes` of elements, its places written like a reduction's. Of
 * the sources of a sum number `plain` is not a code. */
void build_coding(sched_writer *b, uint32_t what, uint64_t bytes);
void build_summing(sched_writer *b, uint32_t what, uint32_t plain, uint64_t bytes);

/* Steps of an operation whose buffers are mirrored in host memory (mirror.h). */
uint32_t build_fetch(sched_writer *b, comm_place to, uint64_t bytes);
uint32_t build_store(sched_writer *b, comm_place from, uint64_t bytes);
uint32_t build_flag(sched_writer *b, uint32_t what); /* one of them that touches nothing */

/* Messages without data of the operation: a signal, its wait, and this rank's whereabouts. */
uint32_t build_signal(sched_writer *b, uint32_t peer);
uint32_t build_wait(sched_writer *b, uint32_t peer);
void build_tell_place(sched_writer *b, uint32_t peer);
void build_hear_place(sched_writer *b, uint32_t peer);

/* `step` also waits for `earlier`; COMM_NO_STEP for either is allowed. */
void build_after(sched_writer *b, uint32_t step, uint32_t earlier);

/* Others read `bytes` of this rank's memory themselves: counts as sent. */
void build_lent(sched_writer *b, uint64_t bytes);

#endif
