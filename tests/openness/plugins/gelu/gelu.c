/* gelu.c: kernels for ops that the device already has, in a file of kernels alone.
 *
 * acme.gelu computes GELU in double precision and rounds once. It scores more than the 50 of the
 * device for fp32, so a job that names the file in run.use computes with it, and nothing for other
 * types, for which the device computes as before. acme.late_gelu scores 40: it is never taken. */
#include <math.h>
#include <stdlib.h>
#include <weft/device.h>
#include <weft/op.h>
#include <weft/plugin.h>

typedef struct sizes {
    int64_t rows, columns;
    int bias;
} sizes;

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    (void)conf, (void)out;
    const weft_host *host = module;
    if (spec->in[0].dtype == WEFT_F32 && !(spec->flags & WEFT_SPEC_ACCUMULATE))
        return WEFT_OK;
    return host->fail(host->ctx, WEFT_UNSUPPORTED, "acme.gelu computes in fp32 alone");
}

static weft_status prepare(void *module, const weft_conf *conf, const weft_opspec *spec,
                           void *stream, void **out)
{
    (void)conf, (void)stream;
    const weft_host *host = module;
    sizes *s = malloc(sizeof *s);
    if (!s)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "acme.gelu: no memory for a kernel");
    *s = (sizes){spec->in[0].size[0], 1, spec->nin > 1};
    for (uint32_t i = 1; i < spec->in[0].rank; i++)
        s->columns *= spec->in[0].size[i];
    *out = s;
    return WEFT_OK;
}

static weft_status run(void *prepared, void *stream, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    (void)stream, (void)workspace;
    const sizes *s = prepared;
    const float *x = in[0], *bias = s->bias ? in[1] : NULL;
    float *y = out[0];
    if (flags)
        return WEFT_UNSUPPORTED;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->columns; k++) {
            const double z = (double)x[i * s->columns + k] + (bias ? (double)bias[k] : 0);
            const double u = sqrt(2 / M_PI) * (z + 0.044715 * z * z * z);
            y[i * s->columns + k] = (float)(0.5 * z * (1 + tanh(u)));
        }
    return WEFT_OK;
}

static int32_t more(void *module, const weft_conf *conf, const weft_opspec *spec)
{
    (void)module, (void)conf;
    return spec->in[0].dtype == WEFT_F32 ? 60 : 0;
}

static int32_t less(void *module, const weft_conf *conf, const weft_opspec *spec)
{
    (void)module, (void)conf, (void)spec;
    return 40;
}

static const weft_kernel fast = {.struct_size = sizeof fast,
                                 .op = "gelu",
                                 .device = "cpu",
                                 .query = query,
                                 .prepare = prepare,
                                 .release = free,
                                 .run = run,
                                 .score = more};
static const weft_kernel late = {.struct_size = sizeof late,
                                 .op = "gelu",
                                 .device = "cpu",
                                 .query = query,
                                 .prepare = prepare,
                                 .release = free,
                                 .run = run,
                                 .score = less};
static const weft_component first = {
    sizeof first, 0, "weft.kernel/1", "acme.gelu", "GELU in double precision", NULL, &fast, NULL};
static const weft_component second = {
    sizeof second, 0,   "weft.kernel/1", "acme.late_gelu", "the same with a low score", NULL,
    &late,         NULL};
static const weft_component *const components[] = {&second, &first, NULL};
WEFT_PLUGIN("org.acme.gelu", "1", "", components, weft_open_host, NULL);
