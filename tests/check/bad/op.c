/* bad/op.c: an op, its gradient, kernels of both for the device cpu, and their ways of failing.
 * Each name of op.expected breaks one rule.
 *
 *   acme.mix(x [T, F], w [F]) -> y [T, F], total [T]
 *   y = s x w (1 + (f + 1) / 8) for feature f of the whole tensor;  total = the sum of y over F
 *   acme.mix.dx(dy, dtotal, x, w) -> dx, dw */
#include "op.h"

#include <stdlib.h>
#include <string.h>

const weft_attr *mix_scale(const weft_attr *attrs, uint32_t nattr)
{
    for (uint32_t i = 0; i < nattr; i++)
        if (BAD == KEY_PREFIX ? !strncmp(attrs[i].key, "s", 1) : !strcmp(attrs[i].key, "s"))
            return &attrs[i];
    return NULL;
}

static weft_status refuse(const weft_op_self *self, const char *text)
{
    return BAD == SILENT ? WEFT_USAGE : self->b->fail(self->b->ctx, WEFT_USAGE, text);
}

static int is(const weft_shape *s, uint32_t rank)
{
    return (s->rank == rank || BAD == ANY_RANK) && (s->dtype == WEFT_F32 || BAD == ANY_TYPE);
}

static weft_status infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                         const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    if (nin != 2 && (BAD != ANY_NUMBER || nin < 2))
        return refuse(self, "acme.mix takes x and w");
    if (!is(&in[0], 2) || !is(&in[1], 1))
        return refuse(self, "acme.mix takes x [tokens, features] and w [features], in fp32");
    if (!mix_scale(attrs, nattr) && BAD != NO_ATTRIBUTE)
        return refuse(self, "acme.mix needs the attribute s");
    if (*nout < 2 && BAD != WRITES_PAST)
        return self->b->fail(self->b->ctx, WEFT_USAGE, "acme.mix has two results");
    out[0] = in[0];
    out[1] = (weft_shape){.dtype = WEFT_F32, .rank = 1, .axes = {in[0].axes[0]}};
    if (BAD == FIXED_SIZE)
        out[1].axes[0].size = 4096;
    *nout = 2;
    return WEFT_OK;
}

static weft_status infer_dx(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    if (nin != 4 || !is(&in[0], 2) || !is(&in[1], 1) || !is(&in[2], 2) || !is(&in[3], 1))
        return refuse(self, "acme.mix.dx takes dy, dtotal, x and w, in fp32");
    if (!mix_scale(attrs, nattr))
        return refuse(self, "acme.mix.dx needs the attribute s");
    if (*nout < 2)
        return self->b->fail(self->b->ctx, WEFT_USAGE, "acme.mix.dx has two results");
    out[0] = in[2];
    out[1] = in[3];
    *nout = 2;
    return WEFT_OK;
}

/* A gradient of zeros for an output into which none flows. */
static weft_status nought(const weft_builder *b, weft_tensor like, weft_tensor *out)
{
    const weft_tensor in[] = {like, like};
    return *out ? WEFT_OK : b->op(b->ctx, "sub", NULL, 0, in, 2, 0, out, 1);
}

static weft_status grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                        weft_tensor *din)
{
    const weft_builder *b = self->b;
    const uint32_t kind = phase == WEFT_GRAD_INPUTS ? WEFT_T_ACTIVATION : WEFT_T_PARAM;
    weft_tensor in[] = {call->dout[0], call->dout[1], call->in[0], call->in[1]}, d[2] = {0};
    if (BAD == NEEDS_ALL && !call->dout[1])
        abort();
    weft_status st = nought(b, call->out[0], &in[0]);
    if (st == WEFT_OK)
        st = nought(b, call->out[1], &in[1]);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "acme.mix.dx", call->attrs, call->nattr, in, 4, 0, d, 2);
    for (uint32_t i = 0; st == WEFT_OK && i < 2; i++)
        if (b->kind(b->ctx, call->in[i]) == kind && !(BAD == NO_GRADIENT && i))
            din[i] = d[i];
    return st;
}

