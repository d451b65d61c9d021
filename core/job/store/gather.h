/* job/store/gather.h: all-gathers of some ranks of the job, several at the same time.
 *
 * An exchange (store.h) is of all ranks. A gather is of those that its request lists, and has a key
 * of its own, so groups of ranks gather independently of each other and of exchanges. All members
 * send the same list; the answer has the parts of the members in the order of the list (parts.h).
 * A request:
 *
 *   total    u64   bytes of each member's value, of which this request carries one fragment
 *   n        u32   members that follow; 0: all ranks of the job
 *   zero     u32
 *   members  u32   each, ascending
 *   fragment          the rest: the same number of bytes from each member
 *
 * All little-endian. Like the store it does no I/O and knows no clock. */
#ifndef JOB_GATHER_H
#define JOB_GATHER_H

#include "job/store/store.h"

#define GATHER_HEAD 16u
#define GATHER_VALUE_MAX 65536u

typedef struct job_gather_request {
    uint64_t total;
    uint32_t n;             /* of members; never 0 after unpacking */
    const uint32_t *member; /* [n]; NULL: 0 to n - 1 */
    const uint8_t *fragment;
    uint64_t bytes;
} job_gather_request;

/* The request as bytes; the caller frees them. */
uint8_t *job_gather_pack(const job_gather_request *r, uint64_t *bytes);

/* Read a request of `rank`. NULL: it is well-formed, and the caller frees `out->member`; else what
 * is wrong with it, and nothing is to be freed. */
const char *job_gather_unpack(const uint8_t *from, uint64_t bytes, uint32_t rank, uint32_t ranks,
                              job_gather_request *out);

typedef struct job_gathers job_gathers;

job_gathers *job_gathers_open(uint32_t ranks, job_store_reply reply, void *ctx);
void job_gathers_close(job_gathers *g); /* NULL allowed */

/* Join the gather `key`; answered when all members have joined. A list or size that differs from
 * that of another member ends it with WEFT_PEER for all that are in it. */
void job_gathers_join(job_gathers *g, uint32_t rank, const char *key, const void *request,
                      uint64_t bytes, uint64_t due);

/* Answer the gathers whose timeout has passed. */
void job_gathers_tick(job_gathers *g, uint64_t now);

#endif
