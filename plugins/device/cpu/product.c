/* product.c: linear and its gradients, through oneDNN.
 *
 *   y  [T,O] = x [T,I] w' [I,O] + b        dx [T,I] = dy [T,O] w [O,I]        dw [O,I] = dy' [O,T]
 * x [T,I]
 *
 * Transposes are strides of plain row-major memory. oneDNN packs what its kernel wants to be packed
 * block by block; measured on AVX-512 it then runs at 85-97 % of the machine's peak in fp32 and
 * bf16 for all three (tokens 256-2048, GPT-2's shapes), so nothing is packed here.
 *
 * oneDNN has two ways to the same gradients: matmul, and the backward passes of inner_product,
 * whose kernel for plain memory blocks otherwise. By a fixed rule (better_inner) the latter takes
 * dw in fp32 that is not accumulated (2-10 % faster) and dx where O is many times I, as in a
 * model's head (3-13 %); the reverse holds for the rest, up to a factor of 1.4.
 *
 * Where oneDNN has no kernel but its reference (bf16 before AVX-512, fp16 before AVX512-FP16),
 * 16-bit operands are widened to fp32 beforehand and the result is rounded afterwards. */
#include "ops.h"
#include <string.h>

enum { WORKSPACE = 2 << 20 }; /* what oneDNN asks for on a few threads; more comes at prepare */

struct product {
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, bias, c, scratch;
    bool inner;           /* an inner_product, else a matmul */
    bool scratch_outside; /* does not fit the plan's workspace */
    bool wide;            /* operands are fp32 copies, one after the other in the device's `wide` */
    int64_t na, nb, nbias, nc; /* elements */
};

/* C [m,n] = A [m,k] B [k,n]; a transposed operand lies the other way round. */
struct form {
    dnnl_dim_t m, n, k;
    bool at, bt;
};

static struct form form_of(const weft_prepared *p)
{
    const int64_t t = p->a.rows, o = p->a.cols, i = p->a.inner;
    switch (p->op->form) {
    case PRODUCT_Y: return (struct form){t, o, i, false, true};
    case PRODUCT_DX: return (struct form){t, i, o, false, false};
    default: return (struct form){o, i, t, true, false};
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
    *workspace = WORKSPACE;
    return WEFT_OK;
}

static dnnl_data_type_t type_of(uint32_t dtype)
{
    return dtype == WEFT_BF16 ? dnnl_bf16 : dtype == WEFT_F16 ? dnnl_f16 : dnnl_f32;
}

/* A [rows, cols] matrix, row-major, or its transpose where `transposed`. */
static dnnl_status_t matrix(dnnl_memory_desc_t *md, dnnl_dim_t rows, dnnl_dim_t cols,
                            bool transposed, dnnl_data_type_t type)
{
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : cols, transposed ? rows : 1};
    return dnnl_memory_desc_init_by_strides(md, 2, dims, type, strides);
}

