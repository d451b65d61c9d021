/* product.c: linear and its gradients: matrix products (GEMM) with oneDNN.
 *
 *   y  [T,O] = x [T,I] w' [I,O] + b
 *   dx [T,I] = dy [T,O] w [O,I]
 *   dw [O,I] = dy' [O,T] x [T,I]
 *
 * and bmm and its gradients, the same for each index of a batch: one product after the other, by
 * all threads or, where the batch divides well, on a thread each. (oneDNN's own batched product was
 * measured with eight of 128 by 2048 by 512: its dw takes twice the time in fp32 and three times in
 * bf16.)
 *
 * Transposes are strides of row-major memory. oneDNN packs operands, block by block.
 *
 * A product is split into parts, one per thread, and oneDNN computes each on that thread. Measured
 * on AVX-512 (tokens 256-2048, widths 192-3072 and a head of 50304, fp32 and bf16) this is 2-20 %
 * faster than oneDNN's own threading, and reaches 86-97 % of the multiply-add peak. The dimension
 * that is split (way_of):
 *
 *   dw   the longer one
 *   y    outputs if the weights are large and have more outputs than inputs, else tokens
 *   dx   inputs if the weights are large, else tokens
 *
 * Each part of a split along tokens packs all weights again, which costs most if they exceed the
 * cache. In a split along the other dimension parts must be wide, and oneDNN's kernel holds a
 * 16-bit result in fp32 scratch (ROOM). On one thread, two parts still beat one when weights or
 * their gradient are split, because their blocks fit the caches better. Splitting loses with parts
 * too narrow for oneDNN's blocks (LEAST_...), and with oneDNN's AVX2 kernels, which use another
 * algorithm on one thread and are up to twice as slow; with few tokens, oneDNN's own threading is
 * equal or up to 5 % faster. In these cases the product is not split.
 *
 * With AMX products of bf16 are computed by a kernel of our own (product_tiled.c), small ones by
 * oneDNN, not split.
 *
 * If oneDNN has only its reference kernel (bf16 before AVX-512, fp16 before AVX512-FP16), 16-bit
 * operands are widened to fp32 first and the result is rounded afterwards. */
#include "ops.h"
#include <string.h>

enum {
    WORKSPACE = 2 << 20, /* what oneDNN needs on a few threads; prepare allocates more */
    HEAVY = 3 << 20,     /* bytes of weights above which packing them twice is costly */
    ROOM = 32 << 20,     /* bytes of scratch above which this split is not used */
    GRAIN = 32,          /* parts begin at multiples of it */
    LEAST_SIDE = 96,     /* of a part, in elements: the minimum */
    LEAST_COLUMNS = 384, /* ... of y and dx */
    FEW_TOKENS = 512     /* per thread; below, no split along tokens, and none of y */
};

/* Rows [m0, m0 + m) and columns [n0, n0 + n) of results [b0, b0 + count) of the batch. */
struct block {
    dnnl_dim_t m0, n0, m, n, b0, count;
};

struct part {
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, bias, c, scratch;
    int64_t at_a, at_b, at_bias, at_c; /* offsets into the operands, in elements */
    uint64_t at_scratch;               /* bytes */
    int64_t count;                     /* products, one after the other */
};

struct product {
    bool scratch_outside;      /* scratch exceeds the plan's workspace */
    bool wide;                 /* operands are fp32 copies, adjacent in the device's `wide` */
    int64_t na, nb, nbias, nc; /* elements of a product of the batch */
    int64_t batch;
    uint64_t scratch;         /* bytes, all parts */
    struct cpu_product tiled; /* product_tiled.c; n is 0 where oneDNN computes it */
    int64_t parts;
    struct part part[];
};

/* C [m,n] = A [m,k] B [k,n], `batch` times; at, bt: the operand is stored transposed. */
struct form {
    dnnl_dim_t batch, m, n, k;
    bool at, bt;
};

static struct form form_of(const weft_prepared *p)
{
    const int64_t batch = p->a.outer, t = p->a.rows, o = p->a.cols, i = p->a.inner;
    switch (p->op->form) {
    case PRODUCT_Y: return (struct form){batch, t, o, i, false, true};
    case PRODUCT_DX: return (struct form){batch, t, i, o, false, false};
    default: return (struct form){batch, o, i, t, true, false};
    }
}

