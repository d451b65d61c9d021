/* base/pool.h: an arena allocator: zeroed memory that is freed all at once. Never returns NULL
 * (mem.h). Never called inside a step. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdint.h>

typedef struct pool_chunk pool_chunk;
typedef struct pool {
    pool_chunk *chunks; /* owned, newest first */
    uint64_t bytes;     /* bytes allocated so far */
} pool;

void *pool_alloc(pool *p, uint64_t bytes);                  /* zeroed, aligned to 16 */
void *pool_array(pool *p, uint64_t n, uint64_t size);       /* n elements, product checked */
void *pool_copy(pool *p, const void *from, uint64_t bytes); /* from may be NULL where bytes is 0 */
char *pool_text(pool *p, const char *text);
char *pool_printf(pool *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void pool_free(pool *p); /* free everything; the pool may be used again */

#endif
