/* bench/sweep/warnings.c: what makes the numbers of a sweep doubtful (see sweep.h). */
#include "bench/sweep/sweep.h"

#define NOISY 0.05 /* relative deviation of a run */
#define NAMED 8u

bool bench_sweep_is_oversubscribed(const bench_sweep_row *r)
{
    const uint32_t threads = r->plan.threads ? r->plan.threads : 1;
    return !r->plan.status && (uint64_t)r->plan.ranks * threads > cli_cpus();
}

/* Others used more than a twentieth of the processors, and more than what a system does idly. */
static bool is_loaded(const bench_sweep_row *r)
{
    const double share = 0.05 * cli_cpus();
    return r->status == SWEEP_DONE && r->other_cores > (share > 0.2 ? share : 0.2);
}

/* "3, 5, 6 and 12 more": the rows of which `is` is true. */
static const char *which(bench_sweep *s, bool (*is)(const bench_sweep_row *r), uint32_t *n)
{
    char *text = pool_text(&s->pool, "");
    *n = 0;
    for (uint32_t i = 0; i < s->rows.n; i++) {
        const bench_sweep_row *r = &s->rows.at[i];
        if (r->status == SWEEP_SAME || !is(r) || ++*n > NAMED)
            continue;
        text = pool_printf(&s->pool, "%s%s%u", text, *n > 1 ? ", " : "", r->number);
    }
    return *n > NAMED ? pool_printf(&s->pool, "%s and %u more", text, *n - NAMED) : text;
}

static const char *of_oversubscribed(bench_sweep *s)
{
    uint32_t n;
    const char *names = which(s, bench_sweep_is_oversubscribed, &n);
    const uint32_t cpus = cli_cpus();
    if (!n)
        return NULL;
    return pool_printf(&s->pool,
                       "combinations %s have more ranks, or threads of them, than the %u "
                       "processor%s here: their times say nothing about a machine that "
                       "has enough",
                       names, cpus, cpus == 1 ? "" : "s");
}

bool bench_sweep_is_pinned(const bench_sweep_row *r)
{
    return r->looked && r->pinned >= r->plan.ranks;
}

/* Not where the ranks have all processors together: then none can be bound to a part of them. */
static bool is_loose(const bench_sweep_row *r)
{
    return r->status == SWEEP_DONE && r->looked && !bench_sweep_is_pinned(r) && r->plan.ranks > 1 &&
           !bench_sweep_is_oversubscribed(r);
}

static bool is_rounded(const bench_sweep_row *r)
{
    return r->status == SWEEP_DONE && bench_sweep_loss(r) == SWEEP_LOSS_ROUNDING;
}

static const char *of_loose(bench_sweep *s)
{
    uint32_t n, pinned = 0;
    const char *names = which(s, is_loose, &n);
    for (uint32_t i = 0; i < s->rows.n; i++)
        pinned += s->rows.at[i].status == SWEEP_DONE && bench_sweep_is_pinned(&s->rows.at[i]);
    if (!n || !pinned)
        return NULL;
    return pool_printf(&s->pool,
                       "ranks of combinations %s were not bound to cores, those of others were: "
                       "the logs of the runs say why",
                       names);
}

static const char *of_rounding(bench_sweep *s)
{
    uint32_t n;
    const char *names = which(s, is_rounded, &n);
    if (!n)
        return NULL;
    return pool_printf(&s->pool,
                       "losses of combinations %s leave those of one rank after a step that "
                       "agrees, as rounding in 16-bit types does; train.precision = fp32 decides",
                       names);
}

static const char *of_load(bench_sweep *s)
{
    uint32_t n;
    double max = 0;
    const char *names = which(s, is_loaded, &n);
    for (uint32_t i = 0; i < s->rows.n; i++)
        max = is_loaded(&s->rows.at[i]) && s->rows.at[i].other_cores > max
                  ? s->rows.at[i].other_cores
                  : max;
    if (!n)
        return NULL;
    return pool_printf(&s->pool,
                       "other programs kept up to %.1f of %u processors busy during runs of "
                       "combinations %s: measure again on a quiet machine",
                       max, cli_cpus(), names);
}

static const char *of_noise(bench_sweep *s)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < s->rows.n; i++)
        done += s->rows.at[i].status == SWEEP_DONE;
    if (done && s->repeats == 1)
        return "each combination has one run: how far numbers scatter is unknown, and all share a "
               "place; set sweep.repeats to 3 or more";
    if (!(s->noise > NOISY))
        return NULL;
    return pool_printf(&s->pool,
                       "runs of one combination scatter by %.0f %% (the usual deviation): only "
                       "larger differences mean anything; more repeats or steps, or a quiet "
                       "machine, show smaller ones",
                       100 * s->noise);
}

const char *bench_sweep_warning(bench_sweep *s, uint32_t i)
{
    const char *(*const all[])(bench_sweep * s) = {of_oversubscribed, of_loose, of_load,
                                                   of_rounding, of_noise};
    for (uint32_t k = 0; k < sizeof all / sizeof *all; k++) {
        const char *text = all[k](s);
        if (text && !i--)
            return text;
    }
    return NULL;
}
