/* run/view/ranks.c: see ranks.h. */
#include "run/view/ranks.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>

void run_ranks_begin(run_ranks *r, job *j, uint32_t rank, uint32_t ranks, uint64_t first)
{
    *r = (run_ranks){.job = ranks > 1 ? j : NULL, .rank = rank, .n = ranks, .next = first};
    r->all = mem_alloc(r->n * sizeof *r->all);
}

void run_ranks_free(run_ranks *r)
{
    free(r->all);
    *r = (run_ranks){0};
}

run_metrics_ranks run_ranks_sum(const run_ranks_part *all, uint32_t n, uint64_t steps)
{
    run_metrics_ranks out = {.steps = steps};
    double worked = -1;
    for (uint32_t p = 0; p < METRICS_PARTS; p++) {
        run_metrics_spread *x = &out.part[p];
        x->min = x->max = (double)all[0].part[p];
        for (uint32_t k = 0; k < n; k++) {
            const double v = (double)all[k].part[p];
            x->mean += v / n;
            x->min = v < x->min ? v : x->min;
            x->max_rank = v > x->max ? k : x->max_rank;
            x->max = v > x->max ? v : x->max;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        const float *ms = all[k].part;
        const double work = (double)ms[METRICS_COMPUTE] + (double)ms[METRICS_OPTIMIZER];
        out.slowest = work > worked ? k : out.slowest;
        worked = work > worked ? work : worked;
    }
    return out;
}

uint64_t run_ranks_distance(const run_ranks_part *all, uint32_t n)
{
    double cost = (double)all[0].cost_ms, step = 0;
    for (uint32_t k = 0; k < n; k++) {
        cost = (double)all[k].cost_ms < cost ? (double)all[k].cost_ms : cost;
        step = (double)all[k].part[METRICS_STEP] > step ? (double)all[k].part[METRICS_STEP] : step;
    }
    const double steps = cost / (RANKS_SHARE * step); /* not a number where no time has passed */
    return steps >= 0 && steps < RANKS_MAX ? 1 + (uint64_t)steps : RANKS_MAX;
}

static weft_status exchange(run_ranks *r, uint64_t step)
{
    run_ranks_part mine = {.cost_ms = (float)r->cost_ms};
    for (uint32_t p = 0; p < METRICS_PARTS; p++)
        mine.part[p] = (float)(r->sum[p] / (double)r->steps);
    const uint64_t began = clock_ns();
    const weft_status st = job_exchange(r->job, "times", &mine, sizeof mine, r->all);
    const double ms = (double)(clock_ns() - began) * 1e-6;
    r->cost_ms = r->cost_ms > 0 ? (r->cost_ms + ms) / 2 : ms;
    if (st != WEFT_OK)
        err_context("rank %u, after step %llu: the times of all ranks", r->rank,
                    (unsigned long long)step);
    return st;
}

weft_status run_ranks_step(run_ranks *r, run_metrics *m)
{
    if (!r->job)
        return WEFT_OK;
    const double part[METRICS_PARTS] = {m->step_ms,           m->compute_ms,
                                        m->exposed_comm_ms,   m->bubble_ms,
                                        m->optimizer_ms,      (double)m->resident_bytes,
                                        (double)m->comm_bytes};
    r->steps++;
    for (uint32_t p = 0; p < METRICS_PARTS; p++)
        r->sum[p] += part[p];
    if (m->step < r->next)
        return WEFT_OK;
    const bool first = r->cost_ms <= 0;
    const weft_status st = exchange(r, m->step);
    if (st != WEFT_OK)
        return st;
    m->ranks = run_ranks_sum(r->all, r->n, r->steps);
    r->next = m->step + (first ? 1 : run_ranks_distance(r->all, r->n));
    r->steps = 0;
    for (uint32_t p = 0; p < METRICS_PARTS; p++)
        r->sum[p] = 0;
    return WEFT_OK;
}
