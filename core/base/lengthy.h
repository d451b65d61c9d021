/* base/lengthy.h: progress lines for work that takes long.
 *
 * Rank 0, or a process without a rank, logs its progress every 10 s; any other rank only every 60
 * s, so that many ranks do not fill the log. Shorter work logs nothing. */
#ifndef BASE_LENGTHY_H
#define BASE_LENGTHY_H

#include <stdint.h>

typedef struct lengthy {
    const char *what;   /* borrowed: "checkpoint runs/demo/...: shard 3 is read" */
    uint64_t all, done; /* bytes */
    uint64_t every_ms, due_ms;
} lengthy;

/* Begin work on `all` bytes. [any] */
void lengthy_begin(lengthy *l, const char *what, uint64_t all);

/* Add `bytes` finished bytes. Reads the clock once. [any] */
void lengthy_add(lengthy *l, uint64_t bytes);

#endif
