/* run_ranks_test.c: times of all ranks: who is slow, how far they are apart, how seldom they are
 * compared. */
#include <math.h>

#include <test.h>

#include "run/view/ranks.h"

static run_ranks_part part(float step, float compute, float exposed, float optimizer, float cost)
{
    return (run_ranks_part){{step, compute, exposed, 0, optimizer}, cost};
}

/* Rank 2 works the longest and waits the least. */
TEST(test_spread)
{
    const run_ranks_part all[] = {part(10, 4, 5, 1, 1), part(10.5f, 6, 3.5f, 1, 1),
                                  part(10, 7, 0.5f, 2.5f, 1), part(10, 5, 4, 1, 1)};
    const run_metrics_ranks r = run_ranks_sum(all, 4, 12);
    assert_int_equal(r.steps, 12);
    assert_int_equal(r.slowest, 2);
    assert_int_equal(r.part[METRICS_STEP].max_rank, 1);
    assert_int_equal(r.part[METRICS_EXPOSED].max_rank, 0);
    const run_metrics_spread *c = &r.part[METRICS_COMPUTE];
    assert_true(c->max == 7 && c->min == 4 && fabs(c->mean - 5.5) < 1e-12 && c->max_rank == 2);
    const run_metrics_spread *b = &r.part[METRICS_BUBBLE];
    assert_true(b->max == 0 && b->min == 0 && b->mean == 0 && b->max_rank == 0);
}

/* Compute alone does not decide: the optimizer is work, too. */
TEST(test_slow_optimizer)
{
    const run_ranks_part all[] = {part(10, 6, 3, 1, 1), part(10, 5, 0, 5, 1)};
    assert_int_equal(run_ranks_sum(all, 2, 1).slowest, 1);
}

/* The cost of an exchange stays below the share of the time until the next. */
TEST(test_distance)
{
    for (float cost = 0.01f; cost < 1000; cost *= 3)
        for (float step = 0.1f; step < 10000; step *= 7) {
            const run_ranks_part all[] = {part(step, 0, 0, 0, cost),
                                          part(step, 0, 0, 0, cost + 50)};
            const uint64_t n = run_ranks_distance(all, 2);
            const double share = (double)cost / ((double)n * (double)step);
            assert_true(n >= 1 && n <= RANKS_MAX);
            assert_true(share <= RANKS_SHARE * (1 + 1e-6) || n == RANKS_MAX);
            if (n > 2 && n < RANKS_MAX) /* and is not far below */
                assert_true(share >= RANKS_SHARE * 0.5);
        }
}

TEST(test_odd_times)
{
    const float odd[] = {0, NAN, INFINITY, -1};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            const run_ranks_part all[] = {part(odd[i], 0, 0, 0, odd[k])};
            const uint64_t n = run_ranks_distance(all, 1);
            assert_true(n >= 1 && n <= RANKS_MAX);
        }
}
