/* ops_test.c: every op but the products against the reference, at odd sizes. */
#include "sweep.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

static const struct sizes rows[] = {
    {.tokens = 1, .cols = 1, .bias = 1},
    {.tokens = 3, .cols = 7},
    {.tokens = 7, .cols = 17, .bias = 1},
    {.tokens = 65, .cols = 65},
    {.tokens = 17, .cols = 257, .bias = 1},
    {.tokens = 600, .cols = 96, .bias = 1},
    {.tokens = 5, .cols = 1100},
    {.tokens = 9, .cols = 96},
};

TEST(test_rows)
{
    CHECK_ALL(rows, 0, "gelu", "gelu.dx", "bias_residual", "swiglu", "swiglu.dx");
    CHECK_ALL(rows, 1, "colsum");
}

/* A row of one feature has no variance: all that is left is rounding. */
static const struct sizes norms[] = {
    {.tokens = 1, .cols = 3},
    {.tokens = 3, .cols = 7},
    {.tokens = 7, .cols = 17},
    {.tokens = 65, .cols = 65},
    {.tokens = 17, .cols = 257},
    {.tokens = 600, .cols = 96},
    {.tokens = 5, .cols = 1100},
    {.tokens = 3, .cols = 1600},
    {.tokens = 2, .cols = 2101},
    {.tokens = 1, .cols = 4609},
    {.tokens = 1, .cols = 36872},
    {.tokens = 7, .heads = 3, .cols = 17},
    {.tokens = 65, .heads = 4, .cols = 64},
};

TEST(test_norms)
{
    CHECK_ALL(norms, 0, "layernorm", "layernorm.dx");
    CHECK_ALL(norms, 1, "layernorm.dw");
    CHECK_ALL(norms, 0, "rmsnorm", "rmsnorm.dx");
    CHECK_ALL(norms, 1, "rmsnorm.dw");
}

static const struct sizes tables[] = {
    {.tokens = 1, .cols = 1, .vocab = 1},
    {.tokens = 7, .cols = 17, .vocab = 3, .first = 1},
    {.tokens = 65, .cols = 96, .vocab = 11},
    {.tokens = 300, .cols = 300, .vocab = 257, .first = 7},
    {.tokens = 3, .cols = 2, .vocab = 70000},
    {.tokens = 9000, .cols = 2, .vocab = 40},
};

TEST(test_embedding)
{
    CHECK_ALL(tables, 0, "embedding");
    CHECK_ALL(tables, 1, "embedding.dw");
}

static const struct sizes heads[] = {
    {.tokens = 1, .sequence = 1, .heads = 1, .dim = 1},
    {.tokens = 3, .sequence = 1, .heads = 3, .dim = 24, .causal = 1},
    {.tokens = 10, .sequence = 5, .heads = 3, .dim = 64, .causal = 1},
    {.tokens = 10, .sequence = 5, .heads = 3, .dim = 24},
    {.tokens = 66, .sequence = 33, .heads = 2, .dim = 64, .causal = 1},
    {.tokens = 33, .sequence = 33, .heads = 3, .dim = 17},
    {.tokens = 130, .sequence = 130, .heads = 3, .dim = 64, .causal = 1},
    {.tokens = 130, .sequence = 130, .heads = 2, .dim = 24},
    {.tokens = 256, .sequence = 64, .heads = 2, .dim = 64, .causal = 1},
    {.tokens = 200, .sequence = 200, .heads = 1, .dim = 128, .causal = 1},
    {.tokens = 40, .sequence = 40, .heads = 1, .dim = 520, .causal = 1},
};

TEST(test_attention)
{
    CHECK_ALL(heads, 0, "attention", "attention.dx");
}

/* Groups of one, of some and of all heads; sequences that leave blocks of queries and keys open. (A
 * sequence of few tokens has gradients of queries that are little but rounding.) */
static const struct sizes groups[] = {
    {.tokens = 7, .sequence = 7, .heads = 1, .kv_heads = 1, .dim = 9},
    {.tokens = 12, .sequence = 6, .heads = 6, .kv_heads = 3, .dim = 5, .causal = 1},
    {.tokens = 10, .sequence = 5, .heads = 4, .kv_heads = 2, .dim = 24},
    {.tokens = 66, .sequence = 33, .heads = 6, .kv_heads = 2, .dim = 64, .causal = 1},
    {.tokens = 33, .sequence = 33, .heads = 5, .kv_heads = 1, .dim = 17, .causal = 1},
    {.tokens = 130, .sequence = 130, .heads = 4, .kv_heads = 1, .dim = 32},
    {.tokens = 130, .sequence = 130, .heads = 3, .kv_heads = 3, .dim = 20, .causal = 1},
    {.tokens = 300, .sequence = 150, .heads = 4, .kv_heads = 2, .dim = 48, .causal = 1},
};

