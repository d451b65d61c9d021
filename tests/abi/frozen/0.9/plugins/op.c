/* op.c: an op, its gradient, and kernels of both for two devices.
 *
 *   acme.softcap(x) = cap tanh(x / cap);  acme.softcap.dx(dy, y) = dy (1 - (y / cap)^2) */
#include <math.h>
#include <string.h>
#include <weft/device.h>

static double cap_of(const weft_attr *attrs, uint32_t nattr)
{
    for (uint32_t i = 0; i < nattr; i++)
        if (!strcmp(attrs[i].key, "cap"))
            return attrs[i].f;
    return 0;
}

/* --- the ops --- */

/* Equal shapes of two axes or more: [tokens, features...]. */
static int alike(const weft_shape *in, uint32_t nin)
{
    for (uint32_t i = 0; i < nin; i++) {
        if (in[i].rank < 2 || in[i].rank != in[0].rank || in[i].dtype != in[0].dtype)
            return 0;
        for (uint32_t k = 0; k < in[i].rank; k++)
            if (in[i].axes[k].size != in[0].axes[k].size)
                return 0;
    }
    return 1;
}

/* y is as x, and dx as dy. */
static weft_status infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                         const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    const uint32_t takes = strcmp(self->conf->component->name, "acme.softcap") ? 2 : 1;
    if (nin != takes)
        return self->b->fail(self->b->ctx, WEFT_USAGE,
                             "acme.softcap takes x, and acme.softcap.dx takes dy and y");
    if (!alike(in, nin))
        return self->b->fail(self->b->ctx, WEFT_USAGE,
                             "acme.softcap takes [tokens, features...], and operands of one shape");
    if (!(cap_of(attrs, nattr) > 0))
        return self->b->fail(self->b->ctx, WEFT_USAGE, "acme.softcap: cap has to be above 0");
    if (*nout < 1)
        return self->b->fail(self->b->ctx, WEFT_USAGE, "acme.softcap has one result");
    out[0] = in[0];
    *nout = 1;
    return WEFT_OK;
}

static weft_status grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                        weft_tensor *din)
{
    const weft_tensor in[] = {call->dout[0], call->out[0]};
    if (phase != WEFT_GRAD_INPUTS || !call->dout[0])
        return WEFT_OK;
    return self->b->op(self->b->ctx, "acme.softcap.dx", call->attrs, call->nattr, in, 2, 0, din, 1);
}

static weft_status shard(const weft_op_self *self, const weft_opcall *call, const char *mesh_axis,
                         uint32_t size, const weft_place *in, weft_place *out)
{
    (void)mesh_axis, (void)size;
    for (uint32_t i = 0; i < call->nin; i++)
        if (in[i].kind > WEFT_SPLIT || memcmp(&in[i], &in[0], sizeof in[0]) != 0)
            return self->b->fail(self->b->ctx, WEFT_UNSUPPORTED,
                                 "acme.softcap works on whole tensors or equal parts, not on sums");
    out[0] = in[0];
    return WEFT_OK;
}

static double flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                    const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout)
{
    double n = 3;
    (void)self, (void)attrs, (void)nattr, (void)nin, (void)out, (void)nout;
    for (uint32_t i = 0; i < in[0].rank; i++)
        n *= (double)in[0].axes[i].size;
    return n;
}

#define CAP "cap real 30 the results lie between -cap and cap"
static const weft_op_doc doc = {
    sizeof doc, 0, "y = cap tanh(x / cap)", "x:cT*F", "y:cT*F", "T tokens, F vocab", CAP, "3 T F"};
static const weft_op_doc dx_doc = {sizeof dx_doc,
                                   0,
                                   "the gradient of x in acme.softcap",
                                   "dy:cT*F y:cT*F",
                                   "dx:cT*F",
                                   "T tokens, F vocab",
                                   CAP,
                                   "3 T F"};
static const weft_op softcap = {.struct_size = sizeof softcap,
                                .infer = infer,
                                .grad = grad,
                                .shard = shard,
                                .flops = flops,
                                .doc = &doc};
static const weft_op softcap_dx = {.struct_size = sizeof softcap_dx,
                                   .infer = infer,
                                   .shard = shard,
                                   .flops = flops,
                                   .doc = &dx_doc};

