/* run/view/progress.c: see progress.h. */
#include "run/view/progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#define MINUTE_NS UINT64_C(60000000000)

void run_progress_begin(run_progress *p, uint64_t first, uint64_t last, uint64_t every)
{
    *p = (run_progress){.first = first, .last = last, .every = every, .began_ns = clock_ns()};
    p->terminal = isatty(STDERR_FILENO);
}

void run_progress_duration(uint64_t seconds, char out[32])
{
    const unsigned minutes = (unsigned)(seconds / 60 % 60), rest = (unsigned)(seconds % 60);
    if (seconds >= 3600)
        snprintf(out, 32, "%" PRIu64 ":%02u:%02u", seconds / 3600, minutes, rest);
    else
        snprintf(out, 32, "%u:%02u", minutes, rest);
}

/* Without the sign that printf() gives some of them. */
static double plain_nan(double x)
{
    return isnan(x) ? fabs(x) : x;
}

static void print(const run_progress *p, const run_metrics *m, bool evaluated)
{
    char line[512], left[32], when[32], scale[64] = "", skipped[64] = "", valid[64] = "";
    const double each = (double)(clock_ns() - p->began_ns) * 1e-9 / (double)p->done;
    run_progress_duration((uint64_t)(each * (double)(p->last - m->step) + 0.5), left);
    if (m->scale > 0)
        snprintf(scale, sizeof scale, "  scale %.0f", m->scale);
    if (m->skipped > 0)
        snprintf(skipped, sizeof skipped, "  skipped %.0f", m->skipped);
    if (evaluated)
        snprintf(valid, sizeof valid, "  valid %.4f", plain_nan(m->valid_loss));
    const int n =
        snprintf(line, sizeof line,
                 "%s%sstep %" PRIu64 "/%" PRIu64 "  loss %.4f  norm %.3f  %.0f tokens/s  %.1f ms  "
                 "ETA %s%s%s%s%s",
                 log_time(when), p->terminal ? "\r\033[K" : "", m->step, p->last,
                 plain_nan(m->loss), plain_nan(m->grad_norm), p->tokens_per_s, m->step_ms, left,
                 scale, skipped, valid, p->open ? "" : "\n");
    log_put(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* A step between the first and the last one: whether its line is due. */
static bool is_due(const run_progress *p, uint64_t step, uint64_t now)
{
    const uint64_t rest = now - p->began_ns < MINUTE_NS ? MINUTE_NS / 60 : MINUTE_NS / 6;
    return p->terminal ||
           (p->every == PROGRESS_AUTO ? now - p->printed_ns >= rest : step % p->every == 0);
}

void run_progress_step(run_progress *p, const run_metrics *m)
{
    p->done++;
    p->tokens_per_s =
        p->done == 1 ? m->tokens_per_s : 0.8 * p->tokens_per_s + 0.2 * m->tokens_per_s;
    const bool evaluated = run_metrics_evaluated(m);
    const uint64_t now = clock_ns();
    const bool always = m->step == p->last || m->step == p->first || evaluated;
    if (!p->every || !(always || is_due(p, m->step, now)) || !log_has_capacity(0))
        return;
    p->printed_ns = now;
    p->open = p->terminal && !evaluated;
    print(p, m, evaluated);
}

void run_progress_end(run_progress *p)
{
    if (p->open && log_has_capacity(0))
        log_put("\n", 1);
    p->open = false;
}
