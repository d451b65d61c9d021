/* joined.c: fused products: a product and the op after it or beside it, as one op.
 *
 *   linear+gelu            y = gelu(u), u = x w' + b; u is written to the auxiliary output, which
 *                          backward reads
 *   linear+bias_residual   y = x w' + b + r; r is the product's C, with beta 1
 *   linear.dx+gelu.dx      du = (dy w) * gelu'(u)
 *   linear.dw+colsum       dw = dy' x and db, the sums of the columns of dy; in either order
 *
 * Two ways: the library's epilogue, or the product and then a kernel of ours, in place where
 * nothing else reads the intermediate. Which is faster depends on the GPU and the sizes, so both
 * are timed when the op is prepared; without tuning the epilogue is taken where the library has it.
 * An epilogue rounds once where two kernels round twice, so bits differ between the two ways, and
 * are equal whenever the same way is taken.
 *
 * Gradients of biases that are accumulated are written into the workspace first: the library's
 * epilogue cannot accumulate. */
#include "blas/blas.h"
#include "driver/device.h"
#include "ops.h"
#include <string.h>

struct joined {
    struct product fused, plain;
    bool fuse;
    struct gpu_sizes z; /* of the kernel behind the product */
};

/* Numbers of the gradients among the outputs. */
static uint32_t dw_of(const struct gpu_op *op)
{
    return op->form == JOINED_DB_DW;
}

static bool has_sums(const struct gpu_op *op)
{
    return op->form == JOINED_DW_DB || op->form == JOINED_DB_DW;
}

const char *gpu_fuse(void *module, const weft_conf *conf, const char *const *ids,
                     const uint32_t *joins, uint32_t n)
{
    static const struct {
        const char *first, *second;
        uint32_t join;
        const char *name;
    } pairs[] = {
        {"linear", "gelu", WEFT_FUSE_CHAINED, "linear+gelu"},
        {"linear", "bias_residual", WEFT_FUSE_CHAINED, "linear+bias_residual"},
        {"linear.dx", "gelu.dx", WEFT_FUSE_CHAINED, "linear.dx+gelu.dx"},
        {"linear.dw", "colsum", WEFT_FUSE_SHARED_INPUT, "linear.dw+colsum"},
        {"colsum", "linear.dw", WEFT_FUSE_SHARED_INPUT, "colsum+linear.dw"},
    };
    (void)module;
    (void)conf;
    for (size_t k = 0; n == 2 && k < sizeof pairs / sizeof *pairs; k++)
        if (strcmp(ids[0], pairs[k].first) == 0 && strcmp(ids[1], pairs[k].second) == 0 &&
            joins[1] == pairs[k].join)
            return pairs[k].name;
    return NULL;
}

/* Sizes of the kernel behind the product: its rows are the product's, or dy's. */
static struct gpu_sizes sizes_behind(const struct gpu_op *op, const struct gpu_sizes *z)
{
    struct gpu_sizes s = *z;
    s.cols = op->form == JOINED_GELU_DX ? z->inner : z->cols;
    s.wide = s.cols % WIDE == 0;
    if (has_sums(op))
        s.gt[0] = z->gt[!dw_of(op)];
    return s;
}

static uint64_t place_of_sums(void)
{
    return BLAS_WORKSPACE + BLAS_ALIGNMENT;
}

GPU_PLAN(plan_joined)
{
    weft_status st = plan_product(m, op, spec, match, z, workspace);
    if (st != WEFT_OK || !has_sums(op))
        return st;
    struct gpu_sizes behind = sizes_behind(op, z);
    const uint64_t parts = gpu_cut_rows(&behind);
    *workspace = place_of_sums() + (uint64_t)z->cols * sizeof(float);
    *workspace = *workspace < parts ? parts : *workspace;
    return WEFT_OK;
}

/* --- prepared --- */