/* --- the kernels: fp32 on host memory --- */

typedef struct prepared {
    const weft_host *host;
    int64_t n;
    float cap;
} prepared;

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    const weft_host *host = module;
    const weft_requirements need = {sizeof need, 0, 0};
    const weft_status st = weft_check_args(host, spec, sizeof *spec, WEFT_SPEC_DETERMINISTIC);
    (void)conf;
    if (st != WEFT_OK)
        return st;
    for (uint32_t i = 0; i < spec->nin; i++)
        if (spec->in[i].dtype != WEFT_F32 || spec->in[i].flags)
            return (host->fail)(host->ctx, WEFT_UNSUPPORTED, "acme.softcap computes in fp32 alone");
    weft_give(out, &need);
    return WEFT_OK;
}

static weft_status prepare(void *module, const weft_conf *conf, const weft_opspec *spec,
                           void *stream, void **out)
{
    weft_requirements need = {sizeof need, 0, 0};
    weft_status st = query(module, conf, spec, &need);
    prepared *p = weft_new((const weft_host *)module, sizeof *p, &st);
    (void)stream;
    if (!p)
        return st;
    *p = (prepared){module, 1, (float)cap_of(spec->attrs, spec->nattr)};
    for (uint32_t i = 0; i < spec->out[0].rank; i++)
        p->n *= spec->out[0].size[i];
    *out = p;
    return WEFT_OK;
}

static void release(void *of)
{
    prepared *p = of;
    if (p)
        p->host->free(p->host->ctx, p);
}

static weft_status run(void *of, void *stream, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    const prepared *p = of;
    const float *x = in[0];
    float *y = out[0];
    (void)stream, (void)workspace;
    for (int64_t i = 0; i < p->n && !flags; i++)
        y[i] = p->cap * tanhf(x[i] / p->cap);
    return weft_check_flags(p->host, flags, 0);
}

static weft_status run_dx(void *of, void *stream, const void *const *in, void *const *out,
                          void *workspace, uint32_t flags)
{
    const prepared *p = of;
    const float *dy = in[0], *y = in[1];
    float *dx = out[0];
    (void)stream, (void)workspace;
    for (int64_t i = 0; i < p->n && !flags; i++)
        dx[i] = dy[i] * (1 - y[i] / p->cap * (y[i] / p->cap));
    return weft_check_flags(p->host, flags, 0);
}

#define KERNEL(id, device, run)                                                                    \
    {                                                                                              \
        sizeof(weft_kernel), 0, id, device, query, prepare, release, run, NULL                     \
    }
static const weft_kernel cpu = KERNEL("acme.softcap", "cpu", run);
static const weft_kernel cpu_dx = KERNEL("acme.softcap.dx", "cpu", run_dx);
static const weft_kernel plain = KERNEL("acme.softcap", "acme.plain", run);
static const weft_kernel plain_dx = KERNEL("acme.softcap.dx", "acme.plain", run_dx);

#define COMPONENT(iface, name, help, table)                                                        \
    {                                                                                              \
        sizeof(weft_component), 0, iface, name, help, NULL, table, NULL                            \
    }
static const weft_component of_op =
    COMPONENT("weft.op/1", "acme.softcap", "cap tanh(x / cap)", &softcap);
static const weft_component of_dx =
    COMPONENT("weft.op/1", "acme.softcap.dx", "its gradient", &softcap_dx);
static const weft_component of_cpu =
    COMPONENT("weft.kernel/1", "acme.softcap.cpu", "its kernel for cpu", &cpu);
static const weft_component of_cpu_dx =
    COMPONENT("weft.kernel/1", "acme.softcap.dx.cpu", "its gradient's kernel for cpu", &cpu_dx);
static const weft_component of_plain =
    COMPONENT("weft.kernel/1", "acme.softcap.plain", "its kernel for acme.plain", &plain);
static const weft_component of_plain_dx = COMPONENT(
    "weft.kernel/1", "acme.softcap.dx.plain", "its gradient's kernel for acme.plain", &plain_dx);
static const weft_component *const components[] = {&of_op,    &of_dx,       &of_cpu, &of_cpu_dx,
                                                   &of_plain, &of_plain_dx, NULL};
WEFT_PLUGIN("org.acme.softcap", "1", "", components, weft_open_host, NULL);
