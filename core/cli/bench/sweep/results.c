/* cli/bench/sweep/results.c: metrics of the runs (see sweep.h).
 *
 * A run's rate is its tokens over its time, warm-up left out; a row has the median of its runs.
 * Parts of a step are means over all measured steps, so that they add up. Losses are compared at
 * every step, warm-up included, as |loss - reference| / |reference|. */
#include "cli/bench/sweep/sweep.h"

#include "base/err.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BOUND_EXACT 1e-4 /* fp32: a sum in another order */
#define BOUND_SHORT 1e-2 /* bf16, fp16: products of eight or eleven bits */

double cli_sweep_bound(const sweep_row *r)
{
    return r->plan.exact ? BOUND_EXACT : BOUND_SHORT;
}

static double number(const json_t *line, const char *key)
{
    const json_t *v = json_object_get(line, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static void add_step(sweep_sample *a, const json_t *line)
{
    double ms = number(line, "step_ms");
    a->steps++;
    a->tokens += number(line, "tokens");
    a->step_ms += ms;
    a->mfu_ms += number(line, "mfu") * ms;
    a->compute_ms += number(line, "compute_ms");
    a->exposed_ms += number(line, "exposed_comm_ms");
    a->bubble_ms += number(line, "bubble_ms");
    a->optimizer_ms += number(line, "optimizer_ms");
    double sent = number(line, "comm_bytes"), peak = number(line, "peak_bytes");
    a->sent += sent >= 0 && sent < 1e15 ? (uint64_t)sent : 0;
    a->peak = peak >= 0 && peak < 1e18 ? (uint64_t)peak : 0;
}

bool cli_sweep_measure(sweep *s, sweep_row *r, const sweep_try *t)
{
    char *path = pool_printf(&s->pool, "%s/metrics.jsonl", t->folder), text[8192];
    FILE *f = fopen(path, "re");
    const uint64_t all = s->warmup + s->steps;
    uint64_t step = 0;
    if (!r->sample)
        r->sample = mem_alloc(s->repeats * sizeof *r->sample);
    if (!r->loss)
        r->loss = mem_alloc(all * sizeof *r->loss);
    sweep_sample *a = &r->sample[t->repeat];
    *a = (sweep_sample){0};
    while (f && step < all && fgets(text, sizeof text, f)) {
        json_t *line = json_loads(text, 0, NULL);
        if (!line)
            break;
        if (!t->repeat)
            r->loss[step] = number(line, "loss");
        if (step++ >= s->warmup)
            add_step(a, line);
        json_decref(line);
    }
    if (f)
        fclose(f);
    bool whole = step == all && a->step_ms > 0;
    r->samples = whole ? t->repeat + 1 : r->samples;
    return whole;
}

void cli_sweep_compare(sweep *s, sweep_row *r, const sweep_row *one)
{
    r->worst = -1;
    if (!one || one->status != SWEEP_DONE || r->status != SWEEP_DONE)
        return;
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

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

double cli_sweep_run_rate(const sweep_row *r, uint32_t repeat)
{
    return r->sample[repeat].tokens / (r->sample[repeat].step_ms * 1e-3);
}

sweep_rate cli_sweep_rate_of(const sweep_row *r)
{
    double rate[100];
    const uint32_t n = r->samples < 100 ? r->samples : 100;
    for (uint32_t i = 0; i < n; i++)
        rate[i] = cli_sweep_run_rate(r, i);
    if (!n)
        return (sweep_rate){0};
    qsort(rate, n, sizeof *rate, by_value);
    return (sweep_rate){(rate[(n - 1) / 2] + rate[n / 2]) / 2, rate[0], rate[n - 1]};
}

sweep_sample cli_sweep_mean(const sweep_row *r)
{
    sweep_sample sum = {0};
    for (uint32_t i = 0; i < r->samples; i++) {
        const sweep_sample *a = &r->sample[i];
        sum.steps += a->steps;
        sum.tokens += a->tokens;
        sum.mfu_ms += a->mfu_ms;
        sum.step_ms += a->step_ms;
        sum.compute_ms += a->compute_ms;
        sum.exposed_ms += a->exposed_ms;
        sum.bubble_ms += a->bubble_ms;
        sum.optimizer_ms += a->optimizer_ms;
        sum.sent += a->sent;
        sum.peak = a->peak > sum.peak ? a->peak : sum.peak;
    }
    const double n = sum.steps ? (double)sum.steps : 1;
    sum.mfu_ms = sum.step_ms > 0 ? sum.mfu_ms / sum.step_ms : 0;
    sum.tokens /= n;
    sum.sent /= sum.steps ? sum.steps : 1;
    sum.step_ms /= n;
    sum.compute_ms /= n;
    sum.exposed_ms /= n;
    sum.bubble_ms /= n;
    sum.optimizer_ms /= n;
    return sum;
}
