/* job/store/parts.h: the answer to an exchange: the parts of all ranks, with equal parts stored
 * once.
 *
 * Most exchanges at start have the same part from every rank, or one for each machine. The store
 * keeps each distinct part once, in the order of first appearance by rank, and answers:
 *
 *   different  varint   number of distinct parts
 *   runs       varint   number of runs of ranks with equal parts
 *   runs times: part    varint   number of the part
 *               count   varint   consecutive ranks that have it, at least 1
 *   parts               the bytes of each distinct part
 *
 * A varint has seven bits per byte, lowest first; the top bit says that more follow. If the parts
 * of n ranks are equal, an answer is a few bytes larger than one part, so rank 0 sends n parts in
 * all instead of n times n. */
#ifndef JOB_PARTS_H
#define JOB_PARTS_H

#include <weft/base.h>

typedef struct job_parts {
    uint32_t ranks, different, capacity;
    uint64_t bytes;   /* of a part */
    uint32_t *which;  /* [ranks] number of its part */
    uint64_t *digest; /* [room] of each distinct part */
    uint8_t *at;      /* [room * bytes] distinct parts */
} job_parts;

/* Upper bound of the size of an answer beyond `ranks` parts. */
#define PARTS_OVERHEAD(ranks) (10 * (uint64_t)(ranks) + 10)

void job_parts_begin(job_parts *p, uint32_t ranks, uint64_t bytes);
void job_parts_end(job_parts *p); /* frees the memory; idempotent */

/* Add the part of a rank, once for each rank. */
void job_parts_add(job_parts *p, uint32_t rank, const void *part);

/* The answer; the caller frees it. Renumbers the parts in the order of ranks. */
uint8_t *job_parts_pack(const job_parts *p, uint64_t *n);

/* Unpack an answer: the part of rank r goes to all + r * stride. `all` is NULL where `bytes` is 0.
 * WEFT_DATA: malformed for this many ranks and bytes; ignore what was written. */
weft_status job_parts_spread(const uint8_t *answer, uint64_t n, uint32_t ranks, uint64_t bytes,
                             uint8_t *all, uint64_t stride);

#endif
