/* simple.c: ops that are one or two launches. How the work is cut follows from the sizes alone, so
 * that planning knows the workspace and the bits are the same on every GPU. */
#include "ops.h"

static int64_t size_of(const weft_match *m, char letter)
{
    return m->bound >> (letter - 'A') & 1 ? m->size[letter - 'A'] : 1;
}

static int64_t pieces(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

static int64_t vectors(const struct gpu_sizes *z)
{
    return z->wide ? z->cols / WIDE : z->cols;
}

/* [tokens, features..]: one of C, F, O and V is bound. A thread has a vector. */
GPU_PLAN(plan_rows)
{
    (void)op;
    (void)m;
    (void)workspace;
    z->rows = size_of(match, 'T');
    z->cols = size_of(match, 'C') * size_of(match, 'F') * size_of(match, 'O');
    z->eps = (float)weft_attr_f(spec, "eps", 1e-5);
    z->wide = z->cols % WIDE == 0;
    return WEFT_OK;
}

weft_status gpu_launch_rows(const weft_prepared *p, CUfunction f, weft_stream *s,
                            const struct gpu_job *j)
{
    const struct gpu_grid grid = {pieces(j->z.rows * vectors(&j->z), ROW_BLOCK), 1, ROW_BLOCK, 0};
    return gpu_launch(p->d, f, s, grid, j);
}

GPU_RUN(run_rows)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    return gpu_launch_rows(p, p->f[0], s, &j);
}

GPU_PLAN(plan_embedding)
{
    z->table = size_of(match, 'V');
    z->first = weft_attr_i(spec, "first", 0);
    return plan_rows(m, op, spec, match, z, workspace);
}

/* A team of threads has a row: a warp, or as many as keep the row in registers. */
GPU_PLAN(plan_teams)
{
    weft_status st = plan_rows(m, op, spec, match, z, workspace);
    z->team = 32;
    while (z->team < TEAM_MAX && vectors(z) > TEAM_VECTORS * (int64_t)z->team)
        z->team *= 2;
    return st;
}

GPU_RUN(run_teams)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    const int64_t teams = p->z.team == 32 ? ROW_BLOCK / 32 : 1; /* a block has */
    const struct gpu_grid grid = {pieces(p->z.rows, teams), 1, (uint32_t)(teams * p->z.team), 0};
    return gpu_launch(p->d, p->f[0], s, grid, &j);
}

/* Sums of columns: partial sums of runs of rows, then those. The workspace holds the partial sums
 * of each output. */
uint64_t gpu_cut_rows(struct gpu_sizes *z)
{
    z->parts = pieces(z->rows, COLUMN_ROWS);
    z->parts = z->parts > COLUMN_PARTS ? COLUMN_PARTS : z->parts;
    z->part = pieces(z->rows, z->parts);
    z->parts = pieces(z->rows, z->part);
    return (uint64_t)(z->parts * z->cols) * sizeof(float);
}

GPU_PLAN(plan_columns)
{
    weft_status st = plan_rows(m, op, spec, match, z, workspace);
    *workspace = spec->nout * gpu_cut_rows(z);
    return st;
}

weft_status gpu_launch_columns(const weft_prepared *p, const CUfunction f[2], uint32_t outputs,
                               weft_stream *s, const struct gpu_job *j)
{
    const struct gpu_grid part = {pieces(vectors(&j->z), 32), j->z.parts, ROW_BLOCK, 0};
    const struct gpu_grid total = {pieces(j->z.cols, 32), outputs, ROW_BLOCK, 0};
    weft_status st = gpu_launch(p->d, f[0], s, part, j);
    return st != WEFT_OK ? st : gpu_launch(p->d, f[1], s, total, j);
}

GPU_RUN(run_columns)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    return gpu_launch_columns(p, p->f, p->nout, s, &j);
}

/* The workspace holds each row's loss. */
GPU_PLAN(plan_xent)
{
    (void)op;
    z->rows = size_of(match, 'T');
    z->cols = size_of(match, 'V');
    z->valid = weft_attr_i(spec, "valid", 0);
    z->weight = (float)weft_attr_f(spec, "weight", 1.0);
    z->loss = (int32_t)spec->nout - 1;
    z->wide = z->cols % WIDE == 0;
    if (z->valid == 0)
        z->valid = z->cols;
    if (z->valid < 0 || z->valid > z->cols)
        return gpu_fail(m, WEFT_USAGE, "op %s: %lld valid columns of %lld", spec->id,
                        (long long)z->valid, (long long)z->cols);
    *workspace = 4 * (uint64_t)z->rows;
    return WEFT_OK;
}

