/* rope.c: the host side of rotary embedding: a table of cosines and sines, computed once.
 *
 * The table is computed in double precision when the op is prepared: 4 bytes per position and
 * element of a head: 1 MiB for 2,048 positions of 128 elements. For the inverse rotation the
 * sines are negated, so the kernel implements one direction only. */
#include "ops.h"
#include <math.h>

CPU_PLAN(plan_rope)
{
    (void)op;
    (void)workspace;
    a->rows = match->size['T' - 'A'];
    a->heads = match->size['H' - 'A'];
    a->dim = match->size['D' - 'A'];
    a->cols = a->heads * a->dim;
    a->sequence = weft_attr_i(spec, "sequence", a->rows);
    if (a->sequence < 1 || (spec->nin < 2 && a->rows % a->sequence != 0))
        return cpu_fail(m, WEFT_USAGE, "op %s: %lld tokens are not whole sequences of %lld",
                        spec->id, (long long)a->rows, (long long)a->sequence);
    if (a->dim % 2 != 0)
        return cpu_fail(m, WEFT_USAGE, "op %s: a head of %lld elements cannot be split into pairs",
                        spec->id, (long long)a->dim);
    if (!(weft_attr_f(spec, "theta", 1e4) > 0))
        return cpu_fail(m, WEFT_USAGE, "op %s: theta must be above 0", spec->id);
    return WEFT_OK;
}

/* The angle between two positions of pair `i`: theta^(-i / half), divided by `factor`. With
 * `original`, the positions of a first training, only those pairs are divided that turn less than
 * `low` times in it; of those that turn less than `high` times a part (Llama 3). */
static double step_of(const weft_opspec *spec, int64_t i, int64_t half)
{
    const double step = pow(weft_attr_f(spec, "theta", 1e4), -(double)i / (double)half);
    const double factor = weft_attr_f(spec, "factor", 1), low = weft_attr_f(spec, "low", 1);
    const double high = weft_attr_f(spec, "high", 4);
    const double turns = (double)weft_attr_i(spec, "original", 0) * step / 6.283185307179586477;
    if (turns >= high)
        return step;
    const double kept = turns > low ? (turns - low) / (high - low) : 0;
    return (1 - kept) * step / factor + kept * step;
}

static void fill_table(float *turn, const weft_opspec *spec, int64_t sequence, int64_t half)
{
    const double sign = weft_attr_i(spec, "sign", 1) < 0 ? -1 : 1;
    for (int64_t i = 0; i < half; i++) {
        const double step = step_of(spec, i, half);
        for (int64_t p = 0; p < sequence; p++) {
            turn[p * 2 * half + i] = (float)cos((double)p * step);
            turn[p * 2 * half + half + i] = (float)(sign * sin((double)p * step));
        }
    }
}

weft_status ready_rope(weft_prepared *p, const weft_opspec *spec)
{
    const weft_host *host = p->d->m->host;
    const uint64_t bytes = (uint64_t)(p->a.sequence * p->a.dim) * sizeof(float);
    float *turn = host->alloc(host->ctx, bytes, 64);
    if (!turn)
        return cpu_fail(p->d->m, WEFT_NO_MEMORY, "no memory for %llu bytes of rotary angles",
                        (unsigned long long)bytes);
    fill_table(turn, spec, p->a.sequence, p->a.dim / 2);
    p->extra = turn;
    p->a.turn = turn;
    return WEFT_OK;
}

void drop_rope(weft_prepared *p)
{
    p->d->m->host->free(p->d->m->host->ctx, p->extra);
}