static void describe(const weft_prepared *p, const weft_opspec *spec, struct joined *x)
{
    const uint32_t with_bias = CUBLASLT_EPILOGUE_BIAS, none = CUBLASLT_EPILOGUE_DEFAULT;
    const uint32_t type = p->z.dt, form = p->op->form;
    if (form == JOINED_GELU) {
        const bool bias = spec->nin > 2, kept = spec->out[0].dtype != 0;
        const uint32_t gelu =
            CUBLASLT_EPILOGUE_GELU | (bias ? with_bias : 0) | (kept ? EPILOGUE_AUX : 0);
        x->fused.key = gpu_product_key(p, PRODUCT_Y, type, gelu);
        x->plain.key = gpu_product_key(p, PRODUCT_Y, type, bias ? with_bias : none);
    } else if (form == JOINED_RESIDUAL) {
        x->fused.key = gpu_product_key(p, PRODUCT_Y, type, with_bias);
        x->fused.key.added = 1;
        x->plain.key = gpu_product_key(p, PRODUCT_Y, type, none);
    } else if (form == JOINED_GELU_DX) {
        x->fused.key = gpu_product_key(p, PRODUCT_DX, type, CUBLASLT_EPILOGUE_DGELU);
        x->plain.key = gpu_product_key(p, PRODUCT_DX, type, none);
    } else {
        const uint32_t gt = p->z.gt[dw_of(p->op)];
        x->fused.key = gpu_product_key(p, PRODUCT_DW, gt, CUBLASLT_EPILOGUE_BGRADB);
        x->plain.key = gpu_product_key(p, PRODUCT_DW, gt, none);
    }
}

/* The library writes the gradient of a bias in the type of the result. */
static bool may_fuse(const weft_prepared *p)
{
    return !has_sums(p->op) || p->z.gt[0] == p->z.gt[1];
}

/* Whichever is faster, where both can be had; the epilogue, if it is not slower by more than times
 * vary. */
static void choose(weft_prepared *p, const weft_opspec *spec, struct joined *x)
{
    struct product_choice c = {.key = x->fused.key};
    float ms[2];
    x->fuse = !x->fused.own;
    if (x->fused.own || !p->d->tune)
        return;
    c.key.joined = 1;
    const struct product_choice *known = gpu_chosen(p->d, &c.key);
    if (known) {
        x->fuse = known->fuse;
        return;
    }
    for (int way = 0; way < 2; way++) {
        x->fuse = way == 1;
        ms[way] = gpu_time_op(p, spec);
    }
    x->fuse = c.fuse = ms[0] < 0 || (ms[1] >= 0 && ms[1] <= 1.02f * ms[0]);
    gpu_remember(p->d, &c);
}

weft_status ready_joined(weft_prepared *p, const weft_opspec *spec)
{
    const weft_host *host = p->d->m->host;
    struct joined *x = host->alloc(host->ctx, sizeof *x, 0);
    if (!x)
        return gpu_fail(p->d->m, WEFT_NO_MEMORY, "op %s: no memory for its product", spec->id);
    p->extra = x;
    x->z = sizes_behind(p->op, &p->z);
    if (has_sums(p->op))
        (void)gpu_cut_rows(&x->z);
    describe(p, spec, x);
    x->fused.own = true;
    weft_status st = may_fuse(p) ? gpu_product_ready(p, &x->fused) : WEFT_OK;
    if (st != WEFT_OK) /* the library does not know the epilogue: it will do without */
        gpu_product_drop(p->d, &x->fused);
    if (st != WEFT_NO_MEMORY)
        st = gpu_product_ready(p, &x->plain);
    if (st != WEFT_OK) {
        drop_joined(p);
        return st;
    }
    choose(p, spec, x);
    return WEFT_OK;
}

void drop_joined(weft_prepared *p)
{
    struct joined *x = p->extra;
    gpu_product_drop(p->d, &x->fused);
    gpu_product_drop(p->d, &x->plain);
    p->d->m->host->free(p->d->m->host->ctx, x);
}

/* --- run --- */

static struct gpu_job job_behind(const struct joined *x, void *ws)
{
    return (struct gpu_job){.ws = ws, .z = x->z};
}