CPU_PLAN(plan_product)
{
    (void)m;
    (void)op;
    (void)spec;
    a->rows = match->size['T' - 'A'];
    a->cols = match->size['O' - 'A'];
    a->inner = match->size['I' - 'A'];
    a->outer = match->bound >> ('B' - 'A') & 1 ? match->size['B' - 'A'] : 1;
    *workspace = WORKSPACE;
    return WEFT_OK;
}

/* How a product is split: the number of parts, and whether along rows or columns. */
struct way {
    int64_t parts;
    bool rows;
};

/* The largest number of parts that way_of returns. */
static int64_t max_parts(const weft_device *d)
{
    return d->threads > 1 ? d->threads : 2;
}

static struct way way_of(const weft_prepared *p, const struct form *f, int64_t size)
{
    const int64_t o = p->a.cols, i = p->a.inner, threads = p->d->threads;
    const bool few = p->a.rows / threads < FEW_TOKENS, dx = p->op->form == PRODUCT_DX;
    struct way w = {max_parts(p->d), true};
    if (f->batch > 1)
        return (struct way){f->batch % threads && f->batch < 4 * threads ? 1 : threads, true};
    if (p->op->form == PRODUCT_DW)
        w.rows = f->m >= f->n;
    else if (o * i * size > HEAVY && f->n / w.parts >= LEAST_COLUMNS && (dx || (o > i && !few)))
        w.rows = false;
    else
        w.parts = few ? 1 : threads;
    return (w.rows ? f->m : f->n) / w.parts < LEAST_SIDE ? (struct way){1, true} : w;
}

static struct block block_of(const struct form *f, struct way w, int64_t i)
{
    const int64_t b0 = f->batch * i / w.parts, b1 = f->batch * (i + 1) / w.parts;
    if (f->batch > 1)
        return (struct block){0, 0, f->m, f->n, b0, b1 - b0};
    const int64_t side = w.rows ? f->m : f->n;
    const int64_t begin = side * i / w.parts / GRAIN * GRAIN;
    const int64_t end = i + 1 == w.parts ? side : side * (i + 1) / w.parts / GRAIN * GRAIN;
    return w.rows ? (struct block){begin, 0, end - begin, f->n, 0, 1}
                  : (struct block){0, begin, f->m, end - begin, 0, 1};
}

/* Bytes per element of an operand that is passed to oneDNN. */
static int64_t size_of(const struct product *q, uint32_t dtype)
{
    return q->wide || dtype == WEFT_F32 ? 4 : 2;
}

static dnnl_data_type_t type_of(uint32_t dtype)
{
    return dtype == WEFT_BF16 ? dnnl_bf16 : dtype == WEFT_F16 ? dnnl_f16 : dnnl_f32;
}

/* Describe a [rows, cols] matrix; `ld` is the stride of rows or, if `transposed`, of columns. */
static dnnl_status_t matrix(dnnl_memory_desc_t *md, dnnl_dim_t rows, dnnl_dim_t cols, dnnl_dim_t ld,
                            bool transposed, dnnl_data_type_t type)
{
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return dnnl_memory_desc_init_by_strides(md, 2, dims, type, strides);
}

static dnnl_status_t attributes(dnnl_primitive_attr_t *attr, bool add)
{
    dnnl_post_ops_t post = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(attr);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success) /* whatever ONEDNN_DEFAULT_FPMATH_MODE says */
        st = dnnl_primitive_attr_set_fpmath_mode(*attr, dnnl_fpmath_mode_strict);
    if (!add || st != dnnl_success)
        return st;
    st = dnnl_post_ops_create(&post);
    if (st == dnnl_success)
        st = dnnl_post_ops_append_sum(post, 1.0f);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_post_ops(*attr, post);
    dnnl_post_ops_destroy(post);
    return st;
}

struct shapes {
    dnnl_memory_desc_t a, b, bias, c;
};

/* Describe the operands of block k and their offsets. */
static dnnl_status_t describe(const struct form *f, const struct block *k, struct part *at,
                              struct shapes *s, dnnl_data_type_t in, dnnl_data_type_t out)
{
    const dnnl_dim_t lda = f->at ? f->m : f->k, ldb = f->bt ? f->k : f->n;
    at->at_a = k->b0 * f->m * f->k + k->m0 * (f->at ? 1 : lda);
    at->at_b = k->b0 * f->k * f->n + k->n0 * (f->bt ? ldb : 1);
    at->at_bias = k->n0;
    at->at_c = k->b0 * f->m * f->n + k->m0 * f->n + k->n0;
    at->count = k->count;
    dnnl_status_t st = matrix(&s->a, k->m, f->k, lda, f->at, in);
    if (st == dnnl_success)
        st = matrix(&s->b, f->k, k->n, ldb, f->bt, in);
    if (st == dnnl_success)
        st = matrix(&s->bias, 1, k->n, k->n, false, in);
    if (st == dnnl_success)
        st = matrix(&s->c, k->m, k->n, f->n, false, out);
    return st;
}

