/* bench/tune_links.c: which transports of a job are measured between which ranks, and the
 * operations for it. See tune_command.h. */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "bench/tune_command.h"
#include "resolve/topology.h"

#define WHOLE 0u   /* a group as it is */
#define INSIDE 1u  /* its members on one machine */
#define BETWEEN 2u /* its first member on each machine */

/* A transport is measured once. Inter-node ranks are preferred, then larger groups: all ranks
 * choose alike. */
static void want(bench_tune_set *t, const host_component *c, uint32_t axis, uint32_t role)
{
    uint64_t crosses = role != INSIDE && resolve_reach(t->s, axis) != REACH_INTRA;
    uint64_t score = crosses << 32 | t->s->mesh.size[axis];
    bench_tune_probe *p = t->probe;
    while (p < t->probe + t->probes && p->c != c)
        p++;
    if (p == t->probe + t->probes)
        t->probes++;
    if (score > p->score)
        *p = (bench_tune_probe){.c = c, .score = score, .axis = axis, .role = role};
}

static uint32_t machine_of(const spec *s, uint32_t rank)
{
    return s->hosts.machine ? s->hosts.machine[rank] : 0;
}

static bool belongs(const bench_tune_set *t, const bench_tune_probe *p, uint32_t rank)
{
    if (p->role == INSIDE)
        return machine_of(t->s, rank) == machine_of(t->s, t->rank);
    for (uint32_t k = 0; p->role == BETWEEN; k++) {
        uint32_t other = graph_mesh_rank_at(&t->s->mesh, t->rank, p->axis, k);
        if (machine_of(t->s, other) == machine_of(t->s, rank))
            return other == rank;
    }
    return true;
}

static void gather_ranks(const bench_tune_set *t, bench_tune_probe *p)
{
    uint32_t size = t->s->mesh.size[p->axis];
    bool mine = false;
    p->rank = mem_alloc(size * sizeof *p->rank);
    for (uint32_t k = 0; k < size; k++) {
        uint32_t rank = graph_mesh_rank_at(&t->s->mesh, t->rank, p->axis, k);
        if (!belongs(t, p, rank))
            continue;
        mine |= rank == t->rank;
        p->me = rank == t->rank ? p->n : p->me;
        p->rank[p->n++] = rank;
    }
    p->n = mine ? p->n : 0;
}

/* A table for each transport or pair, on the axis where it has the most ranks. */
static void add_part(bench_tune_set *t, uint32_t axis)
{
    const spec *s = t->s;
    const spec_link *l = &s->links[s->axis_link[axis]];
    bench_tune_part *p = t->part;
    while (p < t->part + t->parts && p->link != s->axis_link[axis])
        p++;
    if (p < t->part + t->parts && p->ranks >= s->mesh.size[axis])
        return;
    t->parts += p == t->part + t->parts;
    *p = (bench_tune_part){
        .link = s->axis_link[axis], .mesh_axis = axis, .ranks = s->mesh.size[axis]};
    p->name = pool_printf(&t->layouts.pool, "%s%s%s", l->intra.c ? l->intra.c->name : "",
                          l->intra.c ? "+" : "", l->c->name);
    p->axis = t->of_job ? s->mesh.name[axis] : NULL;
    p->layout = resolve_group_layout(s, &t->layouts.pool, &(resolve_rank_group){.mesh_axis = axis});
    (void)!bench_measure_kinds(t->keys, "tune.op", p->kind, &p->kinds);
}

void bench_tune_find(const spec *s, config *cfg, const config *keys, uint32_t rank, bool of_job,
                     bench_tune_set *out)
{
    *out = (bench_tune_set){
        .s = s, .cfg = cfg, .keys = keys, .rank = rank, .of_job = of_job, .layouts.spec = s};
    out->passes = (uint32_t)config_int(keys, "tune.passes");
    out->part = mem_alloc(WEFT_MAX_MESH * sizeof *out->part);
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        if (s->mesh.size[a] < 2)
            continue;
        const spec_link *l = &s->links[s->axis_link[a]];
        if (resolve_collective_library(l))
            continue;
        if (l->intra.c)
            want(out, l->intra.c, a, INSIDE);
        want(out, l->c, a, l->intra.c ? BETWEEN : WHOLE);
        add_part(out, a);
    }
    for (uint32_t i = 0; i < out->probes; i++)
        gather_ranks(out, &out->probe[i]);
}

/* The transport by itself; with checksums if an axis of the job has them. */
static spec_link alone(const bench_tune_set *t, const host_component *c)
{
    char section[80];
    bool checked = false;
    snprintf(section, sizeof section, "comm.%.64s", c->name);
    for (uint32_t i = 0; i < t->s->nlinks; i++) {
        const spec_link *l = &t->s->links[i];
        checked |= l->checked && (l->c == c || l->intra.c == c);
    }
    return (spec_link){.c = c, .conf = config_conf(t->cfg, section, c->own), .checked = checked};
}

bool bench_tune_maps(const bench_tune_set *t, const bench_tune_probe *p)
{
    const spec_link l = alone(t, p->c);
    return sched_link_maps(resolve_link_caps(t->s, &l));
}

static weft_status open_probe(bench_tune_set *t, bench_tune_probe *p, comm_world *w)
{
    const spec_link l = alone(t, p->c);
    comm_channel *c;
    char name[80];
    snprintf(name, sizeof name, "costs.%.64s", p->c->name);
    weft_status st =
        comm_add_link(w, (comm_part){l.c, l.conf}, (comm_part){0}, NULL, l.checked, &p->link);
    if (st != WEFT_OK || p->n < 2)
        return st;
    st = comm_add_channel(w, p->link, name, p->rank, p->n, &c);
    if (st == WEFT_OK)
        st = bench_tune_create(c, p->n, p->me, resolve_link_caps(t->s, &l),
                               bench_measure_type(config_text(t->keys, "tune.type")), &p->t);
    return st;
}

