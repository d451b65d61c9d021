/* plan/layout/extent.c: the part of a sharded tensor that a rank has, and who writes it (plan.h).
 *
 * A block is found axis by axis. The mesh axes that split a tensor axis are applied from the
 * highest down: of `held` rows in memory before a split over n coordinates, coordinate c gets rows
 * [c * part, (c + 1) * part), part = ceil(held / n), and as many real ones as are left there. The
 * rest is an intersection of intervals: the block's position in its group and the rank's slice of
 * it.
 *
 * Ranks that differ only on mesh axes that do not divide a piece are its replicas. One replica
 * writes: the one whose ranks (all that hold a part of the piece) have the fewest bytes to write so
 * far. O(pieces * ranks). */
#include "plan/plan.h"

#include <stdlib.h>

/* Write the rank's block into out->start and out->size; returns its real elements. */
static uint64_t find_block(const graph_mesh *m, const plan_piece *x, uint32_t rank,
                           plan_extent *out)
{
    int64_t held[WEFT_MAX_AXES];
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        out->start[i] = 0;
        out->size[i] = held[i] = x->shape.axes[i].size;
    }
    for (uint32_t a = m->n; a-- > 0;) {
        if (!x->split[a])
            continue;
        uint32_t i = x->split[a] - 1;
        int64_t n = m->size[a], part = (held[i] + n - 1) / n;
        int64_t skip = (int64_t)graph_mesh_coord(m, rank, a) * part, left = out->size[i] - skip;
        out->start[i] += left > 0 ? skip : out->size[i];
        out->size[i] = left <= 0 ? 0 : left < part ? left : part;
        held[i] = part;
    }
    uint64_t n = 1;
    for (uint32_t i = 0; i < x->shape.rank; i++)
        n *= (uint64_t)out->size[i];
    for (uint32_t a = 0; a < m->n; a++)
        if (x->only[a] && graph_mesh_coord(m, rank, a) != x->only[a] - 1)
            n = 0;
    return n;
}

typedef struct interval {
    uint64_t from, to;
} interval;

/* Address of flat positions `at` in a region of elements of `size` bytes. */
static uint64_t address(uint64_t region, uint64_t size, bool sliced, interval own, interval at)
{
    if (region == UINT64_MAX || (sliced && (at.from < own.from || at.to > own.to)))
        return UINT64_MAX;
    return region + (at.from - (sliced ? own.from : 0)) * size;
}

void plan_extent_of(const plan *p, const plan_piece *x, uint32_t rank, uint32_t what,
                    plan_extent *out)
{
    const graph_mesh *m = &p->spec->mesh;
    *out = (plan_extent){.offset = UINT64_MAX, .copy = UINT64_MAX};
    uint64_t n = find_block(m, x, rank, out);
    if (!n || (what == PLAN_EXTENT_COPIED && x->copy == UINT64_MAX))
        return;
    interval own = {0, UINT64_MAX}, at = {x->pos, x->pos + n};
    bool cut = what == PLAN_EXTENT_HELD     ? x->sliced
               : what == PLAN_EXTENT_COPIED ? x->copy_sliced
                                            : true;
    if (x->shard_axis) {
        own.from = graph_mesh_coord(m, rank, x->shard_axis - 1) * x->slice;
        own.to = own.from + x->slice;
    }
    if (cut && at.from < own.from)
        at.from = own.from;
    if (cut && at.to > own.to)
        at.to = own.to;
    if (at.from >= at.to)
        return;
    out->first = at.from - x->pos;
    out->count = at.to - at.from;
    out->offset = address(x->offset, weft_dtype_size(x->shape.dtype), x->sliced, own, at);
    out->copy = address(x->copy, weft_dtype_size(x->copy_dtype), x->copy_sliced, own, at);
}

/* --- replicas that differ --- */

uint32_t plan_replicas(const plan *p, const plan_piece *x)
{
    return graph_mesh_parts(&p->spec->mesh, x->replica_axes);
}

uint32_t plan_replica(const plan *p, const plan_piece *x, uint32_t rank)
{
    return graph_mesh_part(&p->spec->mesh, rank, x->replica_axes);
}

/* --- writers --- */

/* Do coordinates of mesh axis `a` own different parts? */
static bool cuts(const plan_piece *x, uint32_t a)
{
    return x->split[a] || x->only[a] || x->shard_axis == a + 1 || x->replica_axes >> a & 1;
}