TEST(test_grouped)
{
    CHECK_ALL(groups, 0, "attention", "attention.dx");
}

/* Reach: far, to the token itself, behind the beginning of the sequence, and negative; blocks of
 * queries whose keys are all in later blocks, and blocks of keys that no query of a block sees. */
static const struct sizes reaches[] = {
    {.tokens = 1, .sequence = 1, .heads = 1, .dim = 8, .causal = 1, .reach = 1},
    {.tokens = 30, .sequence = 5, .heads = 3, .dim = 24, .causal = 1, .reach = 3},
    {.tokens = 66, .sequence = 33, .heads = 2, .dim = 64, .causal = 1, .reach = 40},
    {.tokens = 300, .sequence = 300, .heads = 2, .dim = 20, .causal = 1, .reach = 7},
    {.tokens = 300, .sequence = 300, .heads = 1, .dim = 64, .causal = 1, .reach = 150},
    {.tokens = 600, .sequence = 300, .heads = 1, .dim = 24, .causal = 1, .reach = 400},
    {.tokens = 42, .sequence = 7, .heads = 1, .kv_heads = 1, .dim = 9, .causal = 1, .reach = 2},
    {.tokens = 300,
     .sequence = 150,
     .heads = 4,
     .kv_heads = 2,
     .dim = 48,
     .causal = 1,
     .reach = 20},
    {.tokens = 260,
     .sequence = 260,
     .heads = 3,
     .kv_heads = 1,
     .dim = 17,
     .causal = 1,
     .reach = 130},
    {.tokens = 200, .sequence = 200, .heads = 2, .dim = 24, .reach = 60},
};

TEST(test_reach)
{
    if (!bench_is_cpu())
        skip(); /* the cuda device has no kernel for it */
    CHECK_ALL(reaches, 0, "attention", "attention.dx");
}

TEST(test_rope)
{
    CHECK_ALL(heads, 0, "rope");
}

static const struct sizes caches[] = {
    {.tokens = 1, .sequence = 1, .heads = 1, .dim = 1},
    {.tokens = 1, .sequence = 9, .heads = 3, .dim = 7, .first = 2},
    {.tokens = 3, .sequence = 9, .heads = 4, .kv_heads = 2, .dim = 16},
    {.tokens = 1, .sequence = 33, .heads = 12, .dim = 64, .first = 1},
    {.tokens = 5, .sequence = 130, .heads = 6, .kv_heads = 1, .dim = 65},
    {.tokens = 2, .sequence = 700, .heads = 4, .kv_heads = 4, .dim = 128},
};

TEST(test_caches)
{
    if (bench_is_cpu())
        CHECK_ALL(caches, 0, "cache.write", "attention.cached");
}

/* The product of one row has a kernel of its own. */
static const struct sizes single[] = {
    {.tokens = 1, .cols = 1, .inner = 1},
    {.tokens = 1, .cols = 17, .inner = 5, .bias = 1},
    {.tokens = 1, .cols = 768, .inner = 770},
    {.tokens = 1, .cols = 1003, .inner = 64, .bias = 1},
    {.tokens = 1, .cols = 50, .inner = 1537, .bias = 1},
    {.tokens = 1, .cols = 32, .inner = 3072},
};

TEST(test_single_row)
{
    CHECK_ALL(single, 0, "linear");
}

static const struct sizes placed[] = {
    {.tokens = 1, .sequence = 1, .heads = 1, .dim = 1, .placed = 1},
    {.tokens = 5, .sequence = 9, .heads = 3, .dim = 7, .placed = 1},
    {.tokens = 33, .sequence = 64, .heads = 4, .dim = 32, .placed = 1, .causal = 1},
};

TEST(test_placed_rope)
{
    if (bench_is_cpu())
        CHECK_ALL(placed, 0, "rope");
}

static const struct sizes classes[] = {
    {.tokens = 1, .vocab = 1},    {.tokens = 3, .vocab = 11},
    {.tokens = 65, .vocab = 257}, {.tokens = 17, .vocab = 64, .valid = 50},
    {.tokens = 5, .vocab = 2600}, {.tokens = 4, .vocab = 2112, .valid = 2049},
    {.tokens = 2, .vocab = 9219}, {.tokens = 2, .vocab = 16416, .valid = 16411},
};

