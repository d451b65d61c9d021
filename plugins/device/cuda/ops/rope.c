/* rope.c: the host side of rotary embedding: a table of the angles, made once.
 *
 * Cosines and sines are formed in double precision when the op is prepared: 4 bytes for each
 * position and element of a head, a megabyte for 2,048 positions of 128 elements. The inverse
 * rotation has its sines negated, so that the kernel knows one direction. */
#include "ops.h"
#include <math.h>

GPU_PLAN(plan_rope)
{
    (void)op;
    (void)workspace;
    z->rows = match->size['T' - 'A'];
    z->heads = match->size['H' - 'A'];
    z->dim = match->size['D' - 'A'];
    z->cols = z->heads * z->dim / 2; /* pairs */
    z->wide = z->dim / 2 % WIDE == 0;
    z->sequence = weft_attr_i(spec, "sequence", z->rows);
    if (z->sequence < 1 || z->rows % z->sequence != 0)
        return gpu_fail(m, WEFT_USAGE, "op %s: %lld tokens are not whole sequences of %lld",
                        spec->id, (long long)z->rows, (long long)z->sequence);
    if (z->dim % 2 != 0)
        return gpu_fail(m, WEFT_USAGE, "op %s: a head of %lld elements cannot be split into pairs",
                        spec->id, (long long)z->dim);
    if (!(weft_attr_f(spec, "theta", 1e4) > 0))
        return gpu_fail(m, WEFT_USAGE, "op %s: theta must be above 0", spec->id);
    return WEFT_OK;
}

/* The angle between two positions of pair `i`: theta^(-i / half), divided by `factor`. With
 * `original`, the positions of a first training, only those pairs are divided that turn less than
 * `low` times in it; of those that turn less than `high` times a part (Llama 3). */
static double step_of(const weft_opspec *spec, int64_t i, int64_t half)
{
    const double step = pow(weft_attr_f(spec, "theta", 1e4), -(double)i / (double)half);
    const double factor = weft_attr_f(spec, "factor", 1), low = weft_attr_f(spec, "low", 1);
    const double high = weft_attr_f(spec, "high", 4);
    const double turns = (double)weft_attr_i(spec, "original", 0) * step / 6.283185307179586477;
    if (turns >= high)
        return step;
    const double kept = turns > low ? (turns - low) / (high - low) : 0;
    return (1 - kept) * step / factor + kept * step;
}

static void fill_table(float *turn, const weft_opspec *spec, int64_t sequence, int64_t half)
{
    const double sign = weft_attr_i(spec, "sign", 1) < 0 ? -1 : 1;
    for (int64_t i = 0; i < half; i++) {
        const double step = step_of(spec, i, half);
        for (int64_t p = 0; p < sequence; p++) {
            turn[p * 2 * half + i] = (float)cos((double)p * step);
            turn[p * 2 * half + half + i] = (float)(sign * sin((double)p * step));
        }
    }
}

weft_status ready_rope(weft_prepared *p, const weft_opspec *spec)
{
    const weft_host *host = p->d->m->host;
    const uint64_t bytes = (uint64_t)(p->z.sequence * p->z.dim) * sizeof(float);
    float *turn = host->alloc(host->ctx, bytes, 64);
    CUdeviceptr table = 0;
    if (!turn)
        return gpu_fail(p->d->m, WEFT_NO_MEMORY, "no memory for %llu bytes of rotary angles",
                        (unsigned long long)bytes);
    fill_table(turn, spec, p->z.sequence, p->z.dim / 2);
    weft_status st = gpu_own_memory(p->d, bytes, &table);
    if (st == WEFT_OK)
        st = gpu_upload(p->d, table, turn, bytes);
    host->free(host->ctx, turn);
    if (st != WEFT_OK) {
        gpu_free_memory(p->d, table);
        return st;
    }
    p->extra = (void *)(uintptr_t)table;
    return WEFT_OK;
}

GPU_RUN(run_rope)
{
    struct gpu_job j = gpu_job_of(p, in, out, ws);
    const int64_t n = p->z.rows * (p->z.wide ? p->z.cols / WIDE : p->z.cols);
    const struct gpu_grid grid = {(n + ROW_BLOCK - 1) / ROW_BLOCK, 1, ROW_BLOCK, 0};
    j.in[1] = p->extra;
    return gpu_launch(p->d, p->f[0], s, grid, &j);
}

void drop_rope(weft_prepared *p)
{
    gpu_free_memory(p->d, (CUdeviceptr)(uintptr_t)p->extra);
}
