/* plan/layout/space.h: offsets for buffers whose lifetimes are known. */
#ifndef PLAN_LAYOUT_SPACE_H
#define PLAN_LAYOUT_SPACE_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

/* --- buffers that are allocated and freed in the order of a list --- */

typedef struct plan_free_range {
    uint64_t at, bytes;
} plan_free_range;

/* Best fit over a range that grows. */
typedef struct plan_space {
    VEC(plan_free_range) free_ranges;
    uint64_t top;  /* highest byte ever used */
    uint64_t live; /* bytes that are allocated now */
} plan_space;

/* Allocate `bytes` (rounded up to 64); returns the offset, 0 for 0 bytes. */
uint64_t plan_space_take(plan_space *s, uint64_t bytes);

/* Free an allocation: the same offset and bytes. */
void plan_space_give(plan_space *s, uint64_t at, uint64_t bytes);

/* --- buffers of one call --- */

typedef struct plan_lifetime {
    uint64_t bytes, offset;
    uint32_t from, to; /* first and last moment, both included */
    uint32_t what;     /* for the caller */
} plan_lifetime;

/* Set the offsets so that no two overlapping lifetimes share a byte; returns the total bytes.
 * O(n^2). */
uint64_t plan_lifetimes_place(plan_lifetime *l, uint32_t n);

/* --- the parts of an arena without a fixed size --- */

typedef struct plan_zones {
    uint64_t zone;                /* arena offset of the zone of activations */
    plan_space activations, comm; /* transient, relative to the start of their zone */
    plan_space host;              /* in host memory: scratch of staged collectives */
    uint64_t residual[2]; /* bytes of error-feedback residuals: in the arena, in host memory */
} plan_zones;

void plan_zones_free(plan_zones *z);

#endif
