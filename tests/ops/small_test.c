/* small_test.c: every op once or twice at a small odd size, for tools that make each memory access
 * many times slower: the address sanitizer, which ops_test.c takes too long for, and
 * compute-sanitizer. */
#include "sweep.h"
#include <test.h>

static const struct sizes sizes[] = {
    {.tokens = 22,
     .cols = 33,
     .inner = 17,
     .heads = 6,
     .kv_heads = 2,
     .dim = 8,
     .sequence = 11,
     .vocab = 37,
     .valid = 30,
     .causal = 1,
     .bias = 1},
    {.tokens = 70,
     .cols = 96,
     .inner = 40,
     .heads = 2,
     .dim = 16,
     .sequence = 35,
     .vocab = 264,
     .bias = 1},
};

/* A list by hand: a new op with a cuda kernel goes here and into tests/cuda/traffic_test.c. */
TEST(test_all)
{
    CHECK_ALL(sizes, 0, "embedding", "layernorm", "layernorm.dx", "rmsnorm", "rmsnorm.dx", "linear",
              "linear.dx", "gelu", "gelu.dx", "bias_residual", "swiglu", "swiglu.dx", "rope",
              "attention", "attention.dx", "softmax_xent", "softmax_xent.loss", "interchange");
    CHECK_ALL(sizes, 1, "embedding.dw", "layernorm.dw", "rmsnorm.dw", "linear.dw", "colsum",
              "accumulate", "sumsq");
    if (bench_is_cpu()) {
        CHECK_ALL(sizes, 0, "max_axis", "broadcast", "repeat", "bmm", "bmm.dx");
        CHECK_ALL(sizes, 1, "sum_axis", "bmm.dw");
        return;
    }
    CHECK_ALL(sizes, 0, "linear+gelu", "linear+bias_residual", "linear.dx+gelu.dx");
    CHECK_ALL(sizes, 1, "linear.dw+colsum", "colsum+linear.dw");
}

/* Attention to what comes later, too. */
static const struct sizes both_ways[] = {
    {.tokens = 9, .heads = 6, .dim = 4, .sequence = 9},
    {.tokens = 9, .heads = 6, .kv_heads = 2, .dim = 17, .sequence = 9}};

TEST(test_both_ways)
{
    CHECK_ALL(both_ways, 0, "attention", "attention.dx");
}

static const struct sizes parts[] = {{.tokens = 9, .vocab = 300, .first = 300, .valid = 500}};

TEST(test_vocab)
{
    CHECK_ALL(parts, 0, "xent.max", "xent.sums", "xent.finish", "xent.loss");
}
