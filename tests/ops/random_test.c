/* random_test.c: random numbers and dropout of the cpu device: the published vectors of the
 * generator, the reference at odd sizes and for parts of a tensor, the same bits with every
 * instruction set, and what masks and numbers look like in number. */
#include "sweep.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "check/reference/philox.h"
#include "kern/random/philox.h"

/* Random123 1.14, examples/kat_vectors: philox 4x32 10. */
static const struct vector {
    uint32_t counter[4], key[2], words[4];
} vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(test_vectors)
{
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) {
        const struct vector *v = &vectors[k];
        uint32_t words[4];
        philox_block(v->counter, v->key, words);
        assert_memory_equal(words, v->words, sizeof words);
        vu c[4];
        for (int w = 0; w < 4; w++) /* other counters in the other lanes */
            c[w] = vu_set1(v->counter[w]) + (vu){0, 1, 2, 3};
        philox_words(c, (uint64_t)v->key[1] << 32 | v->key[0]);
        for (int w = 0; w < 4; w++)
            assert_int_equal(c[w][0], v->words[w]);
    }
}

static const struct sizes whole[] = {
    {.tokens = 1, .cols = 1},
    {.tokens = 3, .cols = 7, .bias = 1},
    {.tokens = 7, .cols = 17, .bias = 2, .causal = 1},
    {.tokens = 65, .cols = 65, .causal = 1},
    {.tokens = 17, .cols = 257, .bias = 1, .causal = 1},
    {.tokens = 600, .cols = 96, .bias = 2},
    {.tokens = 2, .cols = 9001, .bias = 1},
    {.tokens = 1, .cols = 20000},
};

/* With more of axis 1 (`heads`) and of the last axis (`valid`) on other ranks. */
static const struct sizes parts[] = {
    {.tokens = 3, .cols = 7, .valid = 1, .first = 5},
    {.tokens = 65, .cols = 96, .valid = 32, .first = 1000003, .bias = 2},
    {.tokens = 65, .cols = 96, .heads = 3, .first = 77, .bias = 1, .causal = 1},
    {.tokens = 20, .cols = 300, .heads = 1, .valid = 5, .first = 123456789012, .causal = 1},
    {.tokens = 5, .cols = 1100, .valid = 1100, .first = 1100, .bias = 2},
    {.tokens = 9, .cols = 30000, .valid = 1, .bias = 1},
};

TEST(test_reference)
{
    CHECK_ALL(whole, 0, "random", "dropout");
    CHECK_ALL(parts, 0, "random", "dropout");
}

TEST(test_in_place)
{
    const struct sizes n = {.tokens = 33, .cols = 300, .bias = 2};
    sweep_in_place("dropout", &n, 1);
    sweep_in_place("dropout", &n, 4);
}

/* A call on an instruction set; the caller frees the bytes. */
static void *run_on(const char *isa, const check_call *c)
{
    void *got[WEFT_MAX_OPERANDS];
    struct bench b;
    assert_int_equal(bench_open(&b, isa, 1), WEFT_OK);
    device_run(&b, c, got);
    bench_close(&b);
    return got[0];
}

TEST(test_same_bits)
{
    static const char *const ids[] = {"random", "dropout"};
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    for (int id = 0; id < 2; id++)
        for (int type = 0; type < 3; type++)
            for (size_t k = 0; k < sizeof whole / sizeof *whole; k++) {
                check_call c;
                make_call(&c, ids[id], &whole[k], types[type], types[type]);
                const size_t bytes = (size_t)check_operand_count(&c.out[0]) *
                                     (size_t)weft_dtype_size(c.out[0].dtype);
                void *plain = run_on(bench_isas()[0], &c);
                for (int i = 1; bench_isas()[i]; i++) {
                    void *wide = run_on(bench_isas()[i], &c);
                    assert_memory_equal(wide, plain, bytes);
                    free(wide);
                }
                free(plain);
                check_call_end(&c);
            }
}

/* --- what the numbers look like --- */

enum { TOKENS = 512, FEATURES = 512, MANY = TOKENS * FEATURES };

static void set_attr(check_call *c, const char *key, int64_t value)
{
    for (uint32_t k = 0; k < c->nattr; k++)
        if (strcmp(c->attrs[k].key, key) == 0)
            c->attrs[k].i = value;
}

/* `id` of TOKENS x FEATURES ones, or of numbers, at token `time`; the caller frees it. */
static float *drawn(const char *id, int normal, int64_t seed, const char *stream, double time)
{
    const struct sizes n = {.tokens = TOKENS, .cols = FEATURES, .causal = normal};
    const int dropout = strcmp(id, "dropout") == 0;
    check_call c;
    make_call(&c, id, &n, WEFT_F32, WEFT_F32);
    for (int64_t i = 0; dropout && i < MANY; i++)
        c.x[0][i] = 1;
    c.x[dropout][0] = time;
    set_attr(&c, "seed", seed);
    set_attr(&c, "stream", (int64_t)strlen(stream) << 32 | stream[0]);
    float *y = run_on("auto", &c);
    check_call_end(&c);
    return y;
}

/* Mean of the products of deviations over the variance; independent numbers have 0 within 5 of
 * their deviations, 1 / sqrt(MANY). */
static double correlation(const float *a, const float *b, int64_t n)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ma += a[i] / (double)n;
        mb += b[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    return ab / sqrt(aa * bb);
}

static void expect_near(const char *what, double got, double want, double deviation)
{
    if (!(fabs(got - want) <= 5 * deviation))
        fail_msg("%s is %.9g; %.9g is expected, within 5 times %.3g", what, got, want, deviation);
}

