/* job/store/gather.h: all-gathers of ranks of the job, several at the same time.
 *
 * A gather is of the ranks that its request lists, and has a key of its own, so groups of ranks
 * gather independently of each other. All members send the same list; the answer has the parts of
 * the members in the order of the list (parts.h). An exchange is a gather of all ranks, of which
 * one is open at a time: ranks that exchange different things do not run the same job. A request:
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
#define GATHER_ANSWERS_MAX (UINT64_C(64) << 20) /* all answers of one exchange, in memory */
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

/* Join the exchange `name`. WEFT_BUSY: too many distinct parts for the memory limit of all answers;
 * the ranks retry with smaller fragments. Those of job_gather_fragment() bytes never get it. */
void job_gathers_exchange(job_gathers *g, uint32_t rank, const char *name, const void *mine,
                          uint64_t bytes, uint64_t due);

/* The largest part that can be exchanged; with `differ`, the largest if all parts may differ. */
uint64_t job_gather_fragment(uint32_t ranks, int differ);

/* Answer the gathers whose timeout has passed. */
void job_gathers_tick(job_gathers *g, uint64_t now);

#endif
