/* job/store/store.h: the key-value table of rank 0, and its pending requests.
 *
 * Pure bookkeeping: no socket, no thread, no clock. The caller holds a lock, passes the time, and
 * gets each reply through a callback, at once or later. A rank has at most one pending request, so
 * all pending requests are preallocated. */
#ifndef JOB_STORE_H
#define JOB_STORE_H

#include <weft/base.h>

#define STORE_BYTES_MAX (UINT64_C(256) << 20) /* all keys and values together */
#define STORE_ADDED_MAX (UINT64_C(64) << 20)  /* ... of them those of job_store_add() */

typedef struct job_store job_store;

/* With WEFT_OK the bytes are the answer, else an error text. Valid during the call only. */
typedef void (*job_store_reply)(void *ctx, uint32_t rank, weft_status status, const void *bytes,
                                uint64_t n);

job_store *job_store_open(uint32_t ranks, job_store_reply reply, void *ctx);
void job_store_close(job_store *s); /* NULL allowed */

void job_store_put(job_store *s, uint32_t rank, const char *key, const void *value, uint64_t bytes);
void job_store_get(job_store *s, uint32_t rank, const char *key, uint64_t due);

/* For tables of plugins (job/kv.h). add stores a key for good: WEFT_USAGE if it is there. find is
 * get without waiting: WEFT_BUSY if it is not. */
void job_store_add(job_store *s, uint32_t rank, const char *key, const void *value, uint64_t bytes);
void job_store_find(job_store *s, uint32_t rank, const char *key);

/* Answer all requests whose timeout has passed. */
void job_store_tick(job_store *s, uint64_t now);

#endif