/* Split along the tokens, or along the features: then the totals are sums of parts. */
static weft_status shard(const weft_op_self *self, const weft_opcall *call, const char *mesh_axis,
                         uint32_t size, const weft_place *in, weft_place *out)
{
    (void)call, (void)mesh_axis, (void)size;
    const int tokens = in[0].kind == WEFT_SPLIT && in[0].axis == 0 && in[1].kind == WEFT_WHOLE;
    const int features = in[0].kind == WEFT_SPLIT && in[0].axis == 1 && in[1].kind == WEFT_SPLIT;
    if (in[0].kind == WEFT_WHOLE && in[1].kind == WEFT_WHOLE)
        return WEFT_OK;
    if (!tokens && !features)
        return BAD == SILENT_SHARD
                   ? WEFT_UNSUPPORTED
                   : self->b->fail(self->b->ctx, WEFT_UNSUPPORTED,
                                   "acme.mix is split along one axis of x, and w with it");
    out[0] = in[0];
    out[1] = (weft_place){.kind = tokens ? WEFT_SPLIT : WEFT_PARTIAL_SUM};
    return WEFT_OK;
}

static double flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                    const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout)
{
    (void)self, (void)attrs, (void)nattr, (void)nin, (void)out, (void)nout;
    const double tokens = (double)in[0].axes[0].size;
    const double each = 4 * (double)in[nin - 1].axes[0].size;
    return BAD == NEGATIVE ? -each : BAD == QUADRATIC ? tokens * tokens * each : tokens * each;
}

#define AXES "T tokens, F features"
#define S "s real - what all are multiplied by"
static const weft_op_doc doc = {.struct_size = sizeof doc,
                                .help = "x times w, and its sums",
                                .operands = "x:fTF w:fF",
                                .results = "y:fTF total:fT",
                                .axes = BAD == WRONG_DOC ? "T tokens" : AXES,
                                .attributes = S,
                                .formula = "4 T F"};
static const weft_op_doc dx_doc = {.struct_size = sizeof dx_doc,
                                   .help = "the gradients of acme.mix",
                                   .operands = "dy:fTF dtotal:fT x:fTF w:fF",
                                   .results = "dx:fTF dw:fF",
                                   .axes = AXES,
                                   .attributes = S,
                                   .formula = "4 T F"};
const weft_op mix = {.struct_size = sizeof mix,
                     .in_place = 1,
                     .infer = infer,
                     .grad = grad,
                     .shard = shard,
                     .flops = flops,
                     .first_input = 2,
                     .doc = &doc};
const weft_op mix_dx = {.struct_size = sizeof mix_dx,
                        .infer = infer_dx,
                        .whole = BAD == NO_SUCH_AXIS ? "features,rows" : "features",
                        .flops = flops,
                        .doc = &dx_doc};

#define COMPONENT(iface, name, help, table)                                                        \
    {                                                                                              \
        sizeof(weft_component), 0, iface, name, help, NULL, table, NULL                            \
    }
static const weft_component of_op = COMPONENT("weft.op/1", "acme.mix", "x times w", &mix);
static const weft_component of_dx = COMPONENT("weft.op/1", "acme.mix.dx", "gradients", &mix_dx);
static const weft_component of_cpu =
    COMPONENT("weft.kernel/1", "acme.mix.cpu", "its kernel for cpu", &mix_cpu);
static const weft_component of_dx_cpu =
    COMPONENT("weft.kernel/1", "acme.mix.dx.cpu", "its gradient's kernel for cpu", &mix_dx_cpu);
static const weft_component *const components[] = {&of_op, &of_dx, &of_cpu, &of_dx_cpu, NULL};
WEFT_PLUGIN("org.acme.mix", "1", "", components, weft_open_host, NULL);
