/* run/view/trace_part.h: the part of a rank of a trace: a file of records, which its own steps
 * write and the program that merges the parts reads (run_additions.join_trace).
 *
 * A step that is traced pays for each byte that it writes, so what is the same in all steps is
 * written once: an event names a subject, and the subject of number n is the n-th one of the part.
 * A record that a dying rank has left unfinished is the last. Ranks of one job share the layout. */
#ifndef RUN_VIEW_TRACE_PART_H
#define RUN_VIEW_TRACE_PART_H

#include "run/view/trace.h"

#include <stdio.h>

/* Texts of a subject: its name, and of an operation algorithm and channel. */
#define TRACE_TEXTS_MAX 3u
#define TRACE_TEXT_BYTES 200u

typedef enum run_trace_kind {
    TRACE_CLOCK,   /* a run_trace_clock follows */
    TRACE_SUBJECT, /* a run_trace_subject and its texts follow */
    TRACE_EVENT,   /* a slice */
    TRACE_END,     /* the part is complete */
} run_trace_kind;

typedef struct run_trace_record {
    uint8_t kind, lane;
    uint8_t numbered;      /* 1: `nth` is a micro-batch */
    uint32_t subject;      /* its number */
    uint32_t step;         /* since the first traced one */
    uint32_t nth;          /* run_trace_event.nth */
    uint64_t began, ended; /* ns of the rank's own clock */
} run_trace_record;

/* The clock of rank 0 was so far ahead at `began`. */
typedef struct run_trace_clock {
    int64_t ahead;  /* ns */
    uint64_t error; /* ns that `ahead` may be wrong by */
} run_trace_clock;

/* What events are about. */
typedef struct run_trace_subject {
    uint64_t live;         /* of TRACE_COMPUTE: plan_entry.live */
    uint64_t bytes, sent;  /* of an operation, as the rest */
    uint32_t ranks;        /* how many take part */
    uint32_t before;       /* the rank that an arrow comes from; of a pair the other one */
    uint8_t pair, out, in; /* 0 or 1; arrows begin at it and end at it */
    uint8_t texts;         /* how many follow, each with a 0 at its end */
    uint16_t text_bytes;   /* of them */
} run_trace_subject;

/* The parts of all ranks, to be merged into OUT/trace.json and removed. */
typedef struct run_trace_parts {
    const char *out;
    uint32_t ranks;
    const graph_mesh *mesh;
    uint64_t first; /* traced step */
    bool whole;     /* all are there and complete; else the job failed, and some may lack */
} run_trace_parts;

static inline void run_trace_part_path(const char *out_dir, uint32_t rank, char path[4096])
{
    snprintf(path, 4096, "%s/.trace-%u.part", out_dir, rank);
}

#endif
