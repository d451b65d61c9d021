/* bench/sweep/results.c: metrics of the runs (see sweep.h).
 *
 * A run's rate is its tokens over its time, warm-up left out. All numbers of a row are those of one
 * run, that with the median rate, or of an even number of runs the two in the middle: so they add
 * up, belong together, and one slow run changes none.
 * The parts of a step are of all ranks. These exchange their times after some steps alone, more
 * seldom the shorter a step is (run/view/ranks.h): where they have after no measured step, their
 * last exchange in the warm-up counts. One rank exchanges nothing, and its own times count.
 *
 * The first run of a precision, a number of ranks and settings of the device times its peak, and
 * later runs are given it (execute.c). Where several have timed it, since one of them left no
 * number, the MFU goes by the highest, because a machine may be busy then.
 *
 * Losses are compared at every step, warm-up included, as |loss - reference| / |reference|, and so
 * is the norm of the first step's gradients. In fp32 both agree to the end, within the bounds
 * below. In bf16 and fp16 the rounding of products grows with the steps, most where the loss jumps.
 * A layout that is wrong shows in the first step: its norm is far off. So what begins within the
 * bounds and leaves them later is rounding, as far as BOUND_ROUNDING; fp32 decides. */
#include "bench/sweep/sweep.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BOUND_EXACT 1e-4 /* fp32: a sum in another order */
#define BOUND_SHORT 1e-2 /* bf16, fp16: products of eight or eleven bits */
#define BOUND_ROUNDING 5e-2
#define NORM_EXACT 1e-3
#define NORM_SHORT 5e-2

double bench_sweep_bound(const bench_sweep_row *r)
{
    return r->plan.exact ? BOUND_EXACT : BOUND_SHORT;
}

static bool is_wrong_at_once(const bench_sweep_row *r)
{
    return r->worst_step == 1 || r->norm_apart > (r->plan.exact ? NORM_EXACT : NORM_SHORT);
}

uint32_t bench_sweep_loss(const bench_sweep_row *r)
{
    if (r->worst < 0)
        return SWEEP_LOSS_UNKNOWN;
    if (r->worst > bench_sweep_bound(r))
        return r->plan.exact || r->worst > BOUND_ROUNDING || is_wrong_at_once(r)
                   ? SWEEP_LOSS_DIFFERS
                   : SWEEP_LOSS_ROUNDING;
    return r->norm_apart > (r->plan.exact ? NORM_EXACT : NORM_SHORT) ? SWEEP_LOSS_DIFFERS
                                                                     : SWEEP_LOSS_AGREES;
}