TEST(test_xent)
{
    CHECK_ALL(classes, 0, "softmax_xent", "softmax_xent.loss");
}

/* `valid` counts over the whole vocabulary, of which these are the columns from `first` on. */
static const struct sizes parts[] = {
    {.tokens = 1, .vocab = 1},
    {.tokens = 3, .vocab = 11, .first = 22, .valid = 30},
    {.tokens = 65, .vocab = 257, .first = 257, .valid = 1000},
    {.tokens = 5, .vocab = 2600, .first = 7},
    {.tokens = 9, .vocab = 300, .first = 300, .valid = 301},
    {.tokens = 2, .vocab = 16416, .first = 16416, .valid = 32827},
};

static const struct sizes padding_alone[] = {
    {.tokens = 17, .vocab = 64, .first = 640, .valid = 600}};

TEST(test_vocab)
{
    CHECK_ALL(parts, 0, "xent.max", "xent.sums", "xent.finish", "xent.loss");
    CHECK_ALL(padding_alone, 0, "xent.sums", "xent.finish");
}

static const struct sizes flats[] = {
    {.tokens = 1, .cols = 1},
    {.tokens = 1, .cols = 17},
    {.tokens = 65, .cols = 257},
    {.tokens = 3, .cols = 22001},
};

TEST(test_flat)
{
    CHECK_ALL(flats, 1, "accumulate", "sumsq");
}

/* Before, along and behind the axis: one number, rows, columns, pieces of a long axis, and columns
 * that leave vectors and blocks open. */
static const struct sizes axes[] = {
    {.tokens = 1, .inner = 1, .cols = 1},      {.tokens = 1, .inner = 7, .cols = 1},
    {.tokens = 5, .inner = 3, .cols = 2},      {.tokens = 9, .inner = 17, .cols = 12},
    {.tokens = 33, .inner = 65, .cols = 1},    {.tokens = 2, .inner = 1, .cols = 35},
    {.tokens = 2, .inner = 300, .cols = 515},  {.tokens = 1, .inner = 1030, .cols = 1100},
    {.tokens = 3, .inner = 140001, .cols = 1}, {.tokens = 1, .inner = 40000, .cols = 5},
    {.tokens = 2, .inner = 3, .cols = 70001},  {.tokens = 20001, .inner = 9, .cols = 1},
};

TEST(test_axes)
{
    if (!bench_is_cpu())
        skip();
    CHECK_ALL(axes, 1, "sum_axis");
    CHECK_ALL(axes, 0, "max_axis", "broadcast", "repeat");
}

/* Where the largest is not a number, or there is none above minus infinity. */
TEST(test_strange_maxima)
{
    if (!bench_is_cpu())
        skip();
    for (const char *const *isa = bench_isas(); *isa; isa++) {
        struct bench b;
        assert_int_equal(bench_open(&b, *isa, 2), WEFT_OK);
        for (int64_t inner = 1; inner < 8; inner += 6)
            for (int64_t at = 0; at < 37; at++) {
                const struct sizes n = {.tokens = 2, .inner = 37, .cols = inner};
                check_call c;
                void *got[WEFT_MAX_OPERANDS];
                make_call(&c, "max_axis", &n, WEFT_F32, WEFT_F32);
                c.x[0][at * inner] = NAN;
                for (int64_t k = 0; k < 37; k++)
                    c.x[0][(37 + k) * inner] = k < at ? -3e38 : -INFINITY;
                reference(&c);
                device_run(&b, &c, got);
                for (int64_t i = 0; i < 2 * inner; i++)
                    if (((float *)got[0])[i] != (float)c.y[0][i] && !isnan(c.y[0][i]))
                        fail_msg("maximum %lld of 37 by %lld: %g, should be %g", (long long)i,
                                 (long long)inner, (double)((float *)got[0])[i], c.y[0][i]);
                assert_true(isnan(((float *)got[0])[0]) && isnan(c.y[0][0]));
                assert_true(!isfinite(c.y[0][inner]) == (at == 0));
                free(got[0]);
                check_call_end(&c);
            }
        bench_close(&b);
    }
}

/* --- cast, from each type to each --- */

static const uint32_t all_types[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I32, WEFT_U8};
/* No subnormal bf16: AVX512-BF16 makes zeros of them. */
static const double edges[] = {
    0.0,   -0.0,  0.5,      1.5,  2.5,       -0.5, -1.5,    254.5,     255.5,
    300.0, -1.0,  1e9,      -1e9, 3e9,       -3e9, 65519.0, 65520.0,   2147483520.0,
    1e38,  -1e38, INFINITY, NAN,  -INFINITY, 1e-7, 1e-30,   8388609.0, -2147483648.0};

