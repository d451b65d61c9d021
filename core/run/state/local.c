/* run/state/local.c: see local.h. */
#include "run/state/local.h"

#include "base/lengthy.h"
#include "base/number/half.h"
#include "run/exec/arena.h"
#include "run/save/pieces.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

run_local run_local_find(const run_executor *e, const plan_piece *x)
{
    run_local l = {.x = x};
    plan_extent_of(e->plan, x, e->rank, PLAN_EXTENT_HELD, &l.held);
    plan_extent_of(e->plan, x, e->rank, PLAN_EXTENT_COPIED, &l.copied);
    const plan_extent *longer = l.copied.count > l.held.count ? &l.copied : &l.held;
    l.first = longer->first;
    l.end = longer->first + longer->count;
    return l;
}

/* `x` as one element at `to`; returns its bytes. */
static uint64_t store(uint32_t dtype, float x, char *to)
{
    const uint16_t half = dtype == WEFT_F16 ? f16_from(x) : bf16_from(x);
    if (dtype == WEFT_U8)
        *(uint8_t *)to = (uint8_t)fminf(fmaxf(rintf(x), 0), 255);
    else if (dtype == WEFT_I32)
        memcpy(to, &(int32_t){(int32_t)fminf(fmaxf(rintf(x), -2147483648.0f), 2147483520.0f)}, 4);
    else
        memcpy(to, &half, 2);
    return weft_dtype_size(dtype);
}

void run_local_convert(uint32_t dtype, const float *v, uint64_t n, void *out)
{
    char *to = out;
    if (dtype == WEFT_F32 && out != v)
        memcpy(out, v, n * sizeof *v);
    for (uint64_t i = 0; i < n && dtype != WEFT_F32; i++) /* no result is wider than its value */
        to += store(dtype, v[i], to);
}

/* Intersects the elements [*from, *to) of a block with `x`; false: empty. */
static bool meet(const plan_extent *x, uint64_t *from, uint64_t *to)
{
    *from = *from < x->first ? x->first : *from;
    *to = *to > x->first + x->count ? x->first + x->count : *to;
    return *from < *to;
}

weft_status run_local_put(run_executor *e, const run_local *l, uint64_t first, const void *v,
                          uint64_t n, uint16_t *scratch)
{
    const uint64_t size = weft_dtype_size(l->x->shape.dtype);
    uint64_t from = first, to = first + n;
    if (meet(&l->held, &from, &to)) {
        weft_status st =
            run_exec_write(e, l->held.offset + (from - l->held.first) * size,
                           (const char *)v + (from - first) * size, (to - from) * size);
        if (st != WEFT_OK)
            return st;
    }
    from = first;
    to = first + n;
    if (!meet(&l->copied, &from, &to))
        return WEFT_OK;
    run_local_convert(l->x->copy_dtype, (const float *)v + (from - first), to - from, scratch);
    return run_exec_write(e, l->copied.copy + (from - l->copied.first) * 2, scratch,
                          (to - from) * 2);
}

static weft_status load_piece(run_executor *e, const run_source *s, const plan_piece *p, float *v,
                              uint16_t *scratch, lengthy *progress)
{
    ckpt_piece want;
    const run_local l = run_local_find(e, p);
    run_save_describe(p, l.held.count ? &l.held : &l.copied, &want);
    for (uint64_t first = l.first; first < l.end; first += LOCAL_CHUNK) {
        want.first = first;
        want.count = l.end - first < LOCAL_CHUNK ? l.end - first : LOCAL_CHUNK;
        weft_status st = s->read(s->from, p, &want, v);
        if (st == WEFT_OK)
            st = run_local_put(e, &l, first, v, want.count, scratch);
        if (st != WEFT_OK)
            return st;
        lengthy_add(progress, want.count * sizeof *v);
    }
    return WEFT_OK;
}

weft_status run_local_load(run_executor *e, const run_source *s)
{
    float *v = mem_alloc(LOCAL_CHUNK * sizeof *v);
    uint16_t *scratch = mem_alloc(LOCAL_CHUNK * sizeof *scratch);
    lengthy progress;
    uint64_t elements = 0;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < e->plan->pieces.n; i++) {
        const run_local l = run_local_find(e, &e->plan->pieces.at[i]);
        elements += !s->has || s->has(l.x) ? l.end - l.first : 0;
    }
    lengthy_begin(&progress, s->what, elements * sizeof *v);
    for (uint32_t i = 0; st == WEFT_OK && i < e->plan->pieces.n; i++)
        if (!s->has || s->has(&e->plan->pieces.at[i]))
            st = load_piece(e, s, &e->plan->pieces.at[i], v, scratch, &progress);
    free(v);
    free(scratch);
    return st;
}
