/* Are normal numbers those of Box and Muller's formula, by libm in long double, whatever part of a
 * stream is asked for, and the same ones everywhere? */
#include <math.h>
#include <string.h>

#include "base/number/digest.h"
#include "base/number/rng.h"

#include <test.h>

static double uniform(uint32_t high, uint32_t low)
{
    return (double)(((uint64_t)high << 32 | low) >> 11);
}

static long double reference(uint64_t key, uint64_t index, long double *radius)
{
    uint32_t w[4];
    rng_words(key, index / 2, 1, w);
    const double u = (uniform(w[0], w[1]) + 0.5) * 0x1p-53; // fp64, which counts for ln near 1
    const long double turn = 2 * acosl(-1) * (uniform(w[2], w[3]) * 0x1p-53L);
    *radius = sqrtl(-2 * logl(u));
    return *radius * (index % 2 ? sinl(turn) : cosl(turn));
}

static void test_formula(void **state)
{
    (void)state;
    const uint64_t starts[] = {0, 0x1fffffc00, UINT64_MAX - 19999}; // counters of 32 and 64 bits
    for (uint32_t i = 0; i < 3; i++)
        for (uint64_t k = 0; k < 20000; k++) {
            const double x = rng_normal(7 + i, starts[i] + k);
            long double radius, want = reference(7 + i, starts[i] + k, &radius);
            assert_true(fabsl((long double)x - want) <= 4e-16L * radius);
        }
}

static void test_parts(void **state)
{
    (void)state;
    float got[402];
    for (uint64_t first = 0; first < 5; first++)
        for (uint64_t n = 0; n <= 400; n++) {
            got[n] = got[n + 1] = 77;
            rng_normals(5, first, n, 0.5f, got);
            for (uint64_t i = 0; i < n; i++)
                assert_true(got[i] == (float)(0.5 * rng_normal(5, first + i)));
            assert_true(got[n] == 77 && got[n + 1] == 77);
        }
}

/* The number is this function's own; another build or processor has to come to it, too. */
static void test_same_everywhere(void **state)
{
    (void)state;
    static float x[1 << 20];
    uint64_t digest = DIGEST_BEGIN;
    rng_normals(2026, 1, 1 << 20, 1, x);
    digest_mix(&digest, x, sizeof x);
    assert_int_equal(digest, 0x36128965b8b9105d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