static int is_whole(uint32_t dtype)
{
    return dtype == WEFT_I32 || dtype == WEFT_U8;
}

static void check_cast(struct bench *b, uint32_t from, uint32_t to, int64_t n)
{
    check_call c = {.id = "cast"};
    void *got[WEFT_MAX_OPERANDS];
    const int64_t max = is_whole(to) ? 400 : 1 << 24; /* larger ones go by way of fp32 */
    add_input(&c, from, 1, &n, from == WEFT_U8 ? 0 : -max, from == WEFT_U8 ? 256 : max);
    for (int64_t i = 0; i < n && i < (int64_t)(sizeof edges / sizeof *edges); i++)
        if (from != WEFT_U8 && (from != WEFT_I32 || fabs(edges[i]) <= 0x1p24))
            c.x[0][i] = check_operand_rounded(from, edges[i]);
    add_output(&c, to, 1, &n);
    c.attrs[c.nattr++] = (weft_attr)WEFT_ATTR_INT("dtype", to);
    device_run(b, &c, got);
    double *have = malloc((size_t)n * sizeof *have);
    decode(have, to, got[0], n);
    for (int64_t i = 0; i < n; i++) {
        const double want = check_reference_cast(to, c.x[0][i]);
        if (have[i] != want && !(isnan(have[i]) && isnan(want)))
            fail_msg("cast from type %u to %u on %s: %.9g became %.9g, should be %.9g", from, to,
                     b->isa, c.x[0][i], have[i], want);
    }
    free(have);
    free(got[0]);
    check_call_end(&c);
}

TEST(test_cast)
{
    static const int64_t sizes[] = {1, 29, 256, 300, 140001};
    if (!bench_is_cpu())
        skip();
    for (const char *const *isa = bench_isas(); *isa; isa++) {
        struct bench b;
        assert_int_equal(bench_open(&b, *isa, 2), WEFT_OK);
        for (int from = 0; from < 5; from++)
            for (int to = 0; to < 5; to++)
                for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
                    check_cast(&b, all_types[from], all_types[to], sizes[k]);
        bench_close(&b);
    }
}

/* Rows of whole vectors and others, more and fewer than threads. */
static const struct sizes orders[] = {
    {.tokens = 1, .heads = 1, .dim = 1},     {.tokens = 5, .heads = 3, .dim = 7},
    {.tokens = 2, .heads = 96, .dim = 16},   {.tokens = 96, .heads = 2, .dim = 64},
    {.tokens = 3, .heads = 4, .dim = 20000},
};

TEST(test_interchange)
{
    CHECK_ALL(orders, 0, "interchange");
}

/* The gradient may lie over the logits, and other results over an operand of their shape. */
TEST(test_in_place)
{
    static const struct {
        const char *id;
        int over;
    } ops[] = {{"softmax_xent", 1}, {"gelu", 1},         {"gelu.dx", 1},    {"bias_residual", 3},
               {"layernorm", 1},    {"layernorm.dx", 1}, {"gelu.dx", 2},    {"swiglu.dx", 1},
               {"rope", 1},         {"xent.finish", 1},  {"cache.write", 1}};
    const struct sizes n = {
        .tokens = 33, .cols = 300, .vocab = 300, .sequence = 11, .heads = 3, .dim = 35};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (bench_is_cpu() || strcmp(ops[k].id, "cache.write"))
            sweep_in_place(ops[k].id, &n, ops[k].over);
}

/* Two that are ready at once, the one that wants less later, do not stand in each other's way. */
TEST(test_ready_at_once)
{
    const struct sizes large = {.tokens = 40, .sequence = 40, .heads = 1, .dim = 128},
                       small = {.tokens = 3, .sequence = 3, .heads = 1, .dim = 8};
    static const char *const ids[] = {"attention", "attention.dx"};
    struct bench b;
    assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
    for (int k = 0; k < 2; k++) {
        void *got[WEFT_MAX_OPERANDS];
        check_call c, beside;
        make_call(&c, ids[k], &large, WEFT_F32, WEFT_F32);
        make_call(&beside, ids[k], &small, WEFT_F32, WEFT_F32);
        b.beside = &beside;
        device_run(&b, &c, got);
        for (uint32_t i = 0; i < c.nout; i++)
            free(got[i]);
        check_call_end(&c);
        check_call_end(&beside);
    }
    bench_close(&b);
}
