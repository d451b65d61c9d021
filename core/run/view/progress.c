/* run/view/progress.c: see progress.h. */
#include "run/view/progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <unistd.h>

void run_progress_begin(progress *p, uint64_t first, uint64_t last, uint64_t every)
{
    *p = (progress){.first = first, .last = last, .every = every, .began_ns = clock_ns()};
    p->terminal = isatty(STDERR_FILENO);
}

static void eta(const progress *p, uint64_t step, char out[32])
{
    double each = (double)(clock_ns() - p->began_ns) * 1e-9 / (double)p->done;
    uint64_t left = (uint64_t)(each * (double)(p->last - step) + 0.5);
    if (left >= 3600)
        snprintf(out, 32, "%" PRIu64 ":%02u:%02u", left / 3600, (unsigned)(left / 60 % 60),
                 (unsigned)(left % 60));
    else
        snprintf(out, 32, "%u:%02u", (unsigned)(left / 60), (unsigned)(left % 60));
}

void run_progress_step(progress *p, const metrics *m)
{
    char left[32];
    p->done++;
    p->tokens_per_s =
        p->done == 1 ? m->tokens_per_s : 0.8 * p->tokens_per_s + 0.2 * m->tokens_per_s;
    bool evaluated = m->valid_loss >= 0;
    bool due = p->every && (p->terminal || m->step % p->every == 0 || m->step == p->last ||
                            m->step == p->first || evaluated);
    if (!due)
        return;
    eta(p, m->step, left);
    fprintf(stderr,
            "%sstep %" PRIu64 "/%" PRIu64 "  loss %.4f  norm %.3f  %.0f tokens/s  %.1f ms  "
            "ETA %s",
            p->terminal ? "\r\033[K" : "", m->step, p->last, m->loss, m->grad_norm, p->tokens_per_s,
            m->step_ms, left);
    if (m->scale > 0)
        fprintf(stderr, "  scale %.0f", m->scale);
    if (m->skipped > 0)
        fprintf(stderr, "  skipped %.0f", m->skipped);
    if (evaluated)
        fprintf(stderr, "  valid %.4f", m->valid_loss);
    p->open = p->terminal && !evaluated;
    fputs(p->open ? "" : "\n", stderr);
    fflush(stderr);
}

void run_progress_end(progress *p)
{
    if (p->open)
        fputc('\n', stderr);
    p->open = false;
}
