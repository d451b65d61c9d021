/* run/state/verify.c: see verify.h.
 *
 * Tensors are sorted by the mesh axes over which ranks hold copies of them, a class for each set of
 * axes. A rank has one CRC32C for each class, over all its bytes in the order of the plan, and the
 * ranks exchange these: a few numbers a rank, of which the store answers each different one once.
 * The members of a group, which differ on the axes of the class alone, must have the same number.
 * Only where they have not, all ranks exchange the CRC32C of each tensor of that class. */
#include "run/state/verify.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/number/crc32c.h"
#include "host/call.h"
#include "run/exec/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_ONCE ((uint64_t)4 << 20) /* bytes that are copied from a device */
#define HOST 64u
#define DEVICE 192u
#define NAMED 8u /* ranks in a sentence */

/* Mesh axes over which ranks hold the same bits of a piece, or of its compute copy; 0: none. */
static uint64_t copy_axes(const plan *p, const plan_piece *x, bool copied)
{
    const graph_mesh *m = &p->spec->mesh;
    const bool sliced = copied ? x->copy_sliced : x->sliced;
    uint64_t axes = 0;
    if (copied && x->copy == UINT64_MAX)
        return 0;
    for (uint32_t a = 0; a < m->n && a < WEFT_MAX_MESH; a++) {
        const bool divides = x->split[a] || x->only[a] || x->replica_axes >> a & 1 ||
                             (sliced && x->shard_axis == a + 1);
        axes |= (uint64_t)(m->size[a] > 1 && !divides) << a;
    }
    return axes;
}

/* The next tensor of a class from *at on: piece *at / 2, of which an odd number is the compute
 * copy. */
static const plan_piece *next(const plan *p, uint64_t axes, uint32_t *at)
{
    for (; *at < 2 * p->pieces.n; ++*at)
        if (copy_axes(p, &p->pieces.at[*at / 2], *at & 1) == axes)
            return &p->pieces.at[*at / 2];
    return NULL;
}

typedef VEC(uint64_t) classes;

/* The classes of all stages; equal on all ranks. */
static classes find_classes(const plan_set *plans)
{
    classes out = {0};
    for (uint32_t k = 0; k < plans->n; k++)
        for (uint32_t i = 0; i < 2 * plans->at[k].pieces.n; i++) {
            uint64_t axes = copy_axes(&plans->at[k], &plans->at[k].pieces.at[i / 2], i & 1);
            uint32_t known = 0;
            while (known < out.n && out.at[known] != axes)
                known++;
            if (axes && known == out.n)
                *vec_push(&out) = axes;
        }
    return out;
}

double run_verify_share(const plan_set *plans, uint32_t rank)
{
    const plan *p = plan_of(plans, rank);
    double all = 0, compared = 0;
    for (uint32_t i = 0; i < 2 * p->pieces.n; i++) {
        const plan_piece *x = &p->pieces.at[i / 2];
        const bool copied = i & 1;
        plan_extent has = {.count = 0};
        if (!copied || x->copy != UINT64_MAX)
            plan_extent_of(p, x, rank, copied ? PLAN_EXTENT_COPIED : PLAN_EXTENT_HELD, &has);
        const uint64_t bytes = has.count * weft_dtype_size(copied ? x->copy_dtype : x->shape.dtype);
        all += (double)bytes;
        compared += copy_axes(p, x, copied) ? (double)bytes : 0;
    }
    return all > 0 ? compared / all : 0;
}

static weft_status add_item(run_executor *e, const plan_piece *x, bool copied, uint32_t *crc,
                            uint64_t *hashed)
{
    plan_extent has;
    plan_extent_of(e->plan, x, e->rank, copied ? PLAN_EXTENT_COPIED : PLAN_EXTENT_HELD, &has);
    const uint64_t from = copied ? has.copy : has.offset;
    const uint64_t bytes = has.count * weft_dtype_size(copied ? x->copy_dtype : x->shape.dtype);
    weft_status st = WEFT_OK;
    for (uint64_t at = 0; at < bytes && st == WEFT_OK; at += AT_ONCE) {
        const uint64_t n = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
        const void *view;
        pool copies = {0};
        st = run_exec_view(e, from + at, n, &copies, &view);
        if (st == WEFT_OK)
            *crc = crc32c(*crc, view, n);
        pool_free(&copies);
    }
    *hashed += bytes;
    return st;
}

static weft_status hash_class(run_executor *e, uint64_t axes, uint32_t *crc, uint64_t *hashed)
{
    weft_status st = WEFT_OK;
    const plan_piece *x;
    *crc = 0;
    for (uint32_t i = 0; st == WEFT_OK && (x = next(e->plan, axes, &i)); i++)
        st = add_item(e, x, i & 1, crc, hashed);
    return st;
}

