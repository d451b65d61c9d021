/* product_test.c: linear and its gradients against the referee. They are oneDNN's, so our own
 * kernels' instruction sets do not matter; CTest runs this once more with oneDNN held to AVX2,
 * where bf16 goes through fp32 copies. */
#include "sweep.h"

static const struct sizes products[] = {
    {.tokens = 1, .cols = 1, .inner = 1},
    {.tokens = 3, .cols = 7, .inner = 17, .bias = 1},
    {.tokens = 65, .cols = 17, .inner = 3},
    {.tokens = 17, .cols = 65, .inner = 96, .bias = 1},
    {.tokens = 130, .cols = 257, .inner = 64, .bias = 1},
    {.tokens = 64, .cols = 192, .inner = 48, .bias = 1},
    {.tokens = 1, .cols = 33, .inner = 300},
};

static void test_products(void **state)
{
    static const char *const isas[] = {"auto", NULL};
    (void)state;
    SWEEP(isas, products, 0, "linear", "linear.dx");
    SWEEP(isas, products, 1, "linear.dw");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