static double number(const json_t *line, const char *key)
{
    const json_t *v = json_object_get(line, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

const char *const bench_sweep_parts[SWEEP_PARTS] = {"compute_ms", "exposed_comm_ms", "bubble_ms",
                                                    "optimizer_ms"};

/* Sums of the parts over steps. */
typedef struct split {
    bench_sweep_part own[SWEEP_PARTS], all[SWEEP_PARTS]; /* of rank 0; of all ranks */
    bool measured;                                       /* `all` is of measured steps */
} split;

static void add_parts(split *to, const json_t *line, bool measured)
{
    const double n = number(line, "ranks.steps");
    if (n > 0 && !to->measured) {
        memset(to->all, 0, sizeof to->all);
        to->measured = measured;
    }
    for (uint32_t p = 0; p < SWEEP_PARTS; p++) {
        const char *name = bench_sweep_parts[p];
        char mean[64], most[64];
        snprintf(mean, sizeof mean, "ranks.%s.mean", name);
        snprintf(most, sizeof most, "ranks.%s.max", name);
        to->own[p].mean += measured ? number(line, name) : 0;
        to->own[p].most = to->own[p].mean;
        to->all[p].mean += n > 0 ? n * number(line, mean) : 0;
        to->all[p].most += n > 0 ? n * number(line, most) : 0;
    }
}

static void take_parts(bench_sweep_sample *a, const split *x)
{
    double own = 0, all = 0;
    for (uint32_t p = 0; p < SWEEP_PARTS; p++) {
        own += x->own[p].mean;
        all += x->all[p].mean;
    }
    for (uint32_t p = 0; p < SWEEP_PARTS; p++) {
        const bench_sweep_part part = all > 0 ? x->all[p] : x->own[p];
        const double whole = all > 0 ? all : own;
        a->part[p] = (bench_sweep_part){part.mean / whole, part.most / whole};
    }
}

static void add_step(bench_sweep_sample *a, const json_t *line)
{
    double ms = number(line, "step_ms");
    a->steps++;
    a->tokens += number(line, "tokens");
    a->step_ms += ms;
    a->mfu_ms += number(line, "mfu") * ms;
    double sent = number(line, "comm_bytes"), peak = number(line, "peak_bytes");
    a->sent += sent >= 0 && sent < 1e15 ? (uint64_t)sent : 0;
    a->peak = peak >= 0 && peak < 1e18 ? (uint64_t)peak : 0;
}

bool bench_sweep_measure(bench_sweep *s, bench_sweep_row *r, const bench_sweep_try *t)
{
    char *path = pool_printf(&s->pool, "%s/metrics.jsonl", t->folder), *text = NULL;
    size_t room = 0;
    FILE *f = fopen(path, "re");
    const uint64_t all = s->warmup + s->steps;
    uint64_t step = 0;
    if (!r->sample)
        r->sample = mem_alloc(s->repeats * sizeof *r->sample);
    if (!r->loss)
        r->loss = mem_alloc(all * sizeof *r->loss);
    bench_sweep_sample *a = &r->sample[t->repeat];
    *a = (bench_sweep_sample){0};
    split parts = {.measured = false};
    while (f && step < all && getline(&text, &room, f) > 0) {
        json_t *line = json_loads(text, 0, NULL);
        if (!line)
            break;
        if (!t->repeat)
            r->loss[step] = number(line, "loss");
        if (!t->repeat && !step)
            r->norm = number(line, "grad_norm");
        add_parts(&parts, line, step >= s->warmup);
        if (step++ >= s->warmup)
            add_step(a, line);
        json_decref(line);
    }
    if (f)
        fclose(f);
    free(text);
    take_parts(a, &parts);
    bool whole = step == all && a->step_ms > 0;
    r->samples = whole ? t->repeat + 1 : r->samples;
    return whole;
}

void bench_sweep_compare(bench_sweep *s, bench_sweep_row *r, const bench_sweep_row *one)
{
    r->worst = -1;
    r->norm_apart = 0;
    if (!one || one->status != SWEEP_DONE || r->status != SWEEP_DONE)
        return;
    if (isfinite(r->norm) && isfinite(one->norm) && one->norm > 0)
        r->norm_apart = fabs(r->norm - one->norm) / one->norm;
    for (uint64_t i = 0; i < s->warmup + s->steps; i++) {
        double far = fabs(r->loss[i] - one->loss[i]) / fabs(one->loss[i]);
        if (isnan(far))
            far = isnan(r->loss[i]) && isnan(one->loss[i]) ? 0 : INFINITY;
        if (far > r->worst) {
            r->worst = far;
            r->worst_step = (uint32_t)i + 1;
        }
    }
}

double bench_sweep_run_rate(const bench_sweep_row *r, uint32_t repeat)
{
    return r->sample[repeat].tokens / (r->sample[repeat].step_ms * 1e-3);
}

/* The number of runs with a lower rate, equal ones before it included. */
static uint32_t place_of(const bench_sweep_row *r, uint32_t repeat)
{
    uint32_t below = 0;
    for (uint32_t i = 0; i < r->samples; i++) {
        const double other = bench_sweep_run_rate(r, i), own = bench_sweep_run_rate(r, repeat);
        below += other < own || (other <= own && i < repeat);
    }
    return below;
}

/* The run in the middle, a step; of an even number the two in the middle together: the mean of
 * their rates, and of the shares that parts have in a step. */
static bench_sweep_sample middle(const bench_sweep_row *r)
{
    bench_sweep_sample m = {.steps = 0};
    double rate = 0, n = 0;
    for (uint32_t i = 0; i < r->samples; i++) {
        const bench_sweep_sample *a = &r->sample[i];
        const uint32_t place = place_of(r, i);
        if (place != (r->samples - 1) / 2 && place != r->samples / 2)
            continue;
        n++;
        rate += bench_sweep_run_rate(r, i);
        m.steps += a->steps;
        m.tokens += a->tokens;
        m.sent += a->sent;
        for (uint32_t p = 0; p < SWEEP_PARTS; p++) {
            m.part[p].mean += a->part[p].mean;
            m.part[p].most += a->part[p].most;
        }
    }
    if (!m.steps)
        return m;
    m.tokens /= (double)m.steps;
    m.sent /= m.steps;
    m.step_ms = m.tokens / (rate / n) * 1e3;
    for (uint32_t p = 0; p < SWEEP_PARTS; p++) {
        m.part[p].mean *= m.step_ms / n;
        m.part[p].most *= m.step_ms / n;
    }
    return m;
}

bench_sweep_rate bench_sweep_rate_of(const bench_sweep_row *r)
{
    bench_sweep_rate out = {0, INFINITY, 0};
    if (!r->samples)
        return (bench_sweep_rate){0, 0, 0};
    for (uint32_t i = 0; i < r->samples; i++) {
        out.least = fmin(out.least, bench_sweep_run_rate(r, i));
        out.max = fmax(out.max, bench_sweep_run_rate(r, i));
    }
    const bench_sweep_sample m = middle(r);
    out.median = m.tokens / (m.step_ms * 1e-3);
    return out;
}

/* The peak of a rank that one run has found: the FLOPs of rank 0 in the time in which it would have
 * made them. 0: unknown. */
static double peak_of(const bench_sweep_row *r, const bench_sweep_sample *a)
{
    const double steps = (double)a->steps;
    return a->mfu_ms > 0 ? r->plan.flops_first * steps / (a->mfu_ms * 1e-3) : 0;
}

static bool shares_peak(const bench_sweep_row *r, const bench_sweep_row *x)
{
    return x->plan.ranks == r->plan.ranks && x->plan.compute == r->plan.compute &&
           x->plan.device == r->plan.device;
}

double bench_sweep_peak(const bench_sweep *s, const bench_sweep_row *r)
{
    double peak = 0;
    for (uint32_t k = 0; k < s->rows.n + s->references.n; k++) {
        const bench_sweep_row *x =
            k < s->rows.n ? &s->rows.at[k] : &s->references.at[k - s->rows.n].row;
        for (uint32_t j = 0; shares_peak(r, x) && j < x->samples; j++)
            peak = fmax(peak, peak_of(x, &x->sample[j]));
    }
    return peak;
}

void bench_sweep_find_peaks(bench_sweep *s)
{
    for (uint32_t i = 0; i < s->rows.n; i++)
        s->rows.at[i].peak_flops = bench_sweep_peak(s, &s->rows.at[i]);
}

bench_sweep_sample bench_sweep_typical(const bench_sweep_row *r)
{
    bench_sweep_sample m = middle(r);
    m.mfu_ms = r->peak_flops > 0 ? r->plan.flops_first / (m.step_ms * 1e-3) / r->peak_flops : 0;
    for (uint32_t i = 0; i < r->samples; i++)
        m.peak = r->sample[i].peak > m.peak ? r->sample[i].peak : m.peak;
    return m;
}