/* From the workspace into the gradient. */
static weft_status add_sums(const weft_prepared *p, const struct joined *x, weft_stream *s,
                            const void *sums, void *db)
{
    struct gpu_job j = job_behind(x, NULL);
    j.in[0] = sums;
    j.out[0] = db;
    j.z.rows = x->z.cols;
    j.z.dt = x->z.gt[0];
    const struct gpu_grid grid = {(j.z.rows + ROW_BLOCK * WIDE - 1) / (ROW_BLOCK * WIDE), 1,
                                  ROW_BLOCK, 0};
    return gpu_launch(p->d, p->f[3], s, grid, &j);
}

static weft_status run_sums(const weft_prepared *p, const struct joined *x, weft_stream *s,
                            const void *const *in, void *const *out, char *ws)
{
    const uint32_t dw = dw_of(p->op);
    void *db = out[!dw];
    struct product_at at = {.a = in[1], .b = in[0], .d = out[dw]};
    if (x->fuse) {
        at.bias = p->z.accumulate ? ws + place_of_sums() : db;
        weft_status st = gpu_product_run(p, &x->fused, &at, s, ws);
        return st != WEFT_OK || !p->z.accumulate ? st : add_sums(p, x, s, at.bias, db);
    }
    weft_status st = gpu_product_run(p, &x->plain, &at, s, ws);
    struct gpu_job j = job_behind(x, ws);
    j.in[0] = in[0];
    j.out[0] = db;
    return st != WEFT_OK ? st : gpu_launch_columns(p, &p->f[1], 1, s, &j);
}

static weft_status run_gelu(const weft_prepared *p, const struct joined *x, weft_stream *s,
                            const void *const *in, void *const *out, void *ws)
{
    struct product_at at = {
        .a = in[1], .b = in[0], .d = out[1], .bias = p->nin > 2 ? in[2] : NULL, .aux = out[0]};
    if (x->fuse)
        return gpu_product_run(p, &x->fused, &at, s, ws);
    at.d = out[0] ? out[0] : out[1];
    weft_status st = gpu_product_run(p, &x->plain, &at, s, ws);
    struct gpu_job j = job_behind(x, ws);
    j.in[0] = at.d;
    j.out[0] = out[1];
    return st != WEFT_OK ? st : gpu_launch_rows(p, p->f[1], s, &j);
}

static weft_status run_residual(const weft_prepared *p, const struct joined *x, weft_stream *s,
                                const void *const *in, void *const *out, void *ws)
{
    struct product_at at = {.a = in[1], .b = in[0], .c = in[3], .d = out[1], .bias = in[2]};
    if (x->fuse)
        return gpu_product_run(p, &x->fused, &at, s, ws);
    at.c = at.bias = NULL;
    weft_status st = gpu_product_run(p, &x->plain, &at, s, ws);
    struct gpu_job j = job_behind(x, ws);
    j.in[0] = j.out[0] = out[1];
    j.in[1] = in[2];
    j.in[2] = in[3];
    return st != WEFT_OK ? st : gpu_launch_rows(p, p->f[1], s, &j);
}

static weft_status run_gelu_dx(const weft_prepared *p, const struct joined *x, weft_stream *s,
                               const void *const *in, void *const *out, void *ws)
{
    const struct product_at at = {.a = in[1], .b = in[0], .d = out[1], .aux = in[2]};
    if (x->fuse)
        return gpu_product_run(p, &x->fused, &at, s, ws);
    weft_status st = gpu_product_run(p, &x->plain, &at, s, ws);
    struct gpu_job j = job_behind(x, ws);
    j.in[0] = j.out[0] = out[1];
    j.in[1] = in[2];
    return st != WEFT_OK ? st : gpu_launch_rows(p, p->f[1], s, &j);
}

GPU_RUN(run_joined)
{
    const struct joined *x = p->extra;
    switch (p->op->form) {
    case JOINED_GELU: return run_gelu(p, x, s, in, out, ws);
    case JOINED_RESIDUAL: return run_residual(p, x, s, in, out, ws);
    case JOINED_GELU_DX: return run_gelu_dx(p, x, s, in, out, ws);
    default: return run_sums(p, x, s, in, out, ws);
    }
}