bool plan_writes(const plan *p, const plan_piece *x, uint32_t rank)
{
    const graph_mesh *m = &p->spec->mesh;
    if (x->writer == PLAN_WRITER_ELSEWHERE)
        return false;
    for (uint32_t a = 0; a < m->n; a++)
        if (x->only[a]
                ? graph_mesh_coord(m, rank, a) != x->only[a] - 1
                : !cuts(x, a) && graph_mesh_coord(m, rank, a) != graph_mesh_coord(m, x->writer, a))
            return false;
    return true;
}

/* One rank has all of the piece. */
static bool is_whole(const plan_piece *x, uint32_t axes)
{
    for (uint32_t a = 0; a < axes; a++)
        if (cuts(x, a))
            return false;
    return true;
}

uint64_t plan_saved_bytes(const plan *p, uint32_t rank)
{
    uint64_t bytes = plan_saved_capacity(p->residual_bytes);
    for (uint32_t i = 0; i < p->save.entries.n; i++) {
        const plan_piece *x = &p->pieces.at[p->save.entries.at[i].what];
        plan_extent own;
        if ((x->writer != rank && is_whole(x, p->spec->mesh.n)) || !plan_writes(p, x, rank))
            continue; /* most ranks and pieces: this is asked of every rank */
        plan_extent_of(p, x, rank, PLAN_EXTENT_OWNED, &own);
        bytes += plan_saved_capacity(own.count * weft_dtype_size(x->shape.dtype));
    }
    for (uint32_t i = 0; i < p->scalars.n && !rank; i++)
        bytes += p->scalars.at[i].saved ? plan_saved_capacity(sizeof(float)) : 0;
    return bytes;
}

/* Room to choose in, by rank: strides of the mesh come first. */
typedef struct choice {
    uint32_t stride[WEFT_MAX_MESH];
    uint32_t *replica; /* first rank of the rank's replica; UINT32_MAX: none */
    uint64_t *load;    /* bytes that the rank writes so far */
    uint64_t *sum;     /* at the first rank of a replica: bytes that all its ranks write */
} choice;

/* The rank with the coordinates of `rank` on axes that do not divide the piece, and 0 on the
 * others; UINT32_MAX for a rank that has no part of it. */
static uint32_t first_of_replica(const graph_mesh *m, const plan_piece *x, const choice *k,
                                 uint32_t rank)
{
    uint32_t out = rank;
    for (uint32_t a = 0; a < m->n; a++) {
        uint32_t c = cuts(x, a) ? rank / k->stride[a] % m->size[a] : 0;
        if (x->only[a] && c != x->only[a] - 1)
            return UINT32_MAX;
        if (!x->only[a])
            out -= c * k->stride[a];
    }
    return out;
}

static void choose_writer(const plan *p, plan_piece *x, choice *k)
{
    uint32_t ranks = p->spec->ranks, best = UINT32_MAX, parts = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        k->sum[r] = 0;
        k->replica[r] = first_of_replica(&p->spec->mesh, x, k, r);
        if (k->replica[r] != UINT32_MAX)
            k->sum[k->replica[r]] += k->load[r]; /* the first has the lowest number */
    }
    for (uint32_t r = 0; r < ranks; r++)
        if (k->replica[r] == r && (best == UINT32_MAX || k->sum[r] < k->sum[best]))
            best = r;
    for (uint32_t r = 0; r < ranks; r++)
        parts += best != UINT32_MAX && k->replica[r] == best;
    for (uint32_t r = 0; r < ranks && parts; r++)
        if (k->replica[r] == best)
            k->load[r] += graph_shape_bytes(&x->shape) * plan_replicas(p, x) / parts;
    x->writer = best;
}

void plan_choose_writers(plan *p)
{
    const graph_mesh *m = &p->spec->mesh;
    uint64_t ranks = p->spec->ranks;
    choice k = {.stride = {1}};
    for (uint32_t a = 1; a < m->n; a++)
        k.stride[a] = k.stride[a - 1] * m->size[a - 1];
    k.replica = mem_alloc(ranks * sizeof *k.replica);
    k.load = mem_alloc(ranks * sizeof *k.load);
    k.sum = mem_alloc(ranks * sizeof *k.sum);
    for (uint32_t i = 0; i < p->pieces.n; i++)
        if (p->pieces.at[i].writer != PLAN_WRITER_ELSEWHERE)
            choose_writer(p, &p->pieces.at[i], &k);
    free(k.replica);
    free(k.load);
    free(k.sum);
}
