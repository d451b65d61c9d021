/* kernel.c: a round of ring attention and its gradient on the device "cpu", in plain loops over
 * fp32. Shapes: qkv, moved [t, 3, heads, d]; y [t, heads, d]; lse [t, heads]. */
#include "ring.h"

#include <math.h>
#include <stdlib.h>

typedef struct round {
    int64_t t, heads, d;
    int whole, own; /* the keys of this round are all seen; they are those of the queries */
    int later;      /* there is a result of the rounds before */
    float scale;
} round_of;

/* One row of each operand; p: of q, k, v. */
static const float *row(const round_of *r, const void *x, int64_t t, int64_t p, int64_t h)
{
    return (const float *)x + ((t * 3 + p) * r->heads + h) * r->d;
}

static float *row_out(const round_of *r, void *x, int64_t t, int64_t p, int64_t h)
{
    return (float *)x + ((t * 3 + p) * r->heads + h) * r->d;
}

static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add(float *to, float by, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += by * x[i];
}

/* How many keys query i of this rank sees in this round. */
static int64_t seen(const round_of *r, int64_t i)
{
    return r->whole ? r->t : r->own ? i + 1 : 0;
}

static weft_status attend(void *prepared, void *stream, const void *const *in, void *const *out,
                          void *workspace, uint32_t flags)
{
    (void)stream;
    if (flags)
        return WEFT_UNSUPPORTED;
    const round_of *r = prepared;
    const int later = r->later;
    float *s = workspace, *ys = out[Y], *lse = out[LSE];
    for (int64_t i = 0; i < r->t; i++)
        for (int64_t h = 0; h < r->heads; h++) {
            const float *q = row(r, in[QKV], i, 0, h);
            const int64_t at = i * r->heads + h, n = seen(r, i);
            float before = later ? ((const float *)in[LSE_BEFORE])[at] : -INFINITY, max = before;
            for (int64_t j = 0; j < n; j++) {
                s[j] = r->scale * dot(q, row(r, in[MOVED], j, 1, h), r->d);
                max = fmaxf(max, s[j]);
            }
            float sum = later ? expf(before - max) : 0;
            for (int64_t j = 0; j < n; j++)
                sum += expf(s[j] - max);
            lse[at] = max + logf(sum);
            float *y = ys + at * r->d;
            memset(y, 0, (size_t)r->d * sizeof *y);
            if (later)
                add(y, expf(before - lse[at]), (const float *)in[Y_BEFORE] + at * r->d, r->d);
            for (int64_t j = 0; j < n; j++)
                add(y, expf(s[j] - lse[at]), row(r, in[MOVED], j, 2, h), r->d);
        }
    return WEFT_OK;
}

/* Gradients of one query and head. */
static void one_query(const round_of *r, const void *const *in, void *const *out, int64_t i,
                      int64_t h)
{
    const int later = r->later;
    const int64_t at = i * r->heads + h;
    const void *const *inputs = in + OUTPUTS;
    const void *const *outputs = inputs + (later ? LATER_ROUND : FIRST_ROUND);
    const float *dy = (const float *)in[Y] + at * r->d, *q = row(r, inputs[QKV], i, 0, h);
    const float lse = ((const float *)outputs[LSE])[at];
    const float rest =
        ((const float *)in[LSE])[at] - dot(dy, (const float *)outputs[Y] + at * r->d, r->d);
    for (int64_t j = 0, n = seen(r, i); j < n; j++) {
        const float *k = row(r, inputs[MOVED], j, 1, h), *v = row(r, inputs[MOVED], j, 2, h);
        const float p = expf(r->scale * dot(q, k, r->d) - lse);
        const float ds = r->scale * p * (dot(dy, v, r->d) + rest);
        add(row_out(r, out[MOVED], j, 2, h), p, dy, r->d);
        add(row_out(r, out[MOVED], j, 1, h), ds, q, r->d);
        add(row_out(r, out[QKV], i, 0, h), ds, k, r->d);
    }
    if (!later)
        return;
    const float *y = (const float *)inputs[Y_BEFORE] + at * r->d;
    const float w = expf(((const float *)inputs[LSE_BEFORE])[at] - lse);
    float *to = (float *)out[Y_BEFORE] + at * r->d;
    for (int64_t x = 0; x < r->d; x++)
        to[x] = w * dy[x];
    ((float *)out[LSE_BEFORE])[at] = w * (dot(dy, y, r->d) + rest);
}

