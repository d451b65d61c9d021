/* random.c: random numbers and dropout: where this rank's elements lie in the whole tensor. */
#include "ops.h"

enum { SMALL = 16384 / DRAW_BLOCK }; /* items below which waking threads costs more than it saves */

/* The whole job's size of axis k; the rank's own where the op has none. */
static int64_t whole_size(const weft_opspec *spec, const weft_operand *o, uint32_t k)
{
    static const char *const keys[] = {"whole.0", "whole.1", "whole.2", "whole.3",
                                       "whole.4", "whole.5", "whole.6", "whole.7"};
    _Static_assert(sizeof keys / sizeof *keys == WEFT_MAX_AXES, "one for each axis");
    return weft_attr_i(spec, keys[k], o->size[k]);
}

/* A run reaches over the last axes that are whole, and the one before them. */
static void find_runs(struct cpu_numbers *x, const weft_opspec *spec, const weft_operand *o,
                      bool within_rows)
{
    uint64_t distance = 1; /* of neighbours along axis k */
    bool outer = false;
    *x = (struct cpu_numbers){.runs = 1, .length = 1, .unit = 1};
    for (uint32_t k = o->rank; k-- > 0;) {
        outer |= within_rows && k == 0;
        if (outer) {
            x->size[k] = o->size[k];
            x->step[k] = distance;
            x->runs *= o->size[k];
            x->outer = k + 1 > x->outer ? k + 1 : x->outer;
        } else {
            x->length *= o->size[k];
        }
        outer |= whole_size(spec, o, k) != o->size[k];
        x->unit = distance;
        distance *= (uint64_t)whole_size(spec, o, k);
    }
    x->by_step = spec->id[0] == 'r' && spec->in[0].dtype == WEFT_F32;
    x->unit = x->by_step ? (uint64_t)1 << 40 : x->unit;
    x->blocks = (x->length + DRAW_BLOCK - 1) / DRAW_BLOCK;
    x->seed = (uint64_t)weft_attr_i(spec, "seed", 0);
    x->stream = (uint64_t)weft_attr_i(spec, "stream", 0);
    x->first = (uint64_t)weft_attr_i(spec, "first", 0);
}

/* `eps` is the probability of dropout, `fused` says that numbers are normal. */
CPU_PLAN(plan_random)
{
    const bool dropout = spec->id[0] == 'd';
    const weft_operand *time = &spec->in[dropout];
    const weft_operand *o = &spec->out[0];
    const int64_t distribution = weft_attr_i(spec, "distribution", 0);
    (void)op;
    (void)match;
    (void)workspace;
    if (time->rank || (time->dtype != WEFT_I64 && (dropout || time->dtype != WEFT_F32)))
        return cpu_fail(m, WEFT_USAGE, "op %s: the time is one number, int64%s", spec->id,
                        dropout ? "" : " or fp32");
    if (!o->rank)
        return cpu_fail(m, WEFT_USAGE, "op %s: it draws for a tensor with axes", spec->id);
    a->eps = weft_attr_f(spec, "p", 0);
    if (!dropout && distribution != 0 && distribution != 1)
        return cpu_fail(m, WEFT_UNSUPPORTED, "op random: there is no distribution %lld",
                        (long long)distribution);
    a->fused = distribution == 1;
    if (!(a->eps >= 0 && a->eps < 1))
        return cpu_fail(m, WEFT_USAGE, "op %s: p is %g; it must be at least 0 and below 1",
                        spec->id, a->eps);
    a->rows = weft_elements(o);
    a->cols = a->rows / o->size[0];
    find_runs(&a->numbers, spec, o, spec->nin > 2);
    return WEFT_OK;
}

CPU_RUN(run_random)
{
    const struct cpu_job j = {&p->a, in, out, ws};
    const struct cpu_numbers *x = &p->a.numbers;
    cpu_kernel *k;
    memcpy(&k, (const char *)p->d->kernels + p->op->kernel, sizeof k);
    const int64_t few = x->length < DRAW_BLOCK ? SMALL * DRAW_BLOCK / x->length : SMALL;
    cpu_par(p->d, k, &j, x->runs * x->blocks, few);
    return WEFT_OK;
}
