/* attention.c: attention forward and backward: cuDNN's (sdpa.c) where it serves these sizes, else
 * kernels of our own (kern/attention.cu). Both write the same operands, so that the forward pass of
 * one and the backward pass of the other go together. */
#include "ops/ops.h"
#include "sdpa.h"
#include <math.h>

GPU_PLAN(plan_attention)
{
    (void)op;
    if (spec->in[spec->nin - 1].dtype == WEFT_I32)
        return gpu_fail(m, WEFT_UNSUPPORTED,
                        "op %s: the cuda device has no kernel that leaves out keys by `reach`; say "
                        "data.documents = joined, or device.plugin = cpu",
                        spec->id);
    z->rows = match->size['T' - 'A'];
    z->heads = match->size['H' - 'A'];
    z->dim = match->size['D' - 'A'];
    z->fused = !(match->bound >> ('G' - 'A') & 1);
    z->kv_heads = z->fused ? z->heads : match->size['G' - 'A'];
    z->sequence = weft_attr_i(spec, "sequence", z->rows);
    z->causal = weft_attr_i(spec, "causal", 1) != 0;
    z->weight = (float)(1 / sqrt((double)z->dim));
    if (z->heads % z->kv_heads != 0)
        return gpu_fail(m, WEFT_USAGE, "op %s: %lld heads are not a multiple of %lld heads of keys",
                        spec->id, (long long)z->heads, (long long)z->kv_heads);
    if (z->sequence < 1 || z->rows % z->sequence != 0)
        return gpu_fail(m, WEFT_USAGE, "op %s: %lld tokens are not whole sequences of %lld",
                        spec->id, (long long)z->rows, (long long)z->sequence);
    *workspace = gpu_sdpa_workspace(z, false, (spec->flags & WEFT_SPEC_DETERMINISTIC) != 0);
    return WEFT_OK;
}

/* Our own kernels want a number a token and head. */
GPU_PLAN(plan_attention_dx)
{
    weft_status st = plan_attention(m, op, spec, match, z, workspace);
    const uint64_t own = (uint64_t)(z->rows * z->heads) * sizeof(float);
    *workspace = gpu_sdpa_workspace(z, true, (spec->flags & WEFT_SPEC_DETERMINISTIC) != 0);
    *workspace = *workspace < own ? own : *workspace;
    return st;
}

static bool backward(const weft_prepared *p)
{
    return p->op->plan == plan_attention_dx;
}

/* Bytes of shared memory of the tiles: of queries, keys and so on, and one or two of pairs. */
static uint64_t tile_bytes(const weft_prepared *p, int64_t rows)
{
    const int64_t tiles = backward(p) ? 6 : 4, pairs = backward(p) ? 2 : 1;
    return 4 * (uint64_t)(tiles * rows * (p->z.dim + 1) + pairs * rows * (rows + 1));
}

static weft_status ready_own(weft_prepared *p)
{
    p->z.part = HEAD_TILE;
    while (p->z.part > 8 && tile_bytes(p, p->z.part) > (uint64_t)p->d->shared)
        p->z.part /= 2;
    const uint64_t bytes = tile_bytes(p, p->z.part);
    if (bytes > (uint64_t)p->d->shared)
        return gpu_fail(p->d->m, WEFT_UNSUPPORTED,
                        "op %s: heads of %lld elements are more than this GPU takes", p->op->id,
                        (long long)p->z.dim);
    weft_status st = WEFT_OK; /* as much as there is: a kernel is that of calls of all sizes */
    for (int k = backward(p); st == WEFT_OK && k < (backward(p) ? 3 : 1); k++)
        st = gpu_check(p->d,
                       p->d->cu->cuFuncSetAttribute(
                           p->f[k], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, p->d->shared),
                       "giving a kernel its shared memory");
    return st;
}

weft_status ready_attention(weft_prepared *p, const weft_opspec *spec)
{
    if (p->d->sdpa) {
        weft_status st = gpu_sdpa_ready(p, spec, backward(p));
        if (st != WEFT_UNSUPPORTED)
            return st;
    }
    return ready_own(p);
}

void drop_attention(weft_prepared *p)
{
    gpu_sdpa_drop(p->d, p->extra);
}

static weft_status run_own(const weft_prepared *p, weft_stream *s, const struct gpu_job *j)
{
    const int64_t tiles = (p->z.sequence + p->z.part - 1) / p->z.part;
    const int64_t sequences = p->z.rows / p->z.sequence;
    const uint32_t shared = (uint32_t)tile_bytes(p, p->z.part);
    const struct gpu_grid heads = {sequences * p->z.heads, tiles, HEAD_THREADS, shared};
    const struct gpu_grid kv = {sequences * p->z.kv_heads, tiles, HEAD_THREADS, shared};
    const struct gpu_grid delta = {(p->z.rows * p->z.heads * 32 + ROW_BLOCK - 1) / ROW_BLOCK, 1,
                                   ROW_BLOCK, 0};
    if (!backward(p))
        return gpu_launch(p->d, p->f[0], s, heads, j);
    weft_status st = gpu_launch(p->d, p->f[0], s, delta, j);
    if (st == WEFT_OK)
        st = gpu_launch(p->d, p->f[1], s, kv, j);
    return st != WEFT_OK ? st : gpu_launch(p->d, p->f[2], s, heads, j);
}

GPU_RUN(run_attention)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    return p->extra ? gpu_sdpa_run(p, s, backward(p), &j) : run_own(p, s, &j);
}
