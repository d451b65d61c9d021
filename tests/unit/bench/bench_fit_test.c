/* Costs out of measurements: what made-up links cost is found again, noise or not, and a solution
 * below zero is never taken. */
#include <math.h>

#include "base/number/rng.h"
#include "bench/fit.h"

#include <test.h>

#define POINTS 16

/* What tune.c measures: trains of messages from 8 bytes to 2 MiB, bursts of 8 to 128 messages. */
static sched_way way_of(uint32_t i)
{
    if (i < 10)
        return (sched_way){8, 8, 8.0 * (double)(8ull << 2 * i), 0};
    return (sched_way){1, (double)(8ull << (i - 10)), 8.0 * (double)(8ull << (i - 10)), 0};
}

static void measure(const sched_speed *s, double noise, uint64_t seed, bench_fit_point *out)
{
    const sched_cost c = {.intra = *s};
    for (uint32_t i = 0; i < POINTS; i++) {
        sched_terms t = {.intra = way_of(i)};
        double off = noise * (2 * rng_uniform(seed, i) - 1);
        out[i] = (bench_fit_point){t.intra, sched_seconds(&t, &c) * (1 + off)};
    }
}

static void is_near(double got, double want, double share)
{
    if (!(fabs(got - want) <= share * want))
        fail_msg("%.6g instead of %.6g", got, want);
}

static const sched_speed links[] = {
    {0.3e-6, 0.06e-6, 1.0 / 8e9}, /* shared memory */
    {12e-6, 1.5e-6, 1.0 / 2.5e9}, /* sockets of one machine */
    {1e-3, 20e-6, 1.0 / 25e6},    /* a slow network far away */
    {2e-6, 0.2e-6, 1.0 / 25e9},
};

TEST(exact_measurements_give_the_costs_back)
{
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        bench_fit_point p[POINTS];
        measure(&links[i], 0, 0, p);
        sched_speed got = bench_fit_speed(p, POINTS);
        is_near(got.latency, links[i].latency, 1e-6);
        is_near(got.message, links[i].message, 1e-6);
        is_near(got.per_byte, links[i].per_byte, 1e-6);
    }
}

TEST(noise_moves_them_little)
{
    for (uint64_t seed = 1; seed <= 50; seed++)
        for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
            bench_fit_point p[POINTS];
            measure(&links[i], 0.05, seed, p);
            sched_speed got = bench_fit_speed(p, POINTS);
            is_near(got.latency, links[i].latency, 0.1);
            is_near(got.message, links[i].message, 0.15);
            is_near(got.per_byte, links[i].per_byte, 0.1);
        }
}

TEST(nothing_is_below_zero)
{
    bench_fit_point p[POINTS];
    for (uint32_t i = 0; i < POINTS; i++) { /* longer messages take less: no such link */
        p[i].way = way_of(i);
        p[i].seconds = 1e-3 / (1 + (double)i);
    }
    sched_speed got = bench_fit_speed(p, POINTS);
    assert_true(got.latency >= 0 && got.message >= 0 && got.per_byte >= 0);
    assert_true(got.latency + got.message + got.per_byte > 0);

    measure(&(sched_speed){5e-6, 0, 1e-9}, 0.05, 7, p); /* messages in a burst cost nothing */
    got = bench_fit_speed(p, POINTS);
    assert_true(got.message >= 0 && got.message < 0.1e-6);
    is_near(got.latency, 5e-6, 0.1);
}

TEST(one_kind_of_point_is_enough)
{
    bench_fit_point p[POINTS];
    measure(&links[1], 0, 0, p);
    sched_speed got = bench_fit_speed(p, 10); /* trains alone say nothing of further messages */
    is_near(got.latency, links[1].latency, 1e-6);
    is_near(got.per_byte, links[1].per_byte, 1e-6);
    assert_true(got.message == 0);
}

TEST(medians)
{
    assert_true(bench_fit_median((double[]){3, 1, 900}, 3) == 3);
    assert_true(bench_fit_median((double[]){4, 1, 2, 900}, 4) == 3);
    assert_true(bench_fit_median((double[]){5}, 1) == 5);
}
