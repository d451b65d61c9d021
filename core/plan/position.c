/* plan/position.c: see position.h. */
#include "plan/position.h"

#include "base/number/digest.h"

#include <string.h>

static void set(weft_attr *attrs, uint32_t *n, const char *key, int64_t value, bool keep)
{
    uint32_t i = 0;
    while (i < *n && strcmp(attrs[i].key, key))
        i++;
    if (i == *n)
        attrs[(*n)++] = (weft_attr){.key = key, .i = value};
    else if (!keep)
        attrs[i].i = value;
}

/* Rows of a table or columns of a vocabulary: the index along one axis; "first" of the graph is its
 * value on coordinate 0. */
static uint32_t along_axis(const graph *g, const graph_node *n, weft_attr *attrs, uint64_t *begins)
{
    uint32_t nattr = n->nattr;
    if (!graph_local_start(g, n->in[n->op->first_input - 1], n->op->first_axis, begins))
        return 0;
    set(attrs, &nattr, "first", 0, true);
    return nattr;
}

static void mix_stream(weft_attr *attrs, uint32_t *n, const char *param)
{
    uint64_t h = DIGEST_BEGIN;
    uint32_t i = 0;
    set(attrs, n, "stream", 0, true);
    while (strcmp(attrs[i].key, "stream"))
        i++;
    digest_mix(&h, &attrs[i].i, sizeof attrs[i].i);
    digest_mix(&h, param, strlen(param));
    attrs[i].i = (int64_t)h;
}

/* The number of an element in the whole tensor is linear in the coordinates: each mesh axis adds
 * its step along the axis that it splits, times the distance of neighbours along that axis. */
static uint32_t in_whole(const plan *p, const graph *g, const graph_node *n, const char *param,
                         weft_attr *attrs, uint64_t *begins)
{
    static const char *const keys[] = {"whole.0", "whole.1", "whole.2", "whole.3",
                                       "whole.4", "whole.5", "whole.6", "whole.7"};
    _Static_assert(sizeof keys / sizeof *keys == WEFT_MAX_AXES, "one for each axis");
    const weft_tensor t = n->in[n->op->first_input - 1];
    const weft_shape *s = &graph_tensor_at(g, t)->shape;
    uint64_t distance = 1;
    uint32_t nattr = n->nattr;
    for (uint32_t k = s->rank; k-- > 0;) {
        uint64_t steps[WEFT_MAX_MESH] = {0};
        graph_local_start(g, t, k, steps);
        for (uint32_t a = 0; a < g->mesh->n; a++)
            begins[a] += steps[a] * distance;
        distance *= (uint64_t)s->axes[k].size;
        set(attrs, &nattr, keys[k], s->axes[k].size, false);
    }
    set(attrs, &nattr, "first", 0, false);
    set(attrs, &nattr, "seed", (int64_t)p->spec->seed, false);
    if (param)
        mix_stream(attrs, &nattr, param);
    return nattr;
}

uint32_t plan_position(const plan *p, const graph *g, const graph_node *n, const char *param,
                       weft_attr attrs[POSITION_ATTRS], uint64_t begins[WEFT_MAX_MESH])
{
    const uint32_t k = n->op->first_input;
    memset(begins, 0, WEFT_MAX_MESH * sizeof *begins);
    if (!k || k > n->nin || n->nattr > POSITION_OWN)
        return 0;
    for (uint32_t i = 0; i < n->nattr; i++)
        attrs[i] = n->attrs[i];
    return n->op->flags & WEFT_OP_NUMBERED ? in_whole(p, g, n, param, attrs, begins)
                                           : along_axis(g, n, attrs, begins);
}
