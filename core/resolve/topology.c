/* resolve/topology.c: see topology.h. */
#include "resolve/topology.h"

#include <string.h>

/* Without a host map, one machine is assumed. */
static uint32_t machine_of(const spec *s, uint32_t rank)
{
    return s->hosts.machine ? s->hosts.machine[rank] : 0;
}

uint32_t resolve_reach(const spec *s, uint32_t axis)
{
    bool apart = false, together = false;
    if (!s->hosts.machine)
        return REACH_INTRA;
    for (uint32_t r = 0; r < s->ranks; r++)
        for (uint32_t i = 0; i < s->mesh.size[axis]; i++) {
            uint32_t other = graph_mesh_rank_at(&s->mesh, r, axis, i);
            bool same = machine_of(s, other) == machine_of(s, r);
            apart |= !same;
            together |= same && other != r;
        }
    return !apart ? REACH_INTRA : together ? REACH_MIXED : REACH_INTER;
}

bool resolve_reaches_device(const spec *s, const host_component *link)
{
    const weft_device_table *device = s->device.c->table;
    const weft_link_table *table = link->table;
    return ((device->caps & WEFT_DEV_HOST_MEMORY) && (table->caps & WEFT_LINK_HOST)) ||
           ((device->caps & WEFT_DEV_CUDA_MEMORY) && (table->caps & WEFT_LINK_CUDA));
}

const weft_coll_table *resolve_collective_library(const spec_link *l)
{
    return l->c && l->c->iface && !strcmp(l->c->iface, "weft.coll/1") ? l->c->table : NULL;
}

bool resolve_is_on_host(const spec *s)
{
    return ((const weft_device_table *)s->device.c->table)->caps & WEFT_DEV_HOST_MEMORY;
}

bool resolve_is_staged(const spec *s, const spec_link *l)
{
    return !resolve_collective_library(l) &&
           (l->staged || !resolve_reaches_device(s, l->c) ||
            (l->intra.c && !resolve_reaches_device(s, l->intra.c)));
}

/* A link maps host memory only of a device that exports it, and none with checksums, which only
 * messages have. peer_access.c finds devices that import
 * each other's memory: s->peer_imported. */
static uint64_t mappable(const spec *s, const spec_link *l, uint64_t caps)
{
    const uint64_t device = ((const weft_device_table *)s->device.c->table)->caps;
    bool can = (device & WEFT_DEV_EXPORT_FD) && (device & WEFT_DEV_HOST_MEMORY) && !l->checked;
    return can ? caps : caps & ~(uint64_t)WEFT_LINK_MAP;
}

uint64_t resolve_intra_caps(const spec *s, const spec_link *l)
{
    const weft_link_table *table = l->intra.c ? l->intra.c->table : l->c->table;
    return resolve_collective_library(l) ? 0 : mappable(s, l, table->caps);
}

uint64_t resolve_link_caps(const spec *s, const spec_link *l)
{
    const weft_link_table *inter = l->c->table;
    uint64_t caps = resolve_collective_library(l) ? 0 : mappable(s, l, inter->caps);
    return l->intra.c ? sched_pair_caps(resolve_intra_caps(s, l), caps) : caps;
}

/* A group as its members' machines, numbered by first appearance, and the members of each machine
 * ordered by distance to the network; members with equal distances keep the group's order. */
typedef struct pattern {
    uint32_t n, machines;
    uint32_t *rank, *machine, *order; /* [n] */
} pattern;

static void read_pattern(const spec *s, const resolve_rank_group *c, uint32_t rank, pattern *out)
{
    out->machines = 0;
    for (uint32_t i = 0; i < out->n; i++) {
        uint32_t like = 0, at = c->coords ? c->coords[i] : i;
        out->rank[i] = graph_mesh_rank_at(&s->mesh, rank, c->mesh_axis, at);
        while (like < i && machine_of(s, out->rank[like]) != machine_of(s, out->rank[i]))
            like++;
        out->machine[i] = like < i ? out->machine[like] : out->machines++;
        out->order[i] = 0;
    }
    const uint32_t *distance = s->hosts.distance;
    for (uint32_t i = 0; i < out->n; i++)
        for (uint32_t k = 0; k < out->n; k++) {
            uint32_t here = distance[out->rank[i]], there = distance[out->rank[k]];
            bool before = there < here || (there == here && k < i);
            out->order[i] += out->machine[i] == out->machine[k] && before;
        }
}

static void take_pattern(pool *p, uint32_t n, pattern *out)
{
    *out = (pattern){.n = n};
    out->rank = pool_array(p, n, sizeof *out->rank);
    out->machine = pool_array(p, n, sizeof *out->machine);
    out->order = pool_array(p, n, sizeof *out->order);
}

/* Whether `rank` is the first member of its group, so that each group is visited once. */
static bool is_first(const spec *s, const resolve_rank_group *c, uint32_t rank)
{
    return graph_mesh_coord(&s->mesh, rank, c->mesh_axis) == (c->coords ? c->coords[0] : 0);
}

const sched_layout *resolve_group_layout(const spec *s, pool *p, const resolve_rank_group *c)
{
    uint32_t n = c->coords ? c->ncoords : s->mesh.size[c->mesh_axis];
    if (!s->hosts.machine || s->hosts.machines == 1 || n < 2)
        return NULL;
    pattern first, next;
    take_pattern(p, n, &first);
    take_pattern(p, n, &next);
    const uint32_t *order = first.order;
    bool any = false;
    for (uint32_t r = 0; r < s->ranks; r++) {
        if (!is_first(s, c, r))
            continue;
        read_pattern(s, c, r, any ? &next : &first);
        if (any && memcmp(first.machine, next.machine, n * sizeof *next.machine) != 0)
            return NULL;
        if (any && memcmp(first.order, next.order, n * sizeof *next.order) != 0)
            order = NULL; /* the groups differ in which member is nearest: use the group's order */
        any = true;
    }
    if (first.machines == 1)
        return NULL;
    sched_layout *out = pool_alloc(p, sizeof *out);
    *out =
        (sched_layout){.machines = first.machines,
                       .machine = first.machine,
                       .order = order,
                       .intra_caps = resolve_intra_caps(s, &s->links[s->axis_link[c->mesh_axis]])};
    return out;
}