static bool is_slow(dnnl_primitive_desc_t pd)
{
    const char *name = "";
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success ||
           strncmp(name, "ref", 3) == 0;
}

static bool has_isa(dnnl_cpu_isa_t isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

/* Whether oneDNN computes the product with AMX. */
static bool takes_amx(const weft_prepared *p, const struct product *q)
{
    return !q->wide && p->a.dt == WEFT_BF16 && has_isa(dnnl_cpu_isa_avx512_core_amx);
}

static uint64_t scratch_of(const_dnnl_primitive_desc_t pd)
{
    return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
}

static dnnl_status_t choose(const weft_prepared *p, const struct product *q, const struct shapes *s,
                            dnnl_primitive_desc_t *pd)
{
    dnnl_matmul_desc_t md;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t st =
        dnnl_matmul_desc_init(&md, &s->a, &s->b, q->nbias > 0 ? &s->bias : NULL, &s->c);
    if (st == dnnl_success)
        st = attributes(&attr, p->a.accumulate && !q->wide);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(pd, &md, attr, p->d->engine, NULL);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return st;
}

static dnnl_status_t make_memory(const weft_device *d, struct part *t, const struct shapes *s,
                                 bool bias, const dnnl_memory_desc_t *scratch)
{
    dnnl_engine_t e = d->engine;
    dnnl_status_t st = dnnl_memory_create(&t->a, &s->a, e, DNNL_MEMORY_NONE);
    if (st == dnnl_success)
        st = dnnl_memory_create(&t->b, &s->b, e, DNNL_MEMORY_NONE);
    if (st == dnnl_success)
        st = dnnl_memory_create(&t->c, &s->c, e, DNNL_MEMORY_NONE);
    if (st == dnnl_success && bias)
        st = dnnl_memory_create(&t->bias, &s->bias, e, DNNL_MEMORY_NONE);
    if (st == dnnl_success)
        st = dnnl_memory_create(&t->scratch, scratch, e, DNNL_MEMORY_NONE);
    return st;
}

static weft_status refuse(const weft_prepared *p, dnnl_status_t st)
{
    const weft_status code = st == dnnl_out_of_memory   ? WEFT_NO_MEMORY
                             : st == dnnl_unimplemented ? WEFT_UNSUPPORTED
                                                        : WEFT_INTERNAL;
    return cpu_fail(p->d->m, code,
                    "op %s, %lld tokens, %lld by %lld: oneDNN refuses the product (its status %d)",
                    p->op->id, (long long)p->a.rows, (long long)p->a.cols, (long long)p->a.inner,
                    (int)st);
}

/* Create the primitive and memory objects of a block; dnnl_unimplemented also if oneDNN has only
 * its reference kernel for 16-bit operands. */
static dnnl_status_t build_part(const weft_prepared *p, struct product *q, const struct form *f,
                                const struct block *k, struct part *t)
{
    const dnnl_data_type_t in = q->wide ? dnnl_f32 : type_of(p->a.dt);
    const dnnl_data_type_t out = q->wide ? dnnl_f32 : type_of(p->a.gt[0]);
    struct shapes s;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = describe(f, k, t, &s, in, out);
    if (st == dnnl_success)
        st = choose(p, q, &s, &pd);
    if (st == dnnl_success && in != dnnl_f32 && is_slow(pd))
        st = dnnl_unimplemented;
    if (st == dnnl_success) {
        const dnnl_memory_desc_t *scratch =
            dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        t->at_scratch = q->scratch;
        q->scratch += (scratch_of(pd) + 63) / 64 * 64;
        st = dnnl_primitive_create(&t->primitive, pd);
        if (st == dnnl_success)
            st = make_memory(p->d, t, &s, q->nbias > 0, scratch);
    }
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return st;
}

static void drop_parts(struct product *q)
{
    for (int64_t i = 0; i < q->parts; i++) {
        struct part *t = &q->part[i];
        dnnl_memory_t all[] = {t->a, t->b, t->c, t->bias, t->scratch};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            if (all[k])
                dnnl_memory_destroy(all[k]);
        if (t->primitive)
            dnnl_primitive_destroy(t->primitive);
        *t = (struct part){0};
    }
    q->parts = 0;
    q->scratch = 0;
}

/* Build all parts, or none. A oneDNN primitive is created for the current thread count. */
static dnnl_status_t build(const weft_prepared *p, struct product *q, const struct form *f,
                           struct way w)
{
    dnnl_status_t st = dnnl_success;
    q->parts = w.parts;
    (void)cpu_pool_serve(p->d->pool, w.parts > 1 ? 1 : p->d->threads);
    for (int64_t i = 0; i < w.parts && st == dnnl_success; i++) {
        const struct block k = block_of(f, w, i);
        st = build_part(p, q, f, &k, &q->part[i]);
    }
    (void)cpu_pool_serve(NULL, 1);
    if (st != dnnl_success)
        drop_parts(q);
    return st;
}

/* True if splitting is faster with the kernels that oneDNN has here. */
static bool pays(const weft_prepared *p, const struct product *q)
{
    return has_isa(dnnl_cpu_isa_avx512_core) && !takes_amx(p, q);
}

/* Build the product split or whole, whichever is expected to be faster. */
static dnnl_status_t build_best(const weft_prepared *p, struct product *q, const struct form *f)
{
    const int64_t threads = p->d->threads;
    const struct way w = way_of(p, f, size_of(q, p->a.dt)), rows = {threads, true};
    dnnl_status_t st = pays(p, q) && w.parts > 1 ? build(p, q, f, w) : dnnl_unimplemented;
    if (st == dnnl_success && q->scratch > ROOM) {
        const bool tokens = p->op->form != PRODUCT_DW && !w.rows && f->m / threads >= FEW_TOKENS;
        drop_parts(q);
        st = tokens ? build(p, q, f, rows) : dnnl_unimplemented;
    }
    return st == dnnl_success ? st : build(p, q, f, (struct way){1, true});
}

static dnnl_status_t make_capacity(const weft_prepared *p, struct product *q)
{
    weft_status st = WEFT_OK;
    q->scratch_outside = q->scratch > p->workspace;
    if (q->scratch_outside)
        st = cpu_grow(p->d, &p->d->product_scratch, &p->d->product_bytes, q->scratch);
    if (st == WEFT_OK && q->wide)
        st = cpu_grow(p->d, &p->d->wide, &p->d->wide_bytes,
                      4 * (uint64_t)(q->batch * (q->na + q->nb + q->nc) + q->nbias + 64));
    return st == WEFT_OK ? dnnl_success : dnnl_out_of_memory;
}

weft_status product_ready(weft_prepared *p, const weft_opspec *spec)
{
    const weft_host *host = p->d->m->host;
    const struct form f = form_of(p);
    const uint64_t parts = (uint64_t)max_parts(p->d);
    if (product_is_row(p))
        return WEFT_OK;
    struct product *q = host->alloc(host->ctx, sizeof *q + parts * sizeof *q->part, 0);
    if (!q)
        return cpu_fail(p->d->m, WEFT_NO_MEMORY, "op %s: no memory for its product", spec->id);
    p->extra = q;
    q->na = f.m * f.k;
    q->nb = f.k * f.n;
    q->nc = f.m * f.n;
    q->batch = f.batch;
    q->nbias = spec->nin > 2 ? f.n : 0;
    if (product_is_tiled(p, f.m, f.n)) {
        q->tiled = (struct cpu_product){.m = f.m,
                                        .n = f.n,
                                        .k = f.k,
                                        .a_transposed = f.at,
                                        .b_transposed = f.bt,
                                        .bias = q->nbias > 0};
        const weft_status ready = product_tiled_ready(p, &q->tiled, f.batch);
        if (ready != WEFT_OK)
            product_drop(p);
        return ready;
    }
    dnnl_status_t st = build_best(p, q, &f);
    if (st == dnnl_unimplemented && p->a.dt != WEFT_F32) {
        q->wide = true;
        st = build_best(p, q, &f);
    }
    if (st == dnnl_success)
        st = make_capacity(p, q);
    if (st == dnnl_success)
        return WEFT_OK;
    product_drop(p);
    return refuse(p, st);
}

void product_drop(weft_prepared *p)
{
    if (!p->extra)
        return;
    drop_parts(p->extra);
    p->d->m->host->free(p->d->m->host->ctx, p->extra);
}

/* A running product: the parallel region's job, and the status of its parts. */
struct running {
    struct cpu_job job;
    const struct product *q;
    dnnl_stream_t queue;
    const char *a, *b, *bias;
    char *c, *scratch;
    int64_t in, out;   /* bytes per element */
    dnnl_status_t bad; /* status of a failed part; any thread writes it */
};

static dnnl_status_t run_product(const struct running *r, const struct part *t, int64_t i)
{
    const int64_t at_a = t->at_a + i * r->q->na, at_b = t->at_b + i * r->q->nb;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, t->a},
                              {DNNL_ARG_WEIGHTS, t->b},
                              {DNNL_ARG_DST, t->c},
                              {DNNL_ARG_SCRATCHPAD, t->scratch},
                              {DNNL_ARG_BIAS, t->bias}};
    dnnl_memory_set_data_handle(t->a, (void *)(uintptr_t)(r->a + at_a * r->in));
    dnnl_memory_set_data_handle(t->b, (void *)(uintptr_t)(r->b + at_b * r->in));
    dnnl_memory_set_data_handle(t->c, r->c + (t->at_c + i * r->q->nc) * r->out);
    dnnl_memory_set_data_handle(t->scratch, r->scratch + t->at_scratch);
    if (t->bias)
        dnnl_memory_set_data_handle(t->bias, (void *)(uintptr_t)(r->bias + t->at_bias * r->in));
    return dnnl_primitive_execute(t->primitive, r->queue, t->bias ? 5 : 4, args);
}