TEST(test_masks)
{
    const double once = 1 / sqrt((double)MANY);
    float *mask = drawn("dropout", 0, 1, "a", 1000);
    float *others[] = {drawn("dropout", 0, 1, "a", 1000 + TOKENS), /* the next micro-batch */
                       drawn("dropout", 0, 1, "b", 1000),          /* another layer */
                       drawn("dropout", 0, 2, "a", 1000)};         /* another seed */
    double kept = 0;
    for (int64_t i = 0; i < MANY; i++) {
        assert_true(mask[i] == 0 || fabs(mask[i] - 1 / 0.7) < 1e-6);
        kept += mask[i] != 0;
    }
    expect_near("the rate", kept / MANY, 0.7, sqrt(0.3 * 0.7) * once);
    for (int k = 0; k < 3; k++)
        expect_near("correlation of masks", correlation(mask, others[k], MANY), 0, once);
    static const int64_t lags[] = {1, 2, 16, 32, 64, FEATURES};
    for (int k = 0; k < 6; k++)
        expect_near("correlation of neighbours", correlation(mask, mask + lags[k], MANY - lags[k]),
                    0, once);
    free(mask);
    for (int k = 0; k < 3; k++)
        free(others[k]);
}

/* The next micro-batch goes on where this one ends. */
TEST(test_tokens_go_on)
{
    float *a = drawn("random", 0, 9, "a", 4000), *b = drawn("random", 0, 9, "a", 4000 + TOKENS / 2);
    assert_memory_equal(a + MANY / 2, b, MANY / 2 * sizeof *a);
    free(a);
    free(b);
}

/* Over seeds the mean of dropout is its input, in every place. */
TEST(test_mean_over_seeds)
{
    enum { SEEDS = 100 };
    static double sum[MANY];
    double worst = 0, all = 0;
    for (int64_t seed = 0; seed < SEEDS; seed++) {
        float *y = drawn("dropout", 0, seed, "mean", 0);
        for (int64_t i = 0; i < MANY; i++)
            sum[i] += y[i];
        free(y);
    }
    for (int64_t i = 0; i < MANY; i++) {
        all += sum[i] / SEEDS / MANY;
        worst = fmax(worst, fabs(sum[i] / SEEDS - 1));
    }
    const double deviation = sqrt(0.3 / 0.7); /* of one element */
    expect_near("the mean", all, 1, deviation / sqrt((double)SEEDS * MANY));
    assert_true(worst < 6.5 * deviation / sqrt((double)SEEDS)); /* of a quarter of a million */
}

/* Mean, variance, fourth moment; the share beyond 2, and the largest. */
TEST(test_normal)
{
    const double once = 1 / sqrt((double)MANY);
    double m1 = 0, m2 = 0, m4 = 0, beyond = 0, max = 0;
    float *x = drawn("random", 1, 3, "n", 0);
    for (int64_t i = 0; i < MANY; i++) {
        m1 += x[i] / (double)MANY;
        m2 += (double)x[i] * x[i] / MANY;
        m4 += pow(x[i], 4) / MANY;
        beyond += (fabs(x[i]) > 2) / (double)MANY;
        max = fmax(max, fabs(x[i]));
    }
    expect_near("the mean", m1, 0, once);
    expect_near("the variance", m2, 1, sqrt(2.0) * once);
    expect_near("the fourth moment", m4, 3, sqrt(96.0) * once);
    expect_near("the share beyond 2", beyond, 0.0455003, sqrt(0.0455 * 0.9545) * once);
    assert_true(max > 4 && max < 6.7);
    expect_near("correlation of pairs", correlation(x, x + 16, MANY - 16), 0, once);
    free(x);
}

TEST(test_uniform)
{
    const double once = 1 / sqrt((double)MANY);
    double m1 = 0, m2 = 0;
    int64_t cells[256] = {0};
    float *x = drawn("random", 0, 3, "u", 0);
    for (int64_t i = 0; i < MANY; i++) {
        assert_true(x[i] >= 0 && x[i] < 1);
        m1 += x[i] / (double)MANY;
        m2 += (double)x[i] * x[i] / MANY;
        cells[(int)(x[i] * 256)]++;
    }
    double square = 0; /* chi squared of 255 degrees, whose deviation is sqrt(510) */
    for (int k = 0; k < 256; k++)
        square += pow((double)cells[k] - MANY / 256, 2) / (MANY / 256);
    expect_near("the mean", m1, 0.5, sqrt(1 / 12.0) * once);
    expect_near("the mean square", m2, 1 / 3.0, sqrt(4 / 45.0) * once);
    expect_near("chi squared", square, 255, sqrt(510.0));
    free(x);
}

/* A dropped element is 0 whatever it was, and nothing is dropped at p = 0. */
TEST(test_extremes)
{
    const struct sizes n = {.tokens = 8, .cols = 100};
    check_call c;
    make_call(&c, "dropout", &n, WEFT_F32, WEFT_F32);
    for (int64_t i = 0; i < 800; i++)
        c.x[0][i] = i % 2 ? (double)NAN : (double)INFINITY;
    float *y = run_on("auto", &c);
    int64_t zeros = 0;
    for (int64_t i = 0; i < 800; i++) {
        zeros += y[i] == 0;
        assert_true(y[i] == 0 || !isfinite(y[i]));
    }
    assert_in_range(zeros, 150, 350);
    free(y);
    for (int64_t i = 0; i < 800; i++)
        c.x[0][i] = (double)i;
    c.attrs[c.nattr - 1].f = 0;
    y = run_on("auto", &c);
    for (int64_t i = 0; i < 800; i++)
        assert_true(y[i] == (float)i);
    free(y);
    check_call_end(&c);
}
