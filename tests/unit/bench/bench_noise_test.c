/* bench_noise_test.c: what bench_noise_find() and its kin say of rates whose true medians and
 * scatter are known, because they are drawn here. */
#include "bench/sweep/noise.h"

#include "base/number/rng.h"

#include <math.h>
#include <string.h>

#include <test.h>

#define ROWS 12u
#define LIMIT 7u
#define SWEEPS 100u

static double rates[ROWS][LIMIT];

/* Rows of `runs` runs that scatter by `noise`; the last row has the rate `last` of the others. */
static void draw(bench_noise_row *rows, uint32_t runs, double noise, double last, uint64_t number)
{
    const uint64_t key = rng_key(number, "noise test");
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t k = 0; k < runs; k++)
            rates[i][k] =
                1e5 * (i + 1 == ROWS ? last : 1) * exp(noise * rng_normal(key, i * LIMIT + k));
        rows[i] = (bench_noise_row){.rate = rates[i], .n = runs, .group = 2 + i % 2};
    }
}

/* Of SWEEPS sweeps, those in which the rows with the highest and lowest medians are told apart. */
static uint32_t told_apart(uint32_t runs, double noise, double last)
{
    uint32_t found = 0;
    for (uint32_t s = 0; s < SWEEPS; s++) {
        bench_noise_row rows[ROWS], *best = rows, *worst = rows;
        draw(rows, runs, noise, last, s);
        const double range = bench_noise_find(rows, ROWS);
        for (uint32_t i = 0; i < ROWS; i++) {
            best = rows[i].median > best->median ? &rows[i] : best;
            worst = rows[i].median < worst->median ? &rows[i] : worst;
        }
        found += bench_noise_apart(best, worst, range);
    }
    return found;
}

TEST(equal_rows_share_a_place)
{
    static const uint32_t runs[] = {2, 3, 5, 7};
    for (uint32_t i = 0; i < 4; i++) /* 5 are meant; 11 allow for chance */
        assert_in_range(told_apart(runs[i], 0.03, 1), 0, 11);
}

TEST(a_slow_row_is_found)
{
    assert_in_range(told_apart(3, 0.02, 0.85), 95, SWEEPS);
    assert_in_range(told_apart(5, 0.02, 0.9), 95, SWEEPS);
    assert_in_range(told_apart(3, 0.3, 0.85), 0, 20); /* but not where the noise is larger */
}

TEST(bounds_hold_the_truth)
{
    uint32_t within = 0;
    for (uint32_t s = 0; s < SWEEPS; s++) {
        bench_noise_row rows[ROWS];
        double low, high;
        draw(rows, 3, 0.05, 0.8, s);
        (void)bench_noise_find(rows, ROWS);
        const double ratio = bench_noise_ratio(&rows[ROWS - 1], &rows[0], &low, &high);
        assert_true(low < ratio && ratio < high);
        within += low <= 0.8 && 0.8 <= high;
    }
    assert_in_range(within, 90, SWEEPS);
}

TEST(one_run_says_nothing)
{
    bench_noise_row rows[ROWS];
    double low, high;
    draw(rows, 1, 0.01, 0.1, 0);
    const double range = bench_noise_find(rows, ROWS);
    assert_false(bench_noise_apart(&rows[0], &rows[ROWS - 1], range));
    assert_true(bench_noise_ratio(&rows[0], &rows[ROWS - 1], &low, &high) > 5);
    assert_true(isnan(low) && isnan(high) && isnan(rows[0].run));
}

/* One wild run of three does not move the median, and a row that is wild keeps its own scatter. */
TEST(outliers)
{
    bench_noise_row rows[ROWS];
    draw(rows, 5, 0.01, 1, 3);
    (void)bench_noise_find(rows, ROWS);
    const double before = rows[0].median, quiet = rows[1].deviation;
    for (uint32_t k = 0; k < 5; k++)
        rates[2][k] *= k % 2 ? 1.5 : 1;
    rates[0][0] *= 0.2;
    (void)bench_noise_find(rows, ROWS);
    assert_true(fabs(rows[0].median / before - 1) < 0.03);
    assert_true(rows[2].deviation > quiet);
}

TEST(equal_files_give_equal_numbers)
{
    bench_noise_row a[ROWS], b[ROWS];
    draw(a, 3, 0.1, 0.9, 7);
    memcpy(b, a, sizeof b);
    assert_true(bench_noise_find(a, ROWS) == bench_noise_find(b, ROWS));
    for (uint32_t i = 0; i < ROWS; i++)
        assert_true(a[i].deviation == b[i].deviation);
}
