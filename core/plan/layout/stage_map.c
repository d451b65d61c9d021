/* plan/layout/stage_map.c: is a block on the stage that is being planned? */
#include "plan/layout/stage_map.h"

uint32_t plan_stage_of(const struct plan_stage_map *m, uint32_t block)
{
    return m->axis < 0 ? 0 : m->stage[block];
}

bool plan_stage_here(const struct plan_stage_map *m, uint32_t block)
{
    return m->axis < 0 || m->stage[block] == m->mine;
}

uint64_t plan_stage_axis_bit(const struct plan_stage_map *m)
{
    return m->axis < 0 ? 0 : (uint64_t)1 << m->axis;
}