static dnnl_status_t run_part(const struct running *r, const struct part *t)
{
    dnnl_status_t st = dnnl_success;
    for (int64_t i = 0; i < t->count && st == dnnl_success; i++)
        st = run_product(r, t, i);
    return st;
}

/* A cpu_kernel. Within a parallel region oneDNN runs on the calling thread only. */
static void run_parts(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    struct running *r = (struct running *)(uintptr_t)j;
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        dnnl_status_t st = run_part(r, &r->q->part[i]);
        if (st != dnnl_success)
            __atomic_store_n(&r->bad, st, __ATOMIC_RELAXED);
    }
}

static weft_status execute(const weft_prepared *p, const void *a, const void *b, const void *bias,
                           void *c, void *ws)
{
    const struct product *q = p->extra;
    struct running r = {.q = q,
                        .queue = p->d->queue,
                        .a = a,
                        .b = b,
                        .bias = bias,
                        .c = c,
                        .scratch = q->scratch_outside ? p->d->product_scratch : ws,
                        .in = size_of(q, p->a.dt),
                        .out = size_of(q, p->a.gt[0])};
    (void)cpu_pool_serve(p->d->pool, p->d->threads);
    cpu_par(p->d, run_parts, &r.job, q->parts, 1);
    (void)cpu_pool_serve(NULL, 1);
    return r.bad == dnnl_success ? WEFT_OK : refuse(p, r.bad);
}

