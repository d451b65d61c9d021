/* simple.c: ops that are one parallel kernel run, with little pre- and post-processing. */
#include "ops.h"
#include <string.h>

enum { SMALL = 16384 }; /* elements below which waking threads costs more than it saves */

static cpu_kernel *kernel_of(const weft_prepared *p)
{
    cpu_kernel *k;
    memcpy(&k, (const char *)p->d->kernels + p->op->kernel, sizeof k);
    return k;
}

static int64_t size_of(const weft_match *m, char letter)
{
    return m->bound >> (letter - 'A') & 1 ? m->size[letter - 'A'] : 1;
}

/* [tokens, features..]: one of C, F and O is bound. `eps` is read for all; an op with other
 * attributes has a plan of its own (plan_embedding). */
CPU_PLAN(plan_rows)
{
    (void)op;
    (void)m;
    (void)workspace;
    a->rows = size_of(match, 'T');
    a->cols = size_of(match, 'C') * size_of(match, 'F') * size_of(match, 'O');
    a->eps = weft_attr_f(spec, "eps", 1e-5);
    return WEFT_OK;
}

CPU_RUN(run_rows)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    cpu_par(p->d, kernel_of(p), &j, p->a.rows, SMALL / p->a.cols);
    return WEFT_OK;
}

CPU_RUN(run_columns)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    const int64_t items = (p->a.cols + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
    cpu_par(p->d, kernel_of(p), &j, items, SMALL / COLUMN_BLOCK / p->a.rows);
    return WEFT_OK;
}

CPU_PLAN(plan_embedding)
{
    a->table = size_of(match, 'V');
    a->first = weft_attr_i(spec, "first", 0);
    return plan_rows(m, op, spec, match, a, workspace);
}

/* The workspace holds the number of keys, the keys, and a second buffer for sorting. */
CPU_PLAN(plan_embedding_dw)
{
    weft_status st = plan_embedding(m, op, spec, match, a, workspace);
    if (a->rows > UINT32_MAX)
        return cpu_fail(m, WEFT_UNSUPPORTED,
                        "op %s: %lld tokens in one pass are too many for the "
                        "cpu device; lower train.microbatch",
                        spec->id, (long long)a->rows);
    *workspace = 8 * (2 * (uint64_t)a->rows + 1);
    return st;
}

/* Write the keys, row << 32 | token, of the ids in this rank's table; returns their number. */
static int64_t make_keys(const struct cpu_args *a, const int32_t *ids, uint64_t *keys)
{
    int64_t n = 0;
    for (int64_t t = 0; t < a->rows; t++) {
        const int64_t id = ids[t] - a->first;
        if (id >= 0 && id < a->table)
            keys[n++] = (uint64_t)id << 32 | (uint64_t)t;
    }
    return n;
}

/* Stable LSD radix sort by row, eight bits per pass; `spare` is the second buffer. */
static void sort_keys(uint64_t *keys, uint64_t *spare, int64_t n)
{
    for (int shift = 32; shift < 64; shift += 8) {
        int64_t start[257] = {0};
        for (int64_t i = 0; i < n; i++)
            start[(keys[i] >> shift & 255) + 1]++;
        for (int b = 0; b < 256; b++)
            start[b + 1] += start[b];
        for (int64_t i = 0; i < n; i++)
            spare[start[keys[i] >> shift & 255]++] = keys[i];
        memcpy(keys, spare, (size_t)n * sizeof *keys);
    }
}

/* Zero out[0]. Item: FLAT_BLOCK bytes. */
static void zero_blocks(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const int64_t size = j->a->gt[0] == WEFT_F32 ? 4 : 2;
    const int64_t total = j->a->table * j->a->cols * size;
    const int64_t from = begin * FLAT_BLOCK;
    const int64_t to = end * FLAT_BLOCK < total ? end * FLAT_BLOCK : total;
    if (from < to)
        memset((char *)j->out[0] + from, 0, (size_t)(to - from));
}

CPU_RUN(run_embedding_dw)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    int64_t *count = ws;
    uint64_t *keys = (uint64_t *)ws + 1;
    *count = make_keys(&p->a, in[1], keys);
    sort_keys(keys, keys + p->a.rows, *count);
    if (!p->a.accumulate)
        cpu_par(p->d, zero_blocks, &j, p->a.table * p->a.cols * 4 / FLAT_BLOCK + 1, 1);
    cpu_par(p->d, kernel_of(p), &j, *count, SMALL / p->a.cols);
    return WEFT_OK;
}