/* Every applicable algorithm of one collective. */
static weft_status add_rows(bench_tune_set *t, bench_tune_part *p, uint32_t k, comm_channel *c)
{
    spec_link l = t->s->links[p->link];
    l.checked |= !l.intra.c && alone(t, l.c).checked;
    const double row_seconds = config_real(t->keys, "tune.seconds") + 1e-6; /* 0: no limit */
    bench_measure_request q = {.kind = p->kind[k],
                               .dtype = bench_measure_type(config_text(t->keys, "tune.type")),
                               .ranks = p->ranks,
                               .me = graph_mesh_coord(&t->s->mesh, t->rank, p->mesh_axis),
                               .in_place = p->kind[k] != WEFT_ALL_TO_ALL,
                               .min = (uint64_t)config_int(t->keys, "tune.min"),
                               .max = (uint64_t)config_int(t->keys, "tune.max"),
                               .factor = (uint64_t)config_int(t->keys, "tune.factor"),
                               .link_caps = resolve_link_caps(t->s, &l),
                               .layout = p->layout,
                               .seconds = row_seconds / t->passes,
                               .serialized = !bench_measure_is_mutual(p->kind[k])};
    weft_status st = WEFT_OK;
    for (uint32_t a = 0; sched_algorithms[a] && a < TUNE_ALGORITHMS && st == WEFT_OK; a++) {
        if (!bench_measure_able(&q, sched_algorithms[a]->name))
            continue;
        q.algorithm = sched_algorithms[a]->name;
        bench_measure **m = &p->row[k][a].m;
        st = bench_measure_create(c, &q, m);
        p->sizes = bench_measure_rows(*m);
        if (st == WEFT_OK && p->sizes > TUNE_SIZES)
            st =
                err_fail(WEFT_USAGE, "more than %d sizes; choose a larger tune.factor", TUNE_SIZES);
        for (uint32_t s = 0; s < p->sizes && st == WEFT_OK; s++)
            p->bytes[s] = bench_measure_bytes(*m, s);
    }
    return st;
}

static const bench_tune_probe *probe_of(const bench_tune_set *t, const host_component *c)
{
    const bench_tune_probe *p = t->probe;
    while (p->c != c)
        p++;
    return p;
}

static weft_status open_part(bench_tune_set *t, bench_tune_part *p, comm_world *w)
{
    const spec *s = t->s;
    const spec_link *l = &s->links[p->link];
    uint32_t index = 0, *ranks = mem_alloc(p->ranks * sizeof *ranks);
    char name[80];
    comm_channel *c;
    snprintf(name, sizeof name, "table.%.64s", p->name);
    for (uint32_t k = 0; k < p->ranks; k++)
        ranks[k] = graph_mesh_rank_at(&s->mesh, t->rank, p->mesh_axis, k);
    weft_status st = WEFT_OK;
    if (l->intra.c)
        st = comm_add_link(w, (comm_part){l->c, l->conf}, (comm_part){l->intra.c, l->intra.conf},
                           s->hosts.machine, l->checked, &index);
    else
        index = probe_of(t, l->c)->link; /* a world has each transport once */
    if (st == WEFT_OK)
        st = comm_add_channel(w, index, name, ranks, p->ranks, &c);
    for (uint32_t k = 0; k < p->kinds && st == WEFT_OK; k++)
        st = add_rows(t, p, k, c);
    free(ranks);
    return st;
}

weft_status bench_tune_open(bench_tune_set *t, comm_world *w)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < t->probes && st == WEFT_OK; i++)
        st = open_probe(t, &t->probe[i], w);
    for (uint32_t i = 0; i < t->parts && st == WEFT_OK; i++)
        st = open_part(t, &t->part[i], w);
    return st;
}

uint64_t bench_tune_capacity(const bench_tune_set *t)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < t->probes; i++)
        if (t->probe[i].t && bench_tune_memory(t->probe[i].t) > max)
            max = bench_tune_memory(t->probe[i].t);
    for (uint32_t i = 0; i < t->parts; i++)
        for (uint32_t k = 0; k < t->part[i].kinds; k++)
            for (uint32_t a = 0; a < TUNE_ALGORITHMS; a++) {
                const bench_measure *m = t->part[i].row[k][a].m;
                max = m && bench_measure_memory(m) > max ? bench_measure_memory(m) : max;
            }
    return max;
}

void bench_tune_release(bench_tune_set *t)
{
    for (uint32_t i = 0; i < t->probes; i++) {
        bench_tune_destroy(t->probe[i].t);
        free(t->probe[i].rank);
    }
    for (uint32_t i = 0; i < t->parts; i++)
        for (uint32_t k = 0; k < MEASURING_KINDS; k++)
            for (uint32_t a = 0; a < TUNE_ALGORITHMS; a++)
                bench_measure_destroy(t->part[i].row[k][a].m);
    free(t->part);
    pool_free(&t->layouts.pool);
    *t = (bench_tune_set){0};
}

void bench_tune_cost_parts(bench_tune_set *t)
{
    for (uint32_t i = 0; i < t->parts; i++) {
        bench_tune_part *p = &t->part[i];
        const spec_link *l = &t->s->links[p->link];
        p->cost = probe_of(t, l->c)->cost;
        if (!l->intra.c)
            continue;
        const sched_cost *near = &probe_of(t, l->intra.c)->cost;
        p->cost.intra = near->intra;
        p->cost.mapped = near->mapped;
    }
}
