/* schedule/writer.h: the interface with which an algorithm writes a schedule.
 *
 * An algorithm writes its steps for one rank as if each finished before the next began. The writer
 * derives the dependencies from the places that the steps access (deps.h), so chunks overlap
 * without the algorithm mentioning it. Messages between two ranks are matched by order alone: both
 * ranks have to write the messages of a pair in the same order.
 *
 * An algorithm runs twice: once counting only, cheap enough to plan thousands of ranks, and once
 * more when an operation is created, which keeps the steps. */
#ifndef SCHEDULE_WRITER_H
#define SCHEDULE_WRITER_H

#include "schedule/deps.h"

typedef struct sched_algorithm sched_algorithm; /* algorithm.h */

typedef struct sched_writer {
    const sched_request *r;
    uint64_t size;  /* bytes of an element */
    uint64_t bytes; /* of the larger side */
    uint64_t chunk; /* chunk size of long messages in bytes, so that later steps may begin */
    int fair;       /* the algorithm chooses the parts; else they are count / ranks */
    int lines;      /* all parts begin at cache lines */
    int alias;      /* in place: one of IN and OUT is `alias_to` from byte `alias_at` */
    uint32_t alias_to;
    uint64_t alias_at;
    uint64_t scratch, sent, residual_bytes;
    uint32_t steps, places;
    uint32_t open;          /* the step that sched_writer_open() began */
    sched_step open_as;     /* that step so far */
    sched_deps *track;      /* NULL while counting */
    sched_program *program; /* likewise */
} sched_writer;

typedef struct sched_span {
    uint64_t at, bytes;
} sched_span;

/* A writer that counts. */
sched_writer sched_writer_begin(const sched_request *r, const sched_algorithm *a);

/* The part of rank i: part i of n, as equal as whole elements allow; parts of
 * 4 KiB or more begin at multiples of 64 bytes where the algorithm chooses the parts (`fair`). */
sched_span sched_writer_part(const sched_writer *w, uint32_t i);
sched_span sched_writer_parts(const sched_writer *w, uint32_t first,
                              uint32_t end);               /* parts first ... end - 1 */
uint64_t sched_writer_longest_part(const sched_writer *w); /* bytes of the longest part */

/* Chunk c of a span; 0 bytes beyond its end. */
sched_span sched_writer_chunk(const sched_writer *w, sched_span whole, uint64_t c);
uint64_t sched_writer_chunks(const sched_writer *w, uint64_t bytes);

static inline sched_place sched_in_at(uint64_t at)
{
    return (sched_place){SCHED_IN, 0, at};
}

static inline sched_place sched_out_at(uint64_t at)
{
    return (sched_place){SCHED_OUT, 0, at};
}

static inline sched_place sched_peer_in(uint32_t rank, uint64_t at)
{
    return (sched_place){SCHED_PEER_IN, rank, at};
}

static inline sched_place sched_peer_out(uint32_t rank, uint64_t at)
{
    return (sched_place){SCHED_PEER_OUT, rank, at};
}

static inline sched_place sched_place_plus(sched_place p, uint64_t bytes)
{
    p.at += bytes;
    return p;
}

/* Rounds up to whole cache lines. */
static inline uint64_t sched_align_line(uint64_t bytes)
{
    return (bytes + 63) & ~(uint64_t)63;
}

sched_place sched_writer_scratch(sched_writer *w, uint64_t bytes);

/* Landing buffers: scratch for the contributions to a chunk, of a few chunks in turn. */
typedef struct sched_landing {
    sched_place base;
    uint64_t stride, each; /* bytes of a contribution, and of a chunk with all of them */
} sched_landing;

#define SCHED_LANDING_CHUNKS 3 /* in flight at once */

/* For `places` contributions to each chunk of the first `longest` bytes. The second function: to a
 * whole chunk each has `bytes`, as a code does. */
sched_landing sched_writer_landing(sched_writer *w, uint64_t longest, uint32_t places);
sched_landing sched_writer_landing_of(sched_writer *w, uint64_t longest, uint64_t bytes,
                                      uint32_t places);
sched_place sched_landed(const sched_landing *l, uint64_t chunk, uint32_t place);

/* The place of another rank's contribution where this one's needs none. */
static inline uint32_t sched_writer_place(const sched_writer *w, uint32_t rank)
{
    return rank < w->r->me ? rank : rank - 1;
}

/* 0 bytes of data make no step, at both ends. */
void sched_writer_send(sched_writer *w, uint32_t peer, sched_place from, uint64_t bytes);
void sched_writer_recv(sched_writer *w, uint32_t peer, sched_place to, uint64_t bytes);
void sched_writer_copy(sched_writer *w, sched_place to, sched_place from, uint64_t bytes);
void sched_writer_reduce2(sched_writer *w, sched_place to, sched_place first, sched_place second,
                          uint64_t bytes);

/* A reduction of any width, or a step of a compressed sum, over `bytes` of elements: then its
 * sources in order, then its destinations. Source number `plain` of a compressed sum is not a code;
 * 0 for other steps. */
void sched_writer_open(sched_writer *w, uint32_t what, uint32_t plain, uint64_t bytes);
void sched_writer_from(sched_writer *w, sched_place from);
void sched_writer_to(sched_writer *w, sched_place to);

/* Steps of a staged operation, whose buffers are mirrored in host memory (mirror.h). */
void sched_writer_fetch(sched_writer *w, sched_place to, uint64_t bytes);
void sched_writer_store(sched_writer *w, sched_place from, uint64_t bytes);

/* Each returns its step's number. A step that accesses no memory; messages without operation data:
 * a signal, its wait. */
uint32_t sched_writer_flag(sched_writer *w, uint32_t what);
uint32_t sched_writer_signal(sched_writer *w, uint32_t peer);
uint32_t sched_writer_wait(sched_writer *w, uint32_t peer);

/* Messages of this rank's buffer offsets. */
void sched_writer_send_offsets(sched_writer *w, uint32_t peer);
void sched_writer_recv_offsets(sched_writer *w, uint32_t peer);

/* `step` also depends on `earlier`; either may be SCHED_NO_STEP. */
void sched_writer_after(sched_writer *w, uint32_t step, uint32_t earlier);

#endif
