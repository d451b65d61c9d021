/* job/store/parts.h: the answer to an exchange: the parts of all ranks, equal ones once.
 *
 * Most exchanges at start bring the same part from every rank, or one for each machine. The store
 * keeps each different part once, in the order of first appearance by rank, and answers:
 *
 *   different  varint   how many different parts there are
 *   runs       varint   how many runs of ranks with equal parts
 *   runs times: part    varint   number of the part
 *               count   varint   how many ranks in a row have it, at least 1
 *   parts               the bytes of each different part
 *
 * A varint has seven bits a byte, the lowest first; the top bit says that more follow. An answer to
 * n ranks whose parts are equal takes a few bytes more than one part, so rank 0 sends n parts in
 * all, and not n times n. */
#ifndef JOB_PARTS_H
#define JOB_PARTS_H

#include <weft/base.h>

typedef struct parts {
    uint32_t ranks, different, room;
    uint64_t bytes;   /* of a part                        */
    uint32_t *which;  /* [ranks] number of its part       */
    uint64_t *digest; /* [room] of each different part    */
    uint8_t *at;      /* [room * bytes] different parts   */
} parts;

/* An upper bound of what an answer takes besides `ranks` parts. */
#define PARTS_OVERHEAD(ranks) (10 * (uint64_t)(ranks) + 10)

void job_parts_begin(parts *p, uint32_t ranks, uint64_t bytes);
void job_parts_end(parts *p); /* gives the memory back; any number of times */

/* The part of a rank, once for each. */
void job_parts_add(parts *p, uint32_t rank, const void *part);

/* The answer, the caller's to free(). Numbers parts anew, by the order of ranks. */
uint8_t *job_parts_pack(const parts *p, uint64_t *n);

/* Spread an answer: the part of rank r goes to all + r * stride. `all` is NULL where `bytes` is 0.
 * WEFT_DATA: the answer is none for this many ranks and bytes; what was written is to be ignored.
 */
weft_status job_parts_spread(const uint8_t *answer, uint64_t n, uint32_t ranks, uint64_t bytes,
                             uint8_t *all, uint64_t stride);

#endif
