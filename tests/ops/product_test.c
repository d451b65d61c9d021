/* product_test.c: linear, bmm and their gradients against the reference. They are oneDNN's, but
 * for bf16 with AMX, which `auto` takes where it is; CTest runs this once more with oneDNN held to
 * AVX2, where bf16 goes through fp32 copies. */
#include "sweep.h"
#include <test.h>

#include <stdlib.h>

static const struct sizes products[] = {
    {.tokens = 1, .cols = 1, .inner = 1},
    {.tokens = 3, .cols = 7, .inner = 17, .bias = 1},
    {.tokens = 65, .cols = 17, .inner = 3},
    {.tokens = 17, .cols = 65, .inner = 96, .bias = 1},
    {.tokens = 130, .cols = 257, .inner = 64, .bias = 1},
    {.tokens = 64, .cols = 192, .inner = 48, .bias = 1},
    {.tokens = 1, .cols = 33, .inner = 300},
};

/* On two threads, and in part on one, the device cuts these (plugins/device/cpu/ops/product.c). */
static const struct sizes cut[] = {
    {.tokens = 1030, .cols = 40, .inner = 24, .bias = 1}, /* tokens */
    {.tokens = 9, .cols = 201, .inner = 30},              /* rows of dw */
    {.tokens = 9, .cols = 30, .inner = 201},              /* columns of dw */
    {.tokens = 5, .cols = 2050, .inner = 777},            /* columns of dx */
};
/* Sums, rows and columns beyond one block of the kernel for AMX
 * (plugins/device/cpu/kern/product.c), with elements along k beyond its tiles and without. */
static const struct sizes long_sums[] = {{.tokens = 1031, .cols = 1541, .inner = 40},
                                         {.tokens = 1063, .cols = 1056, .inner = 40}};
static const struct sizes outputs_cut[] = {{.tokens = 1063, .cols = 1057, .inner = 736, .bias = 1},
                                           {.tokens = 303, .cols = 97, .inner = 750, .bias = 1}};

TEST(test_products)
{
    static const char *const isas[] = {"auto", NULL};
    SWEEP(isas, products, 0, "linear", "linear.dx");
    SWEEP(isas, products, 1, "linear.dw");
}

TEST(test_cut_products)
{
    static const char *const isas[] = {"auto", NULL};
    if (!bench_is_cpu() || getenv("ONEDNN_MAX_CPU_ISA"))
        skip(); /* not the cpu device, or held to AVX2, where nothing is cut */
    SWEEP(isas, cut, 0, "linear", "linear.dx");
    SWEEP(isas, cut, 1, "linear.dw");
    SWEEP(isas, outputs_cut, 0, "linear");
    SWEEP(isas, long_sums, 0, "linear.dx");
    SWEEP(isas, long_sums, 1, "linear.dw");
}

static const struct sizes batches[] = {
    {.heads = 1, .tokens = 3, .cols = 7, .inner = 17},
    {.heads = 2, .tokens = 1, .cols = 1, .inner = 1},
    {.heads = 7, .tokens = 17, .cols = 33, .inner = 5},
    {.heads = 3, .tokens = 65, .cols = 48, .inner = 130},
    {.heads = 12, .tokens = 1, .cols = 64, .inner = 96},
    {.heads = 64, .tokens = 9, .cols = 3, .inner = 16},
    {.heads = 4, .tokens = 300, .cols = 260, .inner = 200},
    {.heads = 3, .tokens = 300, .cols = 96, .inner = 64},
};

TEST(test_batches)
{
    static const char *const isas[] = {"auto", NULL};
    if (!bench_is_cpu())
        skip();
    SWEEP(isas, batches, 0, "bmm", "bmm.dx");
    SWEEP(isas, batches, 1, "bmm.dw");
}
