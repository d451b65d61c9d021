/* ckpt/index.c: all ranges of a checkpoint, sorted, and held against each other. See internal.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ckpt/internal.h"

static int by_place(const void *a, const void *b)
{
    const ckpt_range *x = a, *y = b;
    int name = strcmp(x->name, y->name);
    if (name)
        return name;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

void ckpt_ranges_sort(ckpt_ranges *r)
{
    if (r->n)
        qsort(r->at, r->n, sizeof *r->at, by_place);
}

static bool same_tensor(const ckpt_range *a, const ckpt_range *b)
{
    return a->dtype == b->dtype && ckpt_shape_same(a->rank, a->shape, b->rank, b->shape);
}

/* Ranges r[0 .. n) have one name: one after the other they give the whole tensor. */
static weft_status cover_one(const ckpt_range *r, uint32_t n)
{
    uint64_t whole, at = 0;
    if (!ckpt_elements(r->rank, r->shape, r->dtype, &whole))
        return fail(WEFT_DATA, "tensor %s has an unlawful type or shape", r->name);
    for (uint32_t i = 0; i < n; i++) {
        if (!same_tensor(&r[i], r))
            return fail(WEFT_DATA,
                        "tensor %s has two types or shapes, in shards %" PRIu32 " and %" PRIu32,
                        r->name, r->shard, r[i].shard);
        if (r[i].first < at)
            return fail(WEFT_DATA,
                        "tensor %s: elements from %" PRIu64 " on are stored twice, the second "
                        "time in shard %" PRIu32,
                        r->name, r[i].first, r[i].shard);
        if (r[i].first > at)
            break;
        if (r[i].count > whole - at)
            return fail(WEFT_DATA, "tensor %s: shard %" PRIu32 " has elements past its end",
                        r->name, r[i].shard);
        at += r[i].count;
    }
    if (at != whole)
        return fail(WEFT_DATA, "tensor %s: no shard has the elements from %" PRIu64 " on", r->name,
                    at);
    return WEFT_OK;
}

weft_status ckpt_cover(const ckpt_ranges *r, pool *p, ckpt_piece **tensors, uint32_t **starts,
                       uint32_t *n)
{
    uint32_t names = 0;
    for (uint32_t i = 0; i < r->n; i++)
        names += !i || strcmp(r->at[i].name, r->at[i - 1].name);
    ckpt_piece *out = pool_array(p, names, sizeof *out);
    uint32_t *from = pool_array(p, (uint64_t)names + 1, sizeof *from);
    uint32_t t = 0;
    for (uint32_t i = 0, next; i < r->n; i = next, t++) {
        const ckpt_range *head = &r->at[i];
        for (next = i + 1; next < r->n && !strcmp(r->at[next].name, head->name);)
            next++;
        weft_status st = cover_one(head, next - i);
        if (st)
            return st;
        out[t] = (ckpt_piece){.name = head->name, .dtype = head->dtype, .rank = head->rank};
        memcpy(out[t].shape, head->shape, sizeof head->shape);
        const ckpt_range *last = &r->at[next - 1];
        out[t].count = last->first + last->count;
        from[t] = i;
    }
    from[names] = r->n;
    *tensors = out;
    *starts = from;
    *n = names;
    return WEFT_OK;
}

weft_status ckpt_ranges_agree(const ckpt_ranges *manifest, const ckpt_ranges *headers)
{
    uint32_t most = manifest->n > headers->n ? manifest->n : headers->n;
    for (uint32_t i = 0; i < most; i++) {
        const ckpt_range *m = i < manifest->n ? &manifest->at[i] : NULL;
        const ckpt_range *h = i < headers->n ? &headers->at[i] : NULL;
        if (m && h && !by_place(m, h) && same_tensor(m, h) && m->count == h->count)
            continue;
        const ckpt_range *odd = !h || (m && by_place(m, h) < 0) ? m : h;
        return fail(WEFT_DATA,
                    "tensor %s: the manifest and the header of shard %" PRIu32
                    " do not agree on elements from %" PRIu64 " on",
                    odd->name, odd->shard, odd->first);
    }
    return WEFT_OK;
}
