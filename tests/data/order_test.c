/* Is an epoch a permutation, and has each data set of a mixture its share after every sample? */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <test.h>

#include "mixture.h"
#include "sets.h"
#include "source.h"

static uint64_t state_of = 88172645463325252ull;

static uint64_t number(uint64_t below)
{
    state_of ^= state_of << 13;
    state_of ^= state_of >> 7;
    state_of ^= state_of << 17;
    return state_of % below;
}

/* Every number once, for every size up to 2000, some larger ones, and several epochs. */
TEST(an_epoch_is_a_permutation)
{
    static const uint64_t larger[] = {4095, 4096, 4097, 65536, 99999, 1000003};
    const uint64_t key = source_order_key(3);
    uint8_t *seen = malloc(1000003);
    assert_non_null(seen);
    for (uint64_t k = 1; k <= 2000 + sizeof larger / sizeof *larger; k++) {
        const uint64_t n = k <= 2000 ? k : larger[k - 2001];
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            memset(seen, 0, n);
            for (uint64_t i = 0; i < n; i++) {
                const uint64_t at = source_order_permute(key, epoch * 77, n, i);
                assert_true(at < n);
                assert_int_equal(seen[at]++, 0);
            }
        }
    }
    free(seen);
}

/* Sizes whose square root is on the edge of 32 bits: in range, and no two of many are one. */
TEST(large_sets_are_permuted)
{
    static const uint64_t sizes[] = {((uint64_t)1 << 32) - 1, ((uint64_t)1 << 32) + 1,
                                     (uint64_t)1 << 50, ((uint64_t)1 << 62) - 57};
    enum { DRAWS = 2000 };
    uint64_t at[DRAWS];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (uint64_t i = 0; i < DRAWS; i++) {
            at[i] = source_order_permute(9, 1, sizes[k], i);
            assert_true(at[i] < sizes[k]);
            for (uint64_t j = 0; j < i; j++)
                assert_true(at[j] != at[i]);
        }
}

/* Of few numbers each comes to each place equally often, over epochs and over seeds; and neighbours
 * part: chi-square with (n - 1)^2 degrees of freedom stays below its mean plus 5 deviations. */
TEST(places_are_uniform)
{
    enum { EPOCHS = 20000 };
    for (uint64_t n = 2; n <= 12; n++)
        for (int by_seed = 0; by_seed < 2; by_seed++) {
            double count[12][12] = {{0}}, chi = 0;
            for (uint64_t e = 0; e < EPOCHS; e++)
                for (uint64_t i = 0; i < n; i++)
                    count[i][source_order_permute(source_order_key(by_seed ? e : 5),
                                                  by_seed ? 0 : e, n, i)]++;
            const double want = (double)EPOCHS / (double)n, free = (double)((n - 1) * (n - 1));
            for (uint64_t i = 0; i < n; i++)
                for (uint64_t k = 0; k < n; k++)
                    chi += (count[i][k] - want) * (count[i][k] - want) / want;
            /* two rows of n = 2 count the same draws twice */
            if (chi > 2 * (free + 5 * __builtin_sqrt(2 * free) + 5))
                fail_msg("n %" PRIu64 ", by seed %d: chi-square %g", n, by_seed, chi);
        }
}

/* Numbers that checkpoints depend on from now on. */
TEST(the_order_stays)
{
    static const uint64_t want[2][8] = {{353, 237, 188, 517, 314, 213, 582, 460},
                                        {627, 258, 655, 231, 672, 571, 526, 662}};
    for (uint64_t e = 0; e < 2; e++)
        for (uint64_t i = 0; i < 8; i++)
            if (source_order_permute(source_order_key(11), e, 987, i) != want[e][i])
                fail_msg("epoch %" PRIu64 ", sample %" PRIu64 ": %" PRIu64, e, i,
                         source_order_permute(source_order_key(11), e, 987, i));
}

static void check_mixture(const uint64_t *weight, uint32_t n)
{
    mixture m;
    uint64_t had[64] = {0}, at, before;
    assert_int_equal(mixture_open(&lone_host, "data.train", weight, n, &m), WEFT_OK);
    for (at = 0; at < 2 * m.period + 5; at++) {
        const uint32_t i = mixture_turn(&m, at, &before);
        assert_true(i < n);
        assert_int_equal(before, had[i]++);
        for (uint32_t k = 0; k < n; k++) {
            const double share = (double)(at + 1) * (double)weight[k] / (double)m.period;
            if (!((double)had[k] - share < 1 && share - (double)had[k] < 1))
                fail_msg("set %" PRIu32 " of %" PRIu32 " has %" PRIu64 " of %" PRIu64
                         " samples, and a share of %g",
                         k, n, had[k], at + 1, share);
        }
    }
    mixture_close(&m);
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    return b ? divisor(b, a % b) : a;
}

TEST(each_set_has_its_share)
{
    static const uint64_t some[][4] = {{7, 3}, {1}, {1, 1, 1}, {97, 1, 1, 1}, {1, 2, 4, 8}};
    check_mixture(some[0], 2);
    check_mixture(some[1], 1);
    check_mixture(some[2], 3);
    check_mixture(some[3], 4);
    check_mixture(some[4], 4);
    for (int k = 0; k < 300; k++) {
        uint64_t weight[64], common = 0;
        const uint32_t n = 2 + (uint32_t)number(k % 10 ? 6 : 63);
        for (uint32_t i = 0; i < n; i++) {
            weight[i] = 1 + number(number(2) ? 5 : 200);
            common = divisor(weight[i], common);
        }
        for (uint32_t i = 0; i < n; i++)
            weight[i] /= common;
        check_mixture(weight, n);
    }
    mixture m;
    const uint64_t fine[] = {MIXTURE_PERIOD, 1};
    lone_clear();
    assert_int_equal(mixture_open(&lone_host, "data.train", fine, 2, &m), WEFT_USAGE);
    assert_non_null(strstr(lone_why, "fewer digits"));
    assert_int_equal(lone_blocks, 0);
}
