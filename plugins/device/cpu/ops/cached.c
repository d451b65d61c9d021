/* cached.c: the host side of generation: caches of keys and values, and products of one row.
 *
 * With one row oneDNN's product packs the matrix, or computes on one thread; the kernel here reads
 * it once, on all threads. */
#include "ops.h"
#include <string.h>

enum { LITTLE = 16384 }; /* elements below which waking threads costs more than it saves */

static int64_t size_of(const weft_match *m, char letter)
{
    return m->bound >> (letter - 'A') & 1 ? m->size[letter - 'A'] : 1;
}

/* Fits one of two forms with as many operands: with four axes operand `which` has queries, keys and
 * values in one tensor. */
static weft_status fit(const struct cpu_module *m, const weft_opspec *spec, uint32_t which,
                       const char *const in[2], const char *const out[2], struct cpu_args *a,
                       weft_match *match)
{
    a->fused = spec->nin > which && spec->in[which].rank == 4;
    weft_status st = weft_match_spec(match, "cpu", spec, in[a->fused], out[a->fused]);
    if (st != WEFT_OK)
        return m->host->fail(m->host->ctx, st, match->why);
    a->dt = match->dt;
    a->rows = size_of(match, 'T');
    a->dim = size_of(match, 'D');
    a->sequence = size_of(match, 'M');
    a->heads = size_of(match, 'H');
    a->kv_heads = a->fused ? a->heads : size_of(match, 'G');
    return WEFT_OK;
}

/* --- cache.write --- */

/* `fused`: x has three parts, of which number `first` is written. */
CPU_PLAN(plan_cache_write)
{
    static const char *const ins[] = {"cGMD cTGD iT", "cHMD cT3HD iT"};
    static const char *const outs[] = {"cGMD", "cHMD"};
    weft_match own = {.bound = 0};
    (void)op;
    (void)match;
    (void)workspace;
    weft_status st = fit(m, spec, 1, ins, outs, a, &own);
    if (st != WEFT_OK)
        return st;
    a->first = a->fused ? weft_attr_i(spec, "part", 1) : 0;
    if (a->first < 0 || a->first > 2)
        return cpu_fail(m, WEFT_USAGE, "op %s: there is no part %lld of queries, keys and values",
                        spec->id, (long long)a->first);
    return WEFT_OK;
}

/* in: cache [G,M,D], x [T,G,D] or [T,3,G,D], at i32 [T]; out: the cache, which may be the same
 * memory. Item: a head. */
static void write_heads(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    const struct cpu_args *a = j->a;
    const int64_t row = a->dim * (a->dt == WEFT_F32 ? 4 : 2), head = a->sequence * row;
    const int32_t *at = j->in[2];
    (void)scratch;
    for (int64_t g = begin; g < end; g++) {
        char *to = (char *)j->out[0] + g * head;
        if (j->out[0] != j->in[0])
            memcpy(to, (const char *)j->in[0] + g * head, (size_t)head);
        for (int64_t t = 0; t < a->rows; t++) {
            const int64_t from = ((a->fused ? 3 * t + a->first : t) * a->kv_heads + g) * row;
            if (at[t] >= 0 && at[t] < a->sequence)
                memcpy(to + at[t] * row, (const char *)j->in[1] + from, (size_t)row);
        }
    }
}

CPU_RUN(run_cache_write)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    cpu_par(p->d, write_heads, &j, p->a.kv_heads, LITTLE / (p->a.rows * p->a.dim));
    return WEFT_OK;
}

/* --- attention.cached --- */

CPU_PLAN(plan_attention_cached)
{
    static const char *const ins[] = {"cTHD cGMD cGMD iT", "cT3HD cHMD cHMD iT"};
    static const char *const outs[] = {"cTHD", "cTHD"};
    weft_match own = {.bound = 0};
    (void)op;
    (void)match;
    (void)workspace;
    weft_status st = fit(m, spec, 0, ins, outs, a, &own);
    if (st != WEFT_OK)
        return st;
    if (a->heads % a->kv_heads != 0)
        return cpu_fail(m, WEFT_USAGE, "op %s: %lld heads are not a multiple of %lld heads of keys",
                        spec->id, (long long)a->heads, (long long)a->kv_heads);
    return WEFT_OK;
}

weft_status ready_attention_cached(weft_prepared *p, const weft_opspec *spec)
{
    (void)spec;
    return cpu_scratch_reserve(p->d, p->d->kernels->attention_cached_scratch(&p->a));
}

CPU_RUN(run_attention_cached)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    cpu_par(p->d, p->d->kernels->attention_cached, &j, p->a.rows * p->a.heads, 1);
    return WEFT_OK;
}

/* --- linear of one row --- */

bool product_is_row(const weft_prepared *p)
{
    return p->op->form == PRODUCT_Y && p->a.rows == 1 && p->a.outer == 1;
}

CPU_RUN(product_row_run)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    cpu_par(p->d, p->d->kernels->product_row, &j, (p->a.cols + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK,
            LITTLE / PRODUCT_BLOCK / p->a.inner);
    return WEFT_OK;
}
