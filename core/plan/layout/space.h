/* plan/layout/space.h: offsets for buffers whose lifetimes are known. */
#ifndef PLAN_LAYOUT_SPACE_H
#define PLAN_LAYOUT_SPACE_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

/* --- buffers that are allocated and freed in the order of a list --- */

typedef struct free_range {
    uint64_t at, bytes;
} free_range;

/* Best fit over a range that grows. */
typedef struct space {
    VEC(free_range) free_ranges;
    uint64_t top; /* highest byte ever used */
} space;

/* Allocate `bytes` (rounded up to 64); returns the offset, 0 for 0 bytes. */
uint64_t plan_space_take(space *s, uint64_t bytes);

/* Free an allocation: the same offset and bytes. */
void plan_space_give(space *s, uint64_t at, uint64_t bytes);

void plan_space_free(space *s);

/* --- buffers of one call --- */

typedef struct lifetime {
    uint64_t bytes, offset;
    uint32_t from, to; /* first and last moment, both included */
} lifetime;

/* Set the offsets so that no two overlapping lifetimes share a byte; returns the total bytes.
 * O(n^2). */
uint64_t plan_lifetimes_place(lifetime *l, uint32_t n);

/* --- the parts of an arena without a fixed size --- */

typedef struct arena_zones {
    uint64_t zone;           /* arena offset of the zone of activations */
    space activations, comm; /* transient, relative to the start of their zone */
    space host;              /* in host memory: scratch of staged collectives */
    uint64_t residual[2];    /* bytes of error-feedback residuals: in the arena, in host memory */
} arena_zones;

void plan_zones_free(arena_zones *z);

#endif
