/* ckpt/index.c: sorts all ranges of a checkpoint and checks coverage. See internal.h.
 *
 * That the pieces of a tensor cover it exactly once is found out without looking at elements:
 *
 *   1. The ranges of one block, in order, follow each other from its first element to its last.
 *   2. The blocks are the cells of a grid. On every axis their intervals, sorted and without
 *      doubles, follow each other from 0 to the size; then every block is one cell, and as no
 *      block occurs twice, there are as many as cells.
 *
 * O(n log n) for n ranges. Coverings that are not a grid are errors: splitting axis by axis never
 * produces one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ckpt/internal.h"

static int by_place(const void *a, const void *b)
{
    const ckpt_range *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (!order)
        order = ckpt_block_order(x->block, y->block);
    if (order)
        return order;
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

/* Checks that ranges r[0 .. n) of one block follow each other and cover it. */
static weft_status cover_block(const ckpt_range *r, uint32_t n)
{
    box b = ckpt_range_box(r);
    uint64_t whole = box_elements(&b), at = 0;
    char text[CKPT_BLOCK_TEXT + 16] = "";
    if (r->block) {
        memcpy(text, ", block ", 9);
        ckpt_block_text(r->block, text + 8);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (r[i].first < at)
            return err_fail(WEFT_DATA,
                            "tensor %s%s: elements from %" PRIu64
                            " on are stored twice, the second "
                            "time in shard %" PRIu32,
                            r->name, text, r[i].first, r[i].shard);
        if (r[i].first > at)
            break;
        if (r[i].count > whole - at)
            return err_fail(WEFT_DATA, "tensor %s%s: shard %" PRIu32 " has elements past its end",
                            r->name, text, r[i].shard);
        at += r[i].count;
    }
    if (at != whole)
        return err_fail(WEFT_DATA, "tensor %s%s: no shard has the elements from %" PRIu64 " on",
                        r->name, text, at);
    return WEFT_OK;
}

typedef struct span {
    int64_t from, to;
} span;

static int by_from(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Spans s[0 .. n), in any order, are consecutive from 0 to `size`; *cells: without duplicates. */
static weft_status chain(span *s, uint32_t n, int64_t size, const char *name, uint64_t *cells)
{
    int64_t at = 0;
    *cells = 0;
    qsort(s, n, sizeof *s, by_from);
    for (uint32_t i = 0; i < n; i++) {
        if (i && !by_from(&s[i], &s[i - 1]))
            continue;
        if (s[i].from < at)
            return err_fail(WEFT_DATA,
                            "tensor %s: blocks overlap or do not form a grid: their elements "
                            "are stored twice",
                            name);
        if (s[i].from > at)
            break;
        at = s[i].to;
        ++*cells;
    }
    if (at != size)
        return err_fail(WEFT_DATA, "tensor %s: no shard has the blocks from %" PRId64 " on", name,
                        at);
    return WEFT_OK;
}

/* The first ranges of the n distinct blocks of one tensor. */
static weft_status cover_grid(const ckpt_range *const *block, uint32_t n)
{
    uint64_t cells = 1;
    span *s = mem_alloc((uint64_t)n * sizeof *s);
    weft_status st = WEFT_OK;
    for (uint32_t a = 0; a < block[0]->rank && st == WEFT_OK; a++) {
        uint64_t here = 0;
        for (uint32_t i = 0; i < n; i++) {
            box b = ckpt_range_box(block[i]);
            s[i] = (span){b.start[a], b.start[a] + b.size[a]};
        }
        st = chain(s, n, block[0]->shape[a], block[0]->name, &here);
        cells *= here; /* no more than elements, whose number fits */
    }
    free(s);
    if (st == WEFT_OK && cells != n)
        st = err_fail(WEFT_DATA, "tensor %s: no shard has %" PRIu64 " of its %" PRIu64 " blocks",
                      block[0]->name, cells - n, cells);
    return st;
}

/* Ranges r[0 .. n) have one name. */
static weft_status cover_one(const ckpt_range *r, uint32_t n)
{
    uint64_t whole;
    uint32_t blocks = 0;
    if (!ckpt_elements(r->rank, r->shape, r->dtype, &whole))
        return err_fail(WEFT_DATA, "tensor %s has an invalid type or shape", r->name);
    const ckpt_range **block = mem_alloc((uint64_t)n * sizeof *block);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0, next; i < n && st == WEFT_OK; i = next) {
        block[blocks++] = &r[i];
        for (next = i; next < n && !ckpt_block_order(r[i].block, r[next].block); next++)
            if (!same_tensor(&r[next], r)) {
                st = err_fail(WEFT_DATA,
                              "tensor %s has two types or shapes, in shards %" PRIu32
                              " and %" PRIu32,
                              r->name, r->shard, r[next].shard);
                break;
            }
        if (st == WEFT_OK)
            st = cover_block(&r[i], next - i);
    }
    if (st == WEFT_OK)
        st = cover_grid(block, blocks);
    free(block);
    return st;
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
        if (st != WEFT_OK)
            return st;
        out[t] = (ckpt_piece){.name = head->name, .dtype = head->dtype, .rank = head->rank};
        memcpy(out[t].shape, head->shape, sizeof head->shape);
        memcpy(out[t].size, head->shape, sizeof head->shape);
        for (uint32_t k = i; k < next; k++)
            out[t].count += r->at[k].count;
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
    uint32_t max = manifest->n > headers->n ? manifest->n : headers->n;
    for (uint32_t i = 0; i < max; i++) {
        const ckpt_range *m = i < manifest->n ? &manifest->at[i] : NULL;
        const ckpt_range *h = i < headers->n ? &headers->at[i] : NULL;
        if (m && h && !by_place(m, h) && same_tensor(m, h) && m->count == h->count)
            continue;
        const ckpt_range *odd = !h || (m && by_place(m, h) < 0) ? m : h;
        return err_fail(WEFT_DATA,
                        "tensor %s: the manifest and the header of shard %" PRIu32
                        " do not agree on elements from %" PRIu64 " on",
                        odd->name, odd->shard, odd->first);
    }
    return WEFT_OK;
}