static bool is_backward(const struct cpu_op *op)
{
    return op->kernel == offsetof(struct cpu_kernels, attention_dx);
}

CPU_PLAN(plan_attention)
{
    (void)workspace;
    a->rows = size_of(match, 'T');
    a->heads = size_of(match, 'H');
    a->dim = size_of(match, 'D');
    a->fused = !(match->bound >> ('G' - 'A') & 1);
    a->kv_heads = a->fused ? a->heads : size_of(match, 'G');
    a->sequence = weft_attr_i(spec, "sequence", a->rows);
    a->causal = weft_attr_i(spec, "causal", 1);
    const uint32_t operands = (a->fused ? 1 : 3) + (is_backward(op) ? 3 : 0);
    a->reach = spec->nin > operands ? operands : 0;
    if (a->heads % a->kv_heads != 0)
        return cpu_fail(m, WEFT_USAGE, "op %s: %lld heads are not a multiple of %lld heads of keys",
                        spec->id, (long long)a->heads, (long long)a->kv_heads);
    if (a->sequence < 1 || a->rows % a->sequence != 0)
        return cpu_fail(m, WEFT_USAGE, "op %s: %lld tokens are not whole sequences of %lld",
                        spec->id, (long long)a->rows, (long long)a->sequence);
    return WEFT_OK;
}

weft_status ready_attention(weft_prepared *p, const weft_opspec *spec)
{
    (void)spec;
    const struct cpu_kernels *k = p->d->kernels;
    return cpu_scratch_reserve(p->d, is_backward(p->op) ? k->attention_dx_scratch(&p->a)
                                                        : k->attention_scratch(&p->a));
}

CPU_RUN(run_attention)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    const int64_t heads = is_backward(p->op) ? p->a.kv_heads : p->a.heads;
    cpu_par(p->d, kernel_of(p), &j, p->a.rows / p->a.sequence * heads,
            SMALL / (p->a.sequence * p->a.dim));
    return WEFT_OK;
}

/* The workspace holds each row's loss. */
CPU_PLAN(plan_xent)
{
    (void)op;
    a->rows = size_of(match, 'T');
    a->cols = size_of(match, 'V');
    a->valid = weft_attr_i(spec, "valid", 0);
    a->weight = weft_attr_f(spec, "weight", 1.0);
    a->loss = (int32_t)spec->nout - 1;
    if (a->valid == 0)
        a->valid = a->cols;
    if (a->valid < 0 || a->valid > a->cols)
        return cpu_fail(m, WEFT_USAGE, "op %s: %lld valid columns of %lld", spec->id,
                        (long long)a->valid, (long long)a->cols);
    *workspace = 4 * (uint64_t)a->rows;
    return WEFT_OK;
}

/* A shard of the vocabulary: `table` is the size of the whole vocabulary, 0 if not given. */
CPU_PLAN(plan_vocab)
{
    (void)op;
    a->rows = size_of(match, 'T');
    a->cols = size_of(match, 'V');
    a->first = weft_attr_i(spec, "first", 0);
    a->table = weft_attr_i(spec, "valid", 0);
    a->weight = weft_attr_f(spec, "weight", 1.0);
    a->loss = (int32_t)spec->nout - 1;
    const int64_t real = a->table > 0 ? a->table - a->first : a->cols;
    a->valid = real < 0 ? 0 : real < a->cols ? real : a->cols;
    if (size_of(match, 'P') != 2 && match->bound >> ('P' - 'A') & 1)
        return cpu_fail(m, WEFT_USAGE, "op %s: there are two sums a token, not %lld", spec->id,
                        (long long)size_of(match, 'P'));
    *workspace = 4 * (uint64_t)a->rows;
    return WEFT_OK;
}

CPU_RUN(run_xent)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    cpu_par(p->d, kernel_of(p), &j, p->a.rows, SMALL / 4 / p->a.cols);
    double sum = 0;
    for (int64_t t = 0; t < p->a.rows; t++)
        sum += (double)((const float *)ws)[t];
    *(float *)out[p->a.loss] = (float)(sum * p->a.weight);
    return WEFT_OK;
}

