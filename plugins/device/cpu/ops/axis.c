/* axis.c: sums and maxima along an axis, and broadcasts. The attribute that is not "size" has the
 * number of the axis as its value; its key, a name, says nothing to a device. */
#include "ops.h"
#include <string.h>

enum {
    SMALL = 16384, /* elements below which waking threads costs more than it saves */
    PIECE = 65536, /* elements of an item */
    WIDTH = 512    /* columns of an item of kern/axis.c */
};

static int64_t product(const weft_operand *o, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t k = from; k < to; k++)
        n *= o->size[k];
    return n;
}

/* Divides the axes of the operand that has the axis, and checks that `other` has the rest. */
static weft_status divide(const struct cpu_module *m, const weft_opspec *spec,
                          const weft_operand *full, const weft_operand *other, struct cpu_args *a)
{
    int64_t at = -1;
    for (uint32_t k = 0; k < spec->nattr; k++)
        if (strcmp(spec->attrs[k].key, "size") != 0)
            at = spec->attrs[k].i;
    bool fits = weft_elements(full) && weft_elements(other) && at >= 0 &&
                at < (int64_t)full->rank && other->rank + 1 == full->rank;
    for (uint32_t k = 0; fits && k < other->rank; k++)
        fits = other->size[k] == full->size[k + (k >= at)];
    if (!fits)
        return cpu_fail(m, WEFT_USAGE, "op %s: its operands do not differ by axis %lld alone",
                        spec->id, (long long)at);
    a->outer = product(full, 0, (uint32_t)at);
    a->along = full->size[at];
    a->inner = product(full, (uint32_t)at + 1, full->rank);
    return WEFT_OK;
}

static int64_t chunks_of(const struct cpu_args *a)
{
    return (a->along + a->chunk - 1) / a->chunk;
}

static int64_t tiles_of(const struct cpu_args *a)
{
    return (a->inner + WIDTH - 1) / WIDTH;
}

static bool is_float(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* The workspace holds the results of the pieces of a long axis, if there are several. */
CPU_PLAN(plan_reduce)
{
    (void)op;
    (void)match;
    if (spec->nin != 1 || spec->nout != 1)
        return cpu_fail(m, WEFT_USAGE, "op %s: it takes one tensor and gives one", spec->id);
    a->dt = spec->in[0].dtype;
    a->gt[0] = spec->out[0].dtype;
    if (!is_float(a->dt) || (a->gt[0] != WEFT_F32 && a->gt[0] != a->dt))
        return cpu_fail(m, WEFT_UNSUPPORTED,
                        "op %s: the cpu device has it for fp32, bf16 and fp16, into fp32 or the "
                        "same type",
                        spec->id);
    weft_status st = divide(m, spec, &spec->in[0], &spec->out[0], a);
    if (st != WEFT_OK)
        return st;
    a->chunk = PIECE / (a->inner < WIDTH ? a->inner : WIDTH);
    if (a->along > a->chunk)
        *workspace = 4 * (uint64_t)(a->outer * a->inner * chunks_of(a));
    return WEFT_OK;
}

static void run_once(const weft_prepared *p, const struct cpu_args *a, const void *in, void *out)
{
    const void *from[1] = {in};
    void *to[1] = {out};
    const struct cpu_job j = {a, from, to, NULL};
    cpu_kernel *k = p->op->kernel == offsetof(struct cpu_kernels, sum_axis)
                        ? p->d->kernels->sum_axis
                        : p->d->kernels->max_axis;
    const int64_t items = a->outer * chunks_of(a) * tiles_of(a);
    const int64_t elements = a->outer * a->along * a->inner;
    cpu_par(p->d, k, &j, items, elements < SMALL ? items : 1);
}

CPU_RUN(run_reduce)
{
    const struct cpu_args *a = &p->a;
    struct cpu_args pieces = *a, rest = *a;
    if (chunks_of(a) == 1) {
        run_once(p, a, in[0], out[0]);
        return WEFT_OK;
    }
    pieces.gt[0] = WEFT_F32;
    pieces.accumulate = 0;
    run_once(p, &pieces, in[0], ws);
    rest.dt = WEFT_F32;
    rest.along = rest.chunk = chunks_of(a);
    run_once(p, &rest, ws, out[0]);
    return WEFT_OK;
}

/* The second input, if there is one, only had a shape to give. */
CPU_PLAN(plan_broadcast)
{
    (void)op;
    (void)match;
    (void)workspace;
    if (spec->nin < 1 || spec->nin > 2 || spec->nout != 1)
        return cpu_fail(m, WEFT_USAGE, "op %s: it gives one tensor", spec->id);
    a->dt = spec->in[0].dtype;
    if (spec->out[0].dtype != a->dt)
        return cpu_fail(m, WEFT_UNSUPPORTED, "op %s: the cpu device has it from a type to the same",
                        spec->id);
    weft_status st = divide(m, spec, &spec->out[0], &spec->in[0], a);
    a->chunk = st != WEFT_OK || a->inner >= PIECE ? 1 : PIECE / a->inner;
    return st;
}

CPU_RUN(run_broadcast)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    const int64_t items = p->a.outer * chunks_of(&p->a);
    const int64_t elements = p->a.outer * p->a.along * p->a.inner;
    cpu_par(p->d, p->d->kernels->broadcast, &j, items, elements < SMALL ? items : 1);
    return WEFT_OK;
}