static dnnl_status_t attributes(dnnl_primitive_attr_t *attr, bool add)
{
    dnnl_post_ops_t post = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(attr);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
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

static dnnl_status_t describe(const struct form *f, struct shapes *s, dnnl_data_type_t in,
                              dnnl_data_type_t out)
{
    dnnl_status_t st = matrix(&s->a, f->m, f->k, f->at, in);
    if (st == dnnl_success)
        st = matrix(&s->b, f->k, f->n, f->bt, in);
    if (st == dnnl_success)
        st = matrix(&s->bias, 1, f->n, false, in);
    if (st == dnnl_success)
        st = matrix(&s->c, f->m, f->n, false, out);
    return st;
}

/* A dw that is not fp32 would take a copy in fp32 as scratch; a dx takes one of T x I. */
static bool better_inner(const weft_prepared *p, bool add, dnnl_data_type_t out)
{
    if (p->op->form == PRODUCT_DW)
        return !add && out == dnnl_f32;
    return p->op->form == PRODUCT_DX && p->a.cols >= 16 * p->a.inner;
}

/* The gradient as a backward pass of y [T,O] = x [T,I] w [O,I]', for which oneDNN wants to see the
 * forward pass. The same operands as describe() has, untransposed. */
static dnnl_status_t describe_inner(const weft_prepared *p, struct shapes *s, dnnl_data_type_t in,
                                    dnnl_data_type_t out, dnnl_inner_product_desc_t *forward,
                                    dnnl_inner_product_desc_t *backward)
{
    const int64_t t = p->a.rows, o = p->a.cols, i = p->a.inner;
    const bool dw = p->op->form == PRODUCT_DW;
    dnnl_memory_desc_t x, w;
    dnnl_status_t st = matrix(&x, t, i, false, in);
    if (st == dnnl_success)
        st = matrix(&w, o, i, false, in);
    if (st == dnnl_success)
        st = matrix(&s->a, t, o, false, in);
    if (st == dnnl_success)
        st = dw ? matrix(&s->c, o, i, false, out) : matrix(&s->c, t, i, false, out);
    if (st != dnnl_success)
        return st;
    s->b = dw ? x : w;
    st = dnnl_inner_product_forward_desc_init(forward, dnnl_forward_training, &x, &w, NULL, &s->a);
    if (st != dnnl_success)
        return st;
    return dw ? dnnl_inner_product_backward_weights_desc_init(backward, &x, &s->c, NULL, &s->a)
              : dnnl_inner_product_backward_data_desc_init(backward, &s->c, &w, &s->a);
}

static bool is_slow(dnnl_primitive_desc_t pd)
{
    const char *name = "";
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success ||
           strncmp(name, "ref", 3) == 0;
}

static dnnl_status_t choose_inner(const weft_prepared *p, struct shapes *s, dnnl_data_type_t in,
                                  dnnl_data_type_t out, dnnl_primitive_desc_t *pd)
{
    dnnl_inner_product_desc_t forward, backward;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t st = describe_inner(p, s, in, out, &forward, &backward);
    if (st == dnnl_success)
        st = attributes(&attr, false);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&hint, &forward, attr, p->d->engine, NULL);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(pd, &backward, attr, p->d->engine, hint);
    if (hint != NULL)
        dnnl_primitive_desc_destroy(hint);
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    return st;
}

static dnnl_status_t choose_matmul(const weft_prepared *p, struct shapes *s, bool bias, bool add,
                                   dnnl_data_type_t in, dnnl_data_type_t out,
                                   dnnl_primitive_desc_t *pd)
{
    const struct form f = form_of(p);
    dnnl_matmul_desc_t md;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t st = describe(&f, s, in, out);
    if (st == dnnl_success)
        st = dnnl_matmul_desc_init(&md, &s->a, &s->b, bias ? &s->bias : NULL, &s->c);
    if (st == dnnl_success)
        st = attributes(&attr, add);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(pd, &md, attr, p->d->engine, NULL);
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    return st;
}

/* The primitive for these operands; *slow where oneDNN has only its reference. */
static dnnl_status_t choose(const weft_prepared *p, struct product *q, struct shapes *s,
                            dnnl_primitive_desc_t *pd, bool *slow)
{
    const bool add = p->a.accumulate && !q->wide;
    const dnnl_data_type_t in = q->wide ? dnnl_f32 : type_of(p->a.dt);
    const dnnl_data_type_t out = q->wide ? dnnl_f32 : type_of(p->a.gt[0]);
    *slow = false;
    if (better_inner(p, add, out)) {
        q->inner = choose_inner(p, s, in, out, pd) == dnnl_success && !is_slow(*pd);
        if (q->inner)
            return dnnl_success;
        if (*pd != NULL)
            dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
    }
    dnnl_status_t st = choose_matmul(p, s, q->nbias > 0, add, in, out, pd);
    *slow = st == dnnl_unimplemented || (st == dnnl_success && is_slow(*pd));
    return st;
}

