/* extents.h: tensors that a mesh cuts at random, and where the elements of a rank's part are in the
 * whole. The test has dice(). */
#ifndef UNIT_EXTENTS_H
#define UNIT_EXTENTS_H

#include "plan/plan.h"

/* Into rows (evenly or not), columns and depths, and one time in two into slices of a flat group,
 * where the piece lies at `pos` and somewhat behind. */
static inline void extents_cut(const graph_mesh *m, plan_piece *x, uint64_t pos)
{
    int64_t left[WEFT_MAX_AXES];
    for (uint32_t i = 0; i < x->shape.rank; i++)
        left[i] = x->shape.axes[i].size;
    for (uint32_t a = m->n; a-- > 0;) {
        uint32_t axis = dice(x->shape.rank);
        if (dice(3) == 0 || (axis && left[axis] % m->size[a]))
            continue;
        x->split[a] = 1 + axis;
        left[axis] = (left[axis] + m->size[a] - 1) / m->size[a];
    }
    if (m->n && dice(2)) {
        uint32_t a = dice(m->n);
        x->split[a] = 0;
        x->shard_axis = 1 + a;
        x->pos = dice(30) + pos;
        x->slice = (x->pos + graph_shape_elements(&x->shape) + dice(9)) / m->size[a] + 1;
        x->sliced = dice(2);
        x->copy_sliced = dice(2);
    }
}

/* In the whole tensor, of element `at` of an extent. */
static inline uint64_t extents_index(const weft_shape *s, const plan_extent *e, uint64_t at)
{
    uint64_t index = 0, stride = 1;
    for (uint32_t i = s->rank; i-- > 0;) {
        index += stride * ((uint64_t)e->start[i] + at % (uint64_t)e->size[i]);
        at /= (uint64_t)e->size[i];
        stride *= (uint64_t)s->axes[i].size;
    }
    assert_int_equal(at, 0);
    return index;
}

#endif
