/* plan/layout/space.h: offsets for buffers whose lifetimes are known. */
#ifndef PLAN_LAYOUT_SPACE_H
#define PLAN_LAYOUT_SPACE_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

/* --- buffers that are taken and given back in the order of a list --- */

typedef struct free_range {
    uint64_t at, bytes;
} free_range;

/* Best fit over a range that grows. */
typedef struct space {
    VEC(free_range) free_ranges;
    uint64_t top; /* highest byte that was ever used */
} space;

/* Take `bytes` (rounded up to 64); the result is the offset, 0 for 0 bytes. */
uint64_t plan_space_take(space *s, uint64_t bytes);

/* Give back what was taken: the same offset and bytes. */
void plan_space_give(space *s, uint64_t at, uint64_t bytes);

void plan_space_free(space *s);

/* --- buffers of one call --- */

typedef struct lifetime {
    uint64_t bytes, offset;
    uint32_t from, to; /* first and last moment, both included */
} lifetime;

/* Set the offsets so that no two lifetimes that overlap share a byte; the result is the bytes that
 * all need. O(n^2). */
uint64_t plan_lifetimes_place(lifetime *l, uint32_t n);

/* --- the parts of an arena that are not fixed from the start --- */

typedef struct arena_zones {
    uint64_t zone;           /* arena offset of the zone of activations */
    space activations, comm; /* transient, relative to the start of their zone */
    space host;              /* in host memory: scratch of collectives that go through it */
    uint64_t residual[2];    /* bytes of error-feedback residuals: in the arena, in host memory */
} arena_zones;

void plan_zones_free(arena_zones *z);

#endif