static dnnl_status_t make_memory(const weft_device *d, struct product *q, const struct shapes *s,
                                 const dnnl_memory_desc_t *scratch)
{
    dnnl_engine_t e = d->engine;
    dnnl_status_t st = dnnl_memory_create(&q->a, &s->a, e, DNNL_MEMORY_NONE);
    if (st == dnnl_success)
        st = dnnl_memory_create(&q->b, &s->b, e, DNNL_MEMORY_NONE);
    if (st == dnnl_success)
        st = dnnl_memory_create(&q->c, &s->c, e, DNNL_MEMORY_NONE);
    if (st == dnnl_success && q->nbias > 0)
        st = dnnl_memory_create(&q->bias, &s->bias, e, DNNL_MEMORY_NONE);
    if (st == dnnl_success)
        st = dnnl_memory_create(&q->scratch, scratch, e, DNNL_MEMORY_NONE);
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

/* The primitive and the memory objects, for operands as they are or for fp32 copies of them. */
static dnnl_status_t build(weft_prepared *p, struct product *q, bool *slow)
{
    struct shapes s;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = choose(p, q, &s, &pd, slow);
    if (st == dnnl_success && !(*slow && !q->wide)) {
        const dnnl_memory_desc_t *scratch =
            dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        const uint64_t bytes = dnnl_memory_desc_get_size(scratch);
        q->scratch_outside = bytes > p->workspace;
        st = dnnl_primitive_create(&q->primitive, pd);
        if (st == dnnl_success)
            st = make_memory(p->d, q, &s, scratch);
        if (st == dnnl_success && q->scratch_outside &&
            cpu_grow(p->d, &p->d->product_scratch, &p->d->product_bytes, bytes) != WEFT_OK)
            st = dnnl_out_of_memory;
    }
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    return st;
}

weft_status product_ready(weft_prepared *p, const weft_opspec *spec)
{
    const weft_host *host = p->d->m->host;
    const struct form f = form_of(p);
    struct product *q = host->alloc(host->ctx, sizeof *q, 0);
    bool slow = false;
    if (q == NULL)
        return cpu_fail(p->d->m, WEFT_NO_MEMORY, "op %s: no memory for its product", spec->id);
    p->extra = q;
    q->na = f.m * f.k;
    q->nb = f.k * f.n;
    q->nc = f.m * f.n;
    q->nbias = spec->nin > 2 ? f.n : 0;
    cpu_threads_for_products(p->d);
    dnnl_status_t st = build(p, q, &slow);
    if (slow && p->a.dt != WEFT_F32) {
        q->wide = true;
        st = build(p, q, &slow);
        if (st == dnnl_success &&
            cpu_grow(p->d, &p->d->wide, &p->d->wide_bytes,
                     4 * (uint64_t)(q->na + q->nb + q->nc + q->nbias + 64)) != WEFT_OK)
            st = dnnl_out_of_memory;
    }
    if (st == dnnl_success)
        return WEFT_OK;
    product_drop(p);
    return refuse(p, st);
}

void product_drop(weft_prepared *p)
{
    struct product *q = p->extra;
    dnnl_memory_t all[] = {q->a, q->b, q->bias, q->c, q->scratch};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k] != NULL)
            dnnl_memory_destroy(all[k]);
    if (q->primitive != NULL)
        dnnl_primitive_destroy(q->primitive);
    p->d->m->host->free(p->d->m->host->ctx, q);
}

static weft_status execute(const weft_prepared *p, const void *a, const void *b, const void *bias,
                           void *c, void *ws)
{
    static const int names[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                    {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
                                    {DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS}};
    const struct product *q = p->extra;
    const int *name = names[!q->inner ? 0 : p->op->form == PRODUCT_DX ? 1 : 2];
    dnnl_exec_arg_t args[] = {{name[0], q->a},
                              {name[1], q->b},
                              {name[2], q->c},
                              {DNNL_ARG_SCRATCHPAD, q->scratch},
                              {DNNL_ARG_BIAS, q->bias}};
    dnnl_memory_set_data_handle(q->a, (void *)(uintptr_t)a);
    dnnl_memory_set_data_handle(q->b, (void *)(uintptr_t)b);
    dnnl_memory_set_data_handle(q->c, c);
    dnnl_memory_set_data_handle(q->scratch, q->scratch_outside ? p->d->product_scratch : ws);
    if (q->nbias > 0)
        dnnl_memory_set_data_handle(q->bias, (void *)(uintptr_t)bias);
    cpu_threads_for_products(p->d);
    dnnl_status_t st =
        dnnl_primitive_execute(q->primitive, p->d->queue, q->nbias > 0 ? 5 : 4, args);
    return st == dnnl_success ? WEFT_OK : refuse(p, st);
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
    float *a = p->d->wide, *b = a + q->na, *c = b + q->nb, *bias = c + q->nc;
    convert(p, in[0], p->a.dt, a, WEFT_F32, q->na, false);
    convert(p, in[1], p->a.dt, b, WEFT_F32, q->nb, false);
    if (q->nbias > 0)
        convert(p, in[2], p->a.dt, bias, WEFT_F32, q->nbias, false);
    weft_status st = execute(p, a, b, bias, c, ws);
    if (st == WEFT_OK)
        convert(p, c, WEFT_F32, out[0], p->a.gt[0], q->nc, p->a.accumulate);
    return st;
}

CPU_RUN(product_run)
{
    const struct product *q = p->extra;
    if (q->wide)
        return run_wide(p, in, out, ws);
    return execute(p, in[0], in[1], q->nbias > 0 ? in[2] : NULL, out[0], ws);
}
