/* job/store/store.h: the key-value table of rank 0, and the requests that wait in it.
 *
 * Pure bookkeeping: no socket, no thread, no clock of its own. The caller holds a lock, says what
 * time it is, and is called back with each reply, at once or later. A rank has one request at a
 * time, so everything that waits has a place from the start. */
#ifndef JOB_STORE_H
#define JOB_STORE_H

#include <weft/base.h>

#define STORE_ANSWERS_MAX (UINT64_C(64) << 20) /* all answers of one exchange, in memory */
#define STORE_BYTES_MAX (UINT64_C(256) << 20)  /* all keys and values together */

typedef struct store store;

/* With WEFT_OK the bytes are the answer, else a sentence. They are gone after the call. */
typedef void (*store_reply)(void *ctx, uint32_t rank, weft_status status, const void *bytes,
                            uint64_t n);

store *job_store_open(uint32_t ranks, store_reply reply, void *ctx);
void job_store_close(store *s); /* NULL allowed */

void job_store_put(store *s, uint32_t rank, const char *key, const void *value, uint64_t bytes);
void job_store_get(store *s, uint32_t rank, const char *key, uint64_t due);

/* Answered with the parts of all ranks, as parts.h has them, once the last has come. WEFT_BUSY: so
 * many parts differ that all answers together would take too much memory; the ranks exchange
 * smaller pieces. That is never said of pieces of job_store_piece() bytes. */
void job_store_exchange(store *s, uint32_t rank, const char *name, const void *mine, uint64_t bytes,
                        uint64_t due);

/* The largest part that can be exchanged; with `differ` the largest of which all may differ. */
uint64_t job_store_piece(uint32_t ranks, int differ);

/* Answer whatever waited past its time. */
void job_store_tick(store *s, uint64_t now);

#endif
