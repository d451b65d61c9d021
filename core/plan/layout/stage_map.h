/* plan/layout/stage_map.h: the blocks of each pipeline stage, and groups within a mesh axis.
 *
 * A stage is a coordinate of one mesh axis. A chunk is a range of blocks that a stage runs
 * together. A job without stages has axis -1: every block is on this stage. */
#ifndef PLAN_LAYOUT_STAGE_MAP_H
#define PLAN_LAYOUT_STAGE_MAP_H

#include "base/mem.h"
#include "graph/graph.h"

#include <stdbool.h>
#include <stdint.h>
#include <weft/strategy.h>

typedef struct plan_stage_order {
    uint32_t n;
    const weft_work *work; /* NULL: forward and backward of each micro-batch in turn */
} plan_stage_order;

struct plan_stage_map {
    int32_t axis;            /* mesh axis of the stages; -1: none */
    uint32_t mine;           /* the stage that is being planned */
    uint32_t chunks;         /* of each stage */
    uint32_t *stage, *chunk; /* [block] */
    uint32_t blocks;
    plan_stage_order *orders; /* [stage] */
    const char *owner;        /* plugin that defined the stages */
};

static inline uint32_t plan_stage_of(const struct plan_stage_map *m, uint32_t block)
{
    return m->axis < 0 ? 0 : m->stage[block];
}

/* Is the block on the stage that is being planned? */
static inline bool plan_stage_here(const struct plan_stage_map *m, uint32_t block)
{
    return m->axis < 0 || m->stage[block] == m->mine;
}

/* The mesh axis of the stages as a bit; 0 without stages. */
static inline uint64_t plan_stage_axis_bit(const struct plan_stage_map *m)
{
    return m->axis < 0 ? 0 : (uint64_t)1 << m->axis;
}

typedef VEC(graph_group) plan_group_list;

#define FIRST_GROUP 32u /* in place of a mesh axis, FIRST_GROUP + i is group i */

#endif
