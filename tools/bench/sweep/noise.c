/* bench/sweep/noise.c: see noise.h. */
#include "bench/sweep/noise.h"

#include "base/mem.h"
#include "base/number/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DRAWS 4000u
#define RANGES 2000u
#define FEW 6u    /* deviations: fewer are no pool */
#define RUNS 100u /* of a row, at most */

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

double bench_noise_median(double *v, uint32_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

static double median_of(const double *v, uint32_t n)
{
    double copy[RUNS];
    n = n < RUNS ? n : RUNS;
    memcpy(copy, v, n * sizeof *copy);
    return bench_noise_median(copy, n);
}

/* The relative deviations of rows of one group, or of all. */
typedef struct deviations {
    double *at; /* logarithms of rate / median, corrected for the median being of the same runs */
    uint32_t n, freedom;
    double spread; /* root of their mean square */
} deviations;

/* How much wider 95 % are with a deviation that was found from few values (Cornish and Fisher). */
static double widened(uint32_t freedom)
{
    const double z = NOISE_Z, d = freedom ? freedom : 1;
    const double one = (z * z * z + z) / 4, two = (5 * pow(z, 5) + 16 * z * z * z + 3 * z) / 96;
    return 1 + (one / d + two / (d * d)) / z;
}

static void add_row(deviations *d, const bench_noise_row *r)
{
    const uint32_t n = r->n < RUNS ? r->n : RUNS;
    for (uint32_t i = 0; n > 1 && i < n; i++) {
        const double x = log(r->rate[i] / r->median) * sqrt(n / (n - 1.0));
        d->at[d->n++] = x;
        d->spread += x * x;
    }
    d->freedom += n > 1 ? n - 1 : 0;
}

/* `one` of NULL: of all rows in `group`, or of all (UINT32_MAX). */
static void gather(deviations *d, const bench_noise_row *rows, uint32_t n,
                   const bench_noise_row *one, uint32_t group)
{
    d->n = d->freedom = 0;
    d->spread = 0;
    for (uint32_t i = 0; i < n; i++)
        if (one ? one == &rows[i] : group == UINT32_MAX || rows[i].group == group)
            add_row(d, &rows[i]);
    d->spread = d->n ? sqrt(d->spread / d->n) : NAN;
}

/* Deviation of the median of n values that are drawn from the pool. */
static double median_deviation(const deviations *d, uint32_t n)
{
    const uint64_t key = rng_key(n, "sweep");
    double sum = 0, draw[RUNS];
    uint64_t at = 0;
    for (uint32_t k = 0; k < DRAWS; k++) {
        for (uint32_t i = 0; i < n; i++)
            draw[i] = d->at[rng_below(key, at++, d->n)];
        const double m = bench_noise_median(draw, n);
        sum += m * m;
    }
    return sqrt(sum / DRAWS);
}

/* Deviations of medians that were found, by group and number of runs. */
#define KNOWN 32u
typedef struct known_pools {
    struct {
        uint32_t group, n;
        double deviation;
    } at[KNOWN];
    uint32_t n;
} known_pools;

static double known_deviation(known_pools *k, const deviations *d, uint32_t group, uint32_t runs)
{
    for (uint32_t i = 0; i < k->n && i < KNOWN; i++)
        if (k->at[i].group == group && k->at[i].n == runs)
            return k->at[i].deviation;
    const uint32_t i = k->n++ % KNOWN;
    k->at[i].group = group;
    k->at[i].n = runs;
    return k->at[i].deviation = median_deviation(d, runs);
}

static void find_row(bench_noise_row *rows, uint32_t n, bench_noise_row *r, deviations *d,
                     known_pools *k)
{
    deviations own = {.at = d->at};
    const uint32_t runs = r->n < RUNS ? r->n : RUNS;
    uint32_t group = r->group;
    gather(&own, rows, n, r, 0);
    const double alone = own.spread;
    gather(d, rows, n, NULL, group);
    if (d->n < FEW) {
        group = UINT32_MAX;
        gather(d, rows, n, NULL, group);
    }
    r->run = r->deviation = NAN;
    if (!d->n || !runs)
        return;
    const double each = known_deviation(k, d, group, runs);
    const double more = r->n > 1 && d->spread > 0 && alone > 2 * d->spread ? alone / d->spread : 1;
    r->run = d->spread * more;
    r->deviation = each * more * widened(d->freedom);
}

/* The range of n standard normal numbers that is not exceeded in 19 of 20 cases. */
static double usual_range(uint32_t n)
{
    double *range = mem_alloc(RANGES * sizeof *range);
    const uint64_t key = rng_key(n, "range");
    uint64_t at = 0;
    for (uint32_t k = 0; k < RANGES; k++) {
        double least = INFINITY, max = -INFINITY;
        for (uint32_t i = 0; i < n; i++) {
            const double x = rng_normal(key, at++);
            least = x < least ? x : least;
            max = x > max ? x : max;
        }
        range[k] = max - least;
    }
    qsort(range, RANGES, sizeof *range, by_value);
    const double q = range[RANGES * 19 / 20];
    free(range);
    return q;
}

double bench_noise_find(bench_noise_row *rows, uint32_t n)
{
    uint64_t runs = 0;
    for (uint32_t i = 0; i < n; i++) {
        rows[i].median = rows[i].n ? median_of(rows[i].rate, rows[i].n) : NAN;
        runs += rows[i].n;
    }
    deviations d = {.at = mem_alloc((runs + 1) * sizeof *d.at)};
    known_pools k = {0};
    for (uint32_t i = 0; i < n; i++)
        find_row(rows, n, &rows[i], &d, &k);
    free(d.at);
    return n > 1 ? usual_range(n < 500 ? n : 500) : INFINITY;
}

double bench_noise_ratio(const bench_noise_row *a, const bench_noise_row *b, double *low,
                         double *high)
{
    const double ratio = a->median / b->median;
    const double far = NOISE_Z * hypot(a->deviation, b->deviation);
    *low = ratio * exp(-far);
    *high = ratio * exp(far);
    return ratio;
}

bool bench_noise_apart(const bench_noise_row *a, const bench_noise_row *b, double range)
{
    const double far = fabs(log(a->median / b->median));
    const double each = hypot(a->deviation, b->deviation) / sqrt(2);
    return far > range * each; /* false for NAN */
}