static bool is_float(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* x [N] of any float type, one output. */
CPU_PLAN(plan_flat)
{
    (void)op;
    (void)match;
    (void)workspace;
    a->rows = spec->nin == 1 ? weft_elements(&spec->in[0]) : 0;
    if (!a->rows || spec->nout != 1 || !weft_elements(&spec->out[0]))
        return cpu_fail(m, WEFT_USAGE, "op %s: it takes one tensor and gives one", spec->id);
    if (!is_float(spec->in[0].dtype) || !is_float(spec->out[0].dtype))
        return cpu_fail(m, WEFT_UNSUPPORTED, "op %s: the cpu device has it for fp32, bf16 and fp16",
                        spec->id);
    if (weft_elements(&spec->out[0]) != a->rows)
        return cpu_fail(m, WEFT_USAGE, "op %s: input and output differ in size", spec->id);
    a->dt = spec->in[0].dtype;
    a->gt[0] = spec->out[0].dtype;
    return WEFT_OK;
}

static bool casts(uint32_t dtype)
{
    return is_float(dtype) || dtype == WEFT_I32 || dtype == WEFT_U8;
}

/* x [N] of fp32, bf16, f16, i32 or u8 to another of them. */
CPU_PLAN(plan_cast)
{
    (void)op;
    (void)match;
    (void)workspace;
    a->rows = spec->nin == 1 ? weft_elements(&spec->in[0]) : 0;
    if (!a->rows || spec->nout != 1 || weft_elements(&spec->out[0]) != a->rows)
        return cpu_fail(m, WEFT_USAGE, "op %s: it takes one tensor and gives one of its size",
                        spec->id);
    a->dt = spec->in[0].dtype;
    a->gt[0] = spec->out[0].dtype;
    if (!casts(a->dt) || !casts(a->gt[0]))
        return cpu_fail(m, WEFT_UNSUPPORTED,
                        "op %s: the cpu device has it for fp32, bf16, fp16, int32 and bytes",
                        spec->id);
    return WEFT_OK;
}

static int64_t flat_items(const struct cpu_args *a)
{
    return (a->rows + FLAT_BLOCK - 1) / FLAT_BLOCK;
}

CPU_RUN(run_flat)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    cpu_par(p->d, kernel_of(p), &j, flat_items(&p->a), 1);
    return WEFT_OK;
}

/* x [N] to one fp32. The workspace holds one double per block. */
CPU_PLAN(plan_sumsq)
{
    (void)op;
    (void)match;
    a->rows = spec->nin == 1 ? weft_elements(&spec->in[0]) : 0;
    if (!a->rows || spec->nout != 1 || weft_elements(&spec->out[0]) != 1)
        return cpu_fail(m, WEFT_USAGE, "op %s: it takes one tensor and gives a scalar", spec->id);
    if (!is_float(spec->in[0].dtype) || spec->out[0].dtype != WEFT_F32)
        return cpu_fail(m, WEFT_UNSUPPORTED,
                        "op %s: the cpu device sums fp32, bf16 or fp16 into fp32", spec->id);
    a->dt = spec->in[0].dtype;
    *workspace = 8 * (uint64_t)flat_items(a);
    return WEFT_OK;
}

CPU_RUN(run_sumsq)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    const int64_t items = flat_items(&p->a);
    cpu_par(p->d, kernel_of(p), &j, items, 1);
    double sum = 0;
    for (int64_t b = 0; b < items; b++)
        sum += ((const double *)ws)[b];
    float *total = out[0];
    *total = (float)(p->a.accumulate ? (double)*total + sum : sum);
    return WEFT_OK;
}

CPU_PLAN(plan_interchange)
{
    (void)op;
    (void)m;
    (void)spec;
    (void)workspace;
    a->rows = size_of(match, 'A');
    a->table = size_of(match, 'B');
    a->cols = size_of(match, 'C');
    return WEFT_OK;
}

/* in: x [A, B, C]; out: y [B, A, C], the same bits. Item: a row of C elements of y. */
static void interchange(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const int64_t rows = j->a->rows, bytes = j->a->cols * (j->a->dt == WEFT_F32 ? 4 : 2);
    for (int64_t i = begin; i < end; i++)
        memcpy((char *)j->out[0] + i * bytes,
               (const char *)j->in[0] + (i % rows * j->a->table + i / rows) * bytes, (size_t)bytes);
}

CPU_RUN(run_interchange)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    cpu_par(p->d, interchange, &j, p->a.rows * p->a.table, SMALL / p->a.cols);
    return WEFT_OK;
}