/* The lowest rank of the group of `rank`: it has coordinate 0 on the axes of the class. */
static uint32_t leader(const graph_mesh *m, uint32_t rank, uint64_t axes)
{
    for (uint32_t a = 0; a < m->n; a++)
        if (axes >> a & 1)
            rank = graph_mesh_rank_at(m, rank, a, 0);
    return rank;
}

/* --- after a difference --- */

/* What a rank tells of the class whose hashes differ: its host, its device, and the hash of each
 * tensor. */
typedef struct sheet {
    char host[HOST], device[DEVICE];
    uint32_t crc[];
} sheet;

typedef struct finding {
    const plan_set *plans;
    uint64_t axes;
    uint32_t first;           /* lowest rank of the group */
    uint32_t items, capacity; /* tensors of the class in the group's plan; in any plan */
    char *sheets;             /* [ranks] of the job */
    uint32_t *rank, n;        /* of the group */
} finding;

static uint32_t count_items(const plan *p, uint64_t axes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; next(p, axes, &i); i++)
        n++;
    return n;
}

static uint64_t sheet_bytes(const finding *f)
{
    return sizeof(sheet) + (f->capacity + (f->capacity & 1)) * sizeof(uint32_t);
}

static const sheet *sheet_of(const finding *f, uint32_t rank)
{
    return (const sheet *)(const void *)(f->sheets + rank * sheet_bytes(f));
}

static weft_status exchange_sheets(run_executor *e, finding *f, uint64_t step)
{
    char name[64];
    uint64_t hashed = 0;
    uint32_t k = 0;
    const plan_piece *x;
    sheet *mine = mem_alloc(sheet_bytes(f));
    weft_status st = WEFT_OK;
    (void)!gethostname(mine->host, HOST - 1);
    snprintf(mine->device, DEVICE, "%s", PLUGIN_GET(e->table, describe, e->device));
    for (uint32_t i = 0; st == WEFT_OK && (x = next(e->plan, f->axes, &i)); i++)
        st = add_item(e, x, i & 1, &mine->crc[k++], &hashed);
    snprintf(name, sizeof name, "verify.%llu.tensors", (unsigned long long)step);
    if (st == WEFT_OK)
        st = job_exchange(e->job, name, mine, sheet_bytes(f), f->sheets);
    free(mine);
    return st;
}

/* How many ranks of the group have the hash that `rank` has of a tensor. */
static uint32_t count_alike(const finding *f, uint32_t rank, uint32_t item)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n; i++)
        n += sheet_of(f, f->rank[i])->crc[item] == sheet_of(f, rank)->crc[item];
    return n;
}

/* "rank 1 (host a), rank 3 (host b)": those with fewer than `max` alike. */
static void name_ranks(const finding *f, uint32_t item, uint32_t max, char *out, size_t capacity)
{
    size_t used = 0;
    uint32_t named = 0, more = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        if (count_alike(f, f->rank[i], item) >= max)
            continue;
        if (named == NAMED || used + HOST + 32 > capacity)
            more++;
        else
            used +=
                (size_t)snprintf(out + used, capacity - used, "%srank %u (host %.63s)",
                                 named++ ? ", " : "", f->rank[i], sheet_of(f, f->rank[i])->host);
    }
    if (more && used < capacity)
        snprintf(out + used, capacity - used, " and %u more", more);
}

static void name_tensor(const finding *f, uint32_t item, char *out, size_t capacity)
{
    const plan *p = plan_of(f->plans, f->first);
    uint32_t i = 0;
    const plan_piece *x = next(p, f->axes, &i);
    for (; x && item; item--) {
        i++;
        x = next(p, f->axes, &i);
    }
    snprintf(out, capacity, "%s%s%s", x ? x->name : "?", i & 1 ? " in " : "",
             i & 1 ? p->spec->precision : "");
}

/* Replicas on other processors may round differently, and then nothing is broken. */
static void compare_devices(const finding *f, uint32_t item, char *out, size_t capacity)
{
    const sheet *first = sheet_of(f, f->first);
    out[0] = 0;
    for (uint32_t i = 1; i < f->n; i++) {
        const sheet *other = sheet_of(f, f->rank[i]);
        if (other->crc[item] == first->crc[item] || !strncmp(other->device, first->device, DEVICE))
            continue;
        snprintf(out, capacity,
                 "; rank %u computes on %.191s, rank %u on %.191s: if their processors, kernels or "
                 "numbers of threads differ, results may differ in the last bits without a fault",
                 f->first, first->device, f->rank[i], other->device);
        return;
    }
}

