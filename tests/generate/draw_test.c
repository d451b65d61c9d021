/* draw_test.c: draws of tokens against the plainest way to do them: sort everything. */
#include "saved/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <test.h>

#include "base/number/rng.h"

enum { LIMIT = 300, LONG = 3000 };

static int falling(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The smallest logit that is kept, by a sorted copy. */
static float naive_least(const saved_draw *d, const float *logits, int n)
{
    float sorted[LIMIT];
    double all = 0, sum = 0;
    int kept = n, i = 0;
    memcpy(sorted, logits, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, falling);
    if (d->top && d->top < (uint64_t)n)
        kept = (int)d->top;
    while (kept < n && sorted[kept] == sorted[kept - 1])
        kept++;
    for (int k = 0; k < kept; k++)
        all += exp((double)(sorted[k] - sorted[0]) / d->temperature);
    if (d->mass >= 1)
        return sorted[kept - 1];
    for (; i < kept && sum < d->mass * all; i++)
        sum += exp((double)(sorted[i] - sorted[0]) / d->temperature);
    return sorted[i ? i - 1 : 0];
}

static int32_t naive(const saved_draw *d, const float *logits, int n, uint64_t number)
{
    const float least = naive_least(d, logits, n);
    float max = logits[0];
    double sum = 0;
    for (int i = 1; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < n; i++)
        sum += logits[i] < least ? 0 : exp((double)(logits[i] - max) / d->temperature);
    double mark = rng_uniform(rng_key(d->seed, "sample"), number) * sum;
    for (int i = 0; i < n; i++) {
        mark -= logits[i] < least ? 0 : exp((double)(logits[i] - max) / d->temperature);
        if (mark < 0 && logits[i] >= least)
            return i;
    }
    return -1;
}

/* Logits of few values, so that there are equal ones. */
static void fill(float *logits, int n, uint64_t seed, int values)
{
    for (int i = 0; i < n; i++)
        logits[i] = (float)floor(rng_uniform(rng_key(seed, "logits"), (uint64_t)i) * values) * 8 /
                    (float)values;
}

TEST(test_kept)
{
    static const double masses[] = {1, 0.999, 0.9, 0.5, 0.01};
    static const uint64_t tops[] = {0, 1, 2, 7, 50, LIMIT};
    float logits[LIMIT];
    double room[LIMIT];
    for (uint64_t seed = 0; seed < 12; seed++)
        for (size_t m = 0; m < sizeof masses / sizeof *masses; m++)
            for (size_t k = 0; k < sizeof tops / sizeof *tops; k++) {
                const saved_draw d = {seed % 2 ? 0.7 : 1.3, tops[k], masses[m], seed};
                const int n = seed % 3 ? LIMIT : 5;
                fill(logits, n, seed, seed % 4 ? 1 << 20 : 10);
                for (uint64_t i = 0; i < 40; i++)
                    assert_int_equal(saved_draw_token(&d, logits, (uint64_t)n, i, room),
                                     naive(&d, logits, n, i));
            }
}

TEST(test_greedy)
{
    const float logits[] = {1, 3, 2, 3};
    double room[4];
    const saved_draw d = {0, 2, 0.5, 9}, one = {5, 1, 1, 9};
    assert_int_equal(saved_draw_token(&d, logits, 4, 0, room), 1);
    for (uint64_t i = 0; i < 50; i++) /* equal logits stay together */
        assert_int_equal(saved_draw_token(&one, logits, 4, i, room) % 2, 1);
}

/* Frequencies are the probabilities: 10,000 draws, five standard deviations. */
TEST(test_frequencies)
{
    const float logits[] = {0, 1, 2, 3};
    const saved_draw d = {2, 0, 1, 4};
    double room[4];
    int seen[4] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < 10000; i++)
        seen[saved_draw_token(&d, logits, 4, i, room)]++;
    for (int i = 0; i < 4; i++)
        sum += exp(logits[i] / 2);
    for (int i = 0; i < 4; i++) {
        const double p = exp(logits[i] / 2) / sum;
        assert_true(fabs(seen[i] - 10000 * p) < 5 * sqrt(10000 * p * (1 - p)));
    }
}

/* Beside libm in double precision. */
static void expect_log_probabilities(const float *logits, int n)
{
    double sum = 0, found = 0;
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i]);
    for (int i = 0; i < n; i++) {
        const double log_p = saved_draw_log_probability(logits, (uint64_t)n, i);
        assert_true(fabs(log_p - ((double)logits[i] - log(sum))) < 1e-6);
        found += exp(log_p);
    }
    assert_true(fabs(found - 1) < 1e-6);
}

TEST(test_log_probability)
{
    static const int counts[] = {1, 2, 7, 8, 9, 64, 299, 1500, LONG};
    static const double spans[] = {1e-3, 1, 20, 400};
    static float logits[LONG];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t k = 0; k < sizeof spans / sizeof *spans; k++) {
            for (int i = 0; i < counts[c]; i++)
                logits[i] =
                    (float)((rng_uniform(rng_key(c, "logits"), (uint64_t)i) - 0.5) * spans[k]);
            expect_log_probabilities(logits, counts[c]);
        }
}

/* The first of the largest, wherever it is. */
TEST(test_likeliest)
{
    const saved_draw d = {0, 0, 1, 1};
    float logits[40];
    double room[40];
    for (int n = 1; n <= 40; n++)
        for (int at = 0; at < n; at++) {
            for (int i = 0; i < n; i++)
                logits[i] = i == at || i == n - 1 ? 2 : i % 2 ? -INFINITY : -3;
            assert_int_equal(saved_draw_token(&d, logits, (uint64_t)n, 0, room), at);
        }
}
