/* bench/sweep/rank.c: how the rows that have run compare (see sweep.h, noise.h).
 *
 * Rows are ranked by their median. The fastest begins rank 1; a row that cannot be told apart from
 * the one that began the rank shares it, the first that can begins the next one, whose number
 * counts all rows before it. Efficiency of scaling is the rate of a rank over that of the fastest
 * row with the fewest ranks, among the rows of which one rank computes the same job. */
#include "bench/sweep/noise.h"
#include "bench/sweep/sweep.h"

#include <math.h>
#include <stdlib.h>

typedef struct entrant {
    bench_sweep_row *row;
    bench_noise_row noise;
} entrant;

static int by_median(const void *x, const void *y)
{
    const entrant *const *a = x, *const *b = y;
    const double ma = (*a)->noise.median, mb = (*b)->noise.median;
    if (ma != mb)
        return ma > mb ? -1 : 1;
    return (*a)->row->number < (*b)->row->number ? -1 : 1;
}

static void give_ranks(entrant **order, uint32_t n, double range)
{
    const entrant *head = NULL;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!head || bench_noise_apart(&head->noise, &order[i]->noise, range)) {
            head = order[i];
            rank = i + 1;
        }
        order[i]->row->standing.rank = rank;
    }
}

/* The rate of a rank that efficiency is measured by: of the fewest ranks, the fastest. */
static double best_of_fewest(const entrant *all, uint32_t n, const bench_sweep_row *r)
{
    const entrant *best = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const entrant *e = &all[i];
        if (e->row->reference != r->reference)
            continue;
        if (!best || e->row->plan.ranks < best->row->plan.ranks ||
            (e->row->plan.ranks == best->row->plan.ranks && e->noise.median > best->noise.median))
            best = e;
    }
    return best ? best->noise.median / best->row->plan.ranks : NAN;
}

static void give_standing(bench_sweep *s, const entrant *all, uint32_t n, const entrant *e)
{
    bench_sweep_standing *v = &e->row->standing;
    const double far = exp(NOISE_Z * e->noise.deviation);
    v->low = e->noise.median / far;
    v->high = e->noise.median * far;
    v->efficiency = e->noise.median / e->row->plan.ranks / best_of_fewest(all, n, e->row);
    v->ratio = v->rlow = v->rhigh = NAN;
    for (uint32_t i = 0; i < n; i++)
        if (s->baseline >= 0 && all[i].row == &s->rows.at[s->baseline])
            v->ratio = bench_noise_ratio(&e->noise, &all[i].noise, &v->rlow, &v->rhigh);
    if (s->baseline >= 0 && e->row == &s->rows.at[s->baseline])
        v->rlow = v->rhigh = 1;
}

static double usual_noise(const entrant *all, uint32_t n)
{
    double *v = mem_alloc((n + 1) * sizeof *v);
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(all[i].noise.run))
            v[known++] = all[i].noise.run;
    const double m = known ? bench_noise_median(v, known) : NAN;
    free(v);
    return m;
}

void bench_sweep_rank_rows(bench_sweep *s)
{
    entrant *all = mem_alloc((s->rows.n + 1) * sizeof *all);
    entrant **order = mem_alloc((s->rows.n + 1) * sizeof *order);
    bench_noise_row *noise = mem_alloc((s->rows.n + 1) * sizeof *noise);
    double *rates = mem_alloc((s->rows.n * s->repeats + 1) * sizeof *rates), *at = rates;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->rows.n; i++) {
        bench_sweep_row *r = &s->rows.at[i];
        r->standing = (bench_sweep_standing){0};
        if (r->status != SWEEP_DONE || !r->samples)
            continue;
        noise[n] = (bench_noise_row){.rate = at, .n = r->samples, .group = r->plan.ranks};
        for (uint32_t k = 0; k < r->samples; k++)
            *at++ = bench_sweep_run_rate(r, k);
        all[n++].row = r;
    }
    bench_sweep_find_peaks(s);
    const double range = bench_noise_find(noise, n);
    for (uint32_t i = 0; i < n; i++) {
        all[i].noise = noise[i];
        order[i] = &all[i];
    }
    qsort(order, n, sizeof *order, by_median);
    give_ranks(order, n, range);
    for (uint32_t i = 0; i < n; i++)
        give_standing(s, all, n, &all[i]);
    s->noise = usual_noise(all, n);
    free(rates);
    free(noise);
    free(order);
    free(all);
}