/* The sentence about the first tensor of which the group has different bits. */
static weft_status say(const finding *f, uint64_t step)
{
    char ranks[1024], title[256], devices[640], others[64] = "";
    uint32_t first = UINT32_MAX, differ = 0, max = 0;
    for (uint32_t k = 0; k < f->items; k++)
        if (count_alike(f, f->first, k) < f->n) {
            first = first == UINT32_MAX ? k : first;
            differ++;
        }
    if (first == UINT32_MAX)
        return err_fail(WEFT_IO,
                        "after step %llu copies of tensors differed between rank %u and those that "
                        "hold the same, and a moment later they did not: memory of one of these "
                        "hosts gives different bits at different times",
                        (unsigned long long)step, f->first);
    for (uint32_t i = 0; i < f->n; i++) {
        const uint32_t alike = count_alike(f, f->rank[i], first);
        max = alike > max ? alike : max;
    }
    const bool majority = 2 * max > f->n;
    name_ranks(f, first, majority ? max : UINT32_MAX, ranks, sizeof ranks);
    name_tensor(f, first, title, sizeof title);
    compare_devices(f, first, devices, sizeof devices);
    if (differ > 1)
        snprintf(others, sizeof others, ", the first of %u tensors that differ", differ);
    if (majority)
        return err_fail(WEFT_IO,
                        "after step %llu %s: other bits of %s%s than the %u ranks that agree; "
                        "memory, a processor or a link changed them: start without that host, from "
                        "a checkpoint of an earlier comparison%s",
                        (unsigned long long)step, ranks, title, others, max, devices);
    return err_fail(WEFT_IO,
                    "after step %llu %s: different bits of %s%s, and no majority that says which "
                    "are right; memory, a processor or a link changed them: start from a "
                    "checkpoint of an earlier comparison%s",
                    (unsigned long long)step, ranks, title, others, devices);
}

/* Names the first difference within the group of `rank`. */
static weft_status explain(run_executor *e, const plan_set *plans, uint64_t axes, uint32_t rank,
                           uint64_t step)
{
    const spec *s = e->plan->spec;
    finding f = {.plans = plans, .axes = axes, .first = leader(&s->mesh, rank, axes)};
    f.items = count_items(plan_of(plans, f.first), axes);
    for (uint32_t k = 0; k < plans->n; k++) {
        const uint32_t n = count_items(&plans->at[k], axes);
        f.capacity = n > f.capacity ? n : f.capacity;
    }
    f.sheets = mem_alloc(s->ranks * sheet_bytes(&f));
    f.rank = mem_alloc(s->ranks * sizeof *f.rank);
    for (uint32_t r = 0; r < s->ranks; r++)
        if (leader(&s->mesh, r, axes) == f.first)
            f.rank[f.n++] = r;
    weft_status st = exchange_sheets(e, &f, step);
    if (st == WEFT_OK)
        st = say(&f, step);
    free(f.sheets);
    free(f.rank);
    return st;
}

/* --- the comparison --- */

static weft_status compare(run_executor *e, const plan_set *plans, const classes *all,
                           const uint32_t *crc, uint64_t step)
{
    const graph_mesh *m = &e->plan->spec->mesh;
    for (uint32_t k = 0; k < all->n; k++)
        for (uint32_t r = 0; r < e->plan->spec->ranks; r++)
            if (crc[r * all->n + k] != crc[leader(m, r, all->at[k]) * all->n + k])
                return explain(e, plans, all->at[k], r, step);
    return WEFT_OK;
}

weft_status run_verify(run_executor *e, const plan_set *plans, uint64_t step, run_verified *out)
{
    const uint64_t began = clock_ns();
    classes all = find_classes(plans);
    *out = (run_verified){0};
    weft_status st = WEFT_OK;
    if (e->job && all.n) {
        char name[64];
        uint32_t *mine = mem_alloc(all.n * sizeof *mine);
        uint32_t *crc = mem_alloc((uint64_t)e->plan->spec->ranks * all.n * sizeof *crc);
        for (uint32_t k = 0; st == WEFT_OK && k < all.n; k++)
            st = hash_class(e, all.at[k], &mine[k], &out->bytes);
        snprintf(name, sizeof name, "verify.%llu", (unsigned long long)step);
        if (st == WEFT_OK)
            st = job_exchange(e->job, name, mine, all.n * sizeof *mine, crc);
        if (st == WEFT_OK)
            st = compare(e, plans, &all, crc, step);
        free(mine);
        free(crc);
    }
    free(all.at);
    out->ms = (double)(clock_ns() - began) * 1e-6;
    return st;
}
