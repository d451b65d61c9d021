/* base/lengthy.h: a line now and then about work that takes long.
 *
 * Rank 0, or a process without a rank, says every 10 s how far it is; any other rank only every
 * 60 s, so that many ranks do not fill the log. Work that ends sooner says nothing. */
#ifndef BASE_LENGTHY_H
#define BASE_LENGTHY_H

#include <stdint.h>

typedef struct lengthy {
    const char *what;   /* borrowed: "checkpoint runs/demo/...: shard 3 is read" */
    uint64_t all, done; /* bytes */
    uint64_t every_ms, due_ms;
} lengthy;

/* `all` bytes are to be worked on. [any] */
void lengthy_begin(lengthy *l, const char *what, uint64_t all);

/* So many more are done. Costs a look at the clock. [any] */
void lengthy_add(lengthy *l, uint64_t bytes);

#endif