/* A shard of the vocabulary: `table` is the size of the whole, 0 if unknown. */
GPU_PLAN(plan_vocab)
{
    (void)op;
    z->rows = size_of(match, 'T');
    z->cols = size_of(match, 'V');
    z->first = weft_attr_i(spec, "first", 0);
    z->table = weft_attr_i(spec, "valid", 0);
    z->weight = (float)weft_attr_f(spec, "weight", 1.0);
    z->loss = (int32_t)spec->nout - 1;
    z->wide = z->cols % WIDE == 0;
    const int64_t real = z->table > 0 ? z->table - z->first : z->cols;
    z->valid = real < 0 ? 0 : real < z->cols ? real : z->cols;
    if (size_of(match, 'P') != 2 && match->bound >> ('P' - 'A') & 1)
        return gpu_fail(m, WEFT_USAGE, "op %s: there are two sums a token, not %lld", spec->id,
                        (long long)size_of(match, 'P'));
    *workspace = 4 * (uint64_t)z->rows;
    return WEFT_OK;
}

/* A block has a row. Few large blocks for long rows: what is read twice then stays in the cache. */
GPU_RUN(run_blocks)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    const uint32_t threads = p->z.cols > 16384 ? 1024 : p->z.cols > 2048 ? 512 : 128;
    const struct gpu_grid grid = {p->z.rows, 1, threads, 0};
    return gpu_launch(p->d, p->f[0], s, grid, &j);
}

static weft_status sum_losses(const weft_prepared *p, weft_stream *s, const struct gpu_job *j)
{
    const struct gpu_grid one = {1, 1, SUM_BLOCK, 0};
    return gpu_launch(p->d, p->f[1], s, one, j);
}

GPU_RUN(run_xent)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    weft_status st = run_blocks(p, s, in, out, ws);
    return st != WEFT_OK ? st : sum_losses(p, s, &j);
}

/* A thread has a row. */
GPU_RUN(run_loss)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    const struct gpu_grid grid = {pieces(p->z.rows, ROW_BLOCK), 1, ROW_BLOCK, 0};
    weft_status st = gpu_launch(p->d, p->f[0], s, grid, &j);
    return st != WEFT_OK ? st : sum_losses(p, s, &j);
}

/* x [N] of any float type, one output. */
GPU_PLAN(plan_flat)
{
    (void)op;
    (void)match;
    (void)workspace;
    z->rows = spec->nin == 1 ? weft_elements(&spec->in[0]) : 0;
    if (!z->rows || spec->nout != 1 || !weft_elements(&spec->out[0]))
        return gpu_fail(m, WEFT_USAGE, "op %s: it takes one tensor and gives one", spec->id);
    if (!gpu_is_float(spec->in[0].dtype) || !gpu_is_float(spec->out[0].dtype))
        return gpu_fail(m, WEFT_UNSUPPORTED,
                        "op %s: the cuda device has it for fp32, bf16 and fp16", spec->id);
    if (weft_elements(&spec->out[0]) != z->rows)
        return gpu_fail(m, WEFT_USAGE, "op %s: input and output differ in size", spec->id);
    z->dt = spec->in[0].dtype;
    z->gt[0] = spec->out[0].dtype;
    return WEFT_OK;
}

GPU_RUN(run_flat)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    const struct gpu_grid grid = {pieces(p->z.rows, ROW_BLOCK * WIDE), 1, ROW_BLOCK, 0};
    return gpu_launch(p->d, p->f[0], s, grid, &j);
}

/* x [N] to one fp32. The workspace holds a double a block. */
GPU_PLAN(plan_sumsq)
{
    (void)op;
    (void)match;
    z->rows = spec->nin == 1 ? weft_elements(&spec->in[0]) : 0;
    if (!z->rows || spec->nout != 1 || weft_elements(&spec->out[0]) != 1)
        return gpu_fail(m, WEFT_USAGE, "op %s: it takes one tensor and gives a scalar", spec->id);
    if (!gpu_is_float(spec->in[0].dtype) || spec->out[0].dtype != WEFT_F32)
        return gpu_fail(m, WEFT_UNSUPPORTED,
                        "op %s: the cuda device sums fp32, bf16 or fp16 into fp32", spec->id);
    z->dt = spec->in[0].dtype;
    z->parts = pieces(z->rows, FLAT_BLOCK);
    *workspace = 8 * (uint64_t)z->parts;
    return WEFT_OK;
}

GPU_RUN(run_sumsq)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    const struct gpu_grid part = {p->z.parts, 1, ROW_BLOCK, 0}, total = {1, 1, SUM_BLOCK, 0};
    weft_status st = gpu_launch(p->d, p->f[0], s, part, &j);
    return st != WEFT_OK ? st : gpu_launch(p->d, p->f[1], s, total, &j);
}

/* x [A, B, C] to y [B, A, C]. */
GPU_PLAN(plan_interchange)
{
    (void)op;
    (void)m;
    (void)spec;
    (void)workspace;
    z->rows = size_of(match, 'A');
    z->parts = size_of(match, 'B');
    z->cols = size_of(match, 'C');
    z->wide = z->cols % WIDE == 0;
    return WEFT_OK;
}

GPU_RUN(run_interchange)
{
    const struct gpu_job j = gpu_job_of(p, in, out, ws);
    const int64_t all = p->z.rows * p->z.parts * vectors(&p->z);
    const struct gpu_grid grid = {pieces(all, ROW_BLOCK), 1, ROW_BLOCK, 0};
    return gpu_launch(p->d, p->f[0], s, grid, &j);
}
