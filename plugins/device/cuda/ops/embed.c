/* embed.c: the host side of the gradient of an embedding (kern/embed.cu): keys, sort, sums. */
#include "ops.h"

/* The workspace: keys, tokens, and both again to sort them; counts of digits; partial sums. */
GPU_PLAN(plan_embedding_dw)
{
    weft_status st = plan_embedding(m, op, spec, match, z, workspace);
    if (z->rows > INT32_MAX || z->table >= INT32_MAX)
        return gpu_fail(m, WEFT_UNSUPPORTED,
                        "op %s: %lld tokens or a table of %lld rows are too many for the cuda "
                        "device; lower train.microbatch",
                        spec->id, (long long)z->rows, (long long)z->table);
    const int64_t pairs = 4 * ((z->rows + 15) / 16 * 16);
    const int64_t counts = (z->rows + SORT_BLOCK - 1) / SORT_BLOCK * SORT_DIGITS;
    const int64_t sums = (z->rows + RUN_BLOCK - 1) / RUN_BLOCK * 2 * z->cols;
    *workspace = 4 * (uint64_t)(pairs + counts + sums);
    return st;
}

/* Keys are up to `table`, the key of all ids outside the table. */
static int digits(int64_t table)
{
    int n = 1;
    while (table >> (n * SORT_BITS) > 0)
        n++;
    return n;
}

static weft_status sort(const weft_prepared *p, weft_stream *s, struct gpu_job *j)
{
    const int64_t blocks = (p->z.rows + SORT_BLOCK - 1) / SORT_BLOCK;
    const struct gpu_grid all = {blocks, 1, SORT_THREADS, 0}, one = {1, 1, SUM_BLOCK, 0};
    weft_status st = WEFT_OK;
    for (int k = 0; st == WEFT_OK && k < digits(p->z.table); k++) {
        j->z.digit = k * SORT_BITS;
        st = gpu_launch(p->d, p->f[1], s, all, j);
        if (st == WEFT_OK)
            st = gpu_launch(p->d, p->f[2], s, one, j);
        if (st == WEFT_OK)
            st = gpu_launch(p->d, p->f[3], s, all, j);
        j->z.flip ^= 1;
    }
    return st;
}

GPU_RUN(run_embedding_dw)
{
    struct gpu_job j = gpu_job_of(p, in, out, ws);
    const int64_t vectors = p->z.wide ? p->z.cols / WIDE : p->z.cols;
    const struct gpu_grid keys = {(p->z.rows + ROW_BLOCK - 1) / ROW_BLOCK, 1, ROW_BLOCK, 0};
    const struct gpu_grid runs = {(p->z.rows + RUN_BLOCK - 1) / RUN_BLOCK,
                                  (vectors + RUN_THREADS - 1) / RUN_THREADS, RUN_THREADS, 0};
    const uint64_t bytes = (uint64_t)(p->z.table * p->z.cols) * weft_dtype_size(p->z.gt[0]);
    weft_status st = WEFT_OK;
    if (!p->z.accumulate)
        st = gpu_check(p->d,
                       p->d->cu->cuMemsetD8Async((CUdeviceptr)(uintptr_t)out[0], 0, bytes, s->cu),
                       "clearing a gradient");
    if (st == WEFT_OK)
        st = gpu_launch(p->d, p->f[0], s, keys, &j);
    if (st == WEFT_OK)
        st = sort(p, s, &j);
    if (st == WEFT_OK)
        st = gpu_launch(p->d, p->f[4], s, runs, &j);
    return st != WEFT_OK ? st : gpu_launch(p->d, p->f[5], s, runs, &j);
}