static weft_status attend_dx(void *prepared, void *stream, const void *const *in, void *const *out,
                             void *workspace, uint32_t flags)
{
    (void)stream, (void)workspace;
    if (flags)
        return WEFT_UNSUPPORTED;
    const round_of *r = prepared;
    const size_t bytes = (size_t)(r->t * 3 * r->heads * r->d) * sizeof(float);
    memset(out[QKV], 0, bytes);
    memset(out[MOVED], 0, bytes);
    for (int64_t i = 0; i < r->t; i++)
        for (int64_t h = 0; h < r->heads; h++)
            one_query(r, in, out, i, h);
    return WEFT_OK;
}

static const weft_operand *queries(const weft_opspec *spec)
{
    return &spec->in[spec->in[0].rank == 4 ? QKV : OUTPUTS + QKV];
}

/* fp32 alone, and on each rank a part of one sequence; room for one row of scores. */
static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    (void)conf;
    const weft_host *host = module;
    for (uint32_t i = 0; i < spec->nin; i++)
        if (spec->in[i].dtype != WEFT_F32)
            return host->fail(host->ctx, WEFT_UNSUPPORTED,
                              "acme.ring computes in fp32 alone: say train.precision = fp32");
    if (queries(spec)->size[0] * ring_attr(spec->attrs, spec->nattr, "rounds") !=
        ring_attr(spec->attrs, spec->nattr, "sequence"))
        return host->fail(host->ctx, WEFT_UNSUPPORTED,
                          "acme.ring: the tokens of a rank have to be one part of one sequence, "
                          "and a sequence has as many parts as there are rounds");
    const weft_requirements need = {sizeof need, 0, (uint64_t)spec->in[0].size[0] * sizeof(float)};
    weft_give(out, &need);
    return WEFT_OK;
}

static weft_status prepare(void *module, const weft_conf *conf, const weft_opspec *spec,
                           void *stream, void **out)
{
    (void)conf, (void)stream;
    const weft_host *host = module;
    const weft_operand *qkv = queries(spec);
    const int64_t tokens = qkv->size[0], round = ring_attr(spec->attrs, spec->nattr, "round");
    const int64_t first = ring_attr(spec->attrs, spec->nattr, "first") %
                          ring_attr(spec->attrs, spec->nattr, "sequence");
    round_of *r = malloc(sizeof *r);
    if (!r)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "acme.ring: no memory for a kernel");
    *r = (round_of){.t = tokens, .heads = qkv->size[2], .d = qkv->size[3], .own = round == 0};
    r->later = spec->nin == LATER_ROUND || spec->nin == ALL;
    r->scale = 1 / sqrtf((float)r->d);
    r->whole =
        !ring_attr(spec->attrs, spec->nattr, "causal") || (round > 0 && round <= first / tokens);
    *out = r;
    return WEFT_OK;
}

const weft_kernel ring_cpu = {.struct_size = sizeof ring_cpu,
                              .op = ATTEND,
                              .device = "cpu",
                              .query = query,
                              .prepare = prepare,
                              .release = free,
                              .run = attend};
const weft_kernel ring_cpu_dx = {.struct_size = sizeof ring_cpu_dx,
                                 .op = ATTEND_DX,
                                 .device = "cpu",
                                 .query = query,
                                 .prepare = prepare,
                                 .release = free,
                                 .run = attend_dx};