static void convert(const weft_prepared *p, const void *from, uint32_t from_type, void *to,
                    uint32_t to_type, int64_t n, bool add)
{
    const struct cpu_args a = {.rows = n, .dt = from_type, .gt = {to_type}, .accumulate = add};
    const void *in[1] = {from};
    void *out[1] = {to};
    const struct cpu_job j = {&a, in, out, NULL};
    cpu_par(p->d, p->d->kernels->accumulate, &j, (n + FLAT_BLOCK - 1) / FLAT_BLOCK, 1);
}

static weft_status run_wide(const weft_prepared *p, const void *const *in, void *const *out,
                            void *ws)
{
    const struct product *q = p->extra;
    const int64_t na = q->batch * q->na, nb = q->batch * q->nb, nc = q->batch * q->nc;
    float *a = p->d->wide, *b = a + na, *c = b + nb, *bias = c + nc;
    convert(p, in[0], p->a.dt, a, WEFT_F32, na, false);
    convert(p, in[1], p->a.dt, b, WEFT_F32, nb, false);
    if (q->nbias > 0)
        convert(p, in[2], p->a.dt, bias, WEFT_F32, q->nbias, false);
    weft_status st = execute(p, a, b, bias, c, ws);
    if (st == WEFT_OK)
        convert(p, c, WEFT_F32, out[0], p->a.gt[0], nc, p->a.accumulate);
    return st;
}

CPU_RUN(product_run)
{
    const struct product *q = p->extra;
    if (!q)
        return product_row_run(p, in, out, ws);
    if (q->tiled.n > 0)
        return product_tiled_run(p, in, out);
    if (q->wide)
        return run_wide(p, in, out, ws);
    return execute(p, in[0], in[1], q->nbias > 0 ? in[2] : NULL, out[0], ws);
}
