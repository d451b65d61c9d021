/* traffic_test.c: do kernels move whole sectors? Ops in 16 bits at a row of a real model's width,
 * on the double with the interpreter of PTX, which counts what each warp's loads and stores touch.
 * This is what is left of speed without a GPU: a kernel that stores 4 bytes of each 16 in turn is
 * right, and moves four times what it has to. */
#include "../ops/sweep.h"
#include "ptx.h"
#include <dlfcn.h>
#include <stdio.h>

typedef const struct ptx_traffic *traffic_call(const char *kernel);

static const struct sizes sizes[] = {
    {.tokens = 64, .cols = 768, .heads = 4, .dim = 64, .sequence = 64, .vocab = 4096, .bias = 1}};

static const struct sizes parts[] = {{.tokens = 16, .vocab = 4096, .first = 4096, .valid = 8190}};

/* Of a kernel in both types. most: times what it has to be, for global memory. */
static void is_at_most(traffic_call *traffic_of, const char *kernel, double most)
{
    static const char *const types[] = {"bf16", "f16"};
    for (int t = 0; t < 2; t++) {
        char name[64];
        snprintf(name, sizeof name, "%s_%s", kernel, types[t]);
        const struct ptx_traffic *x = traffic_of(name);
        if (x == NULL || x->loads.asked == 0 || x->stores.asked == 0)
            fail_msg("%s has not run", name);
        const double loads = (double)x->loads.moved / (double)x->loads.asked;
        const double stores = (double)x->stores.moved / (double)x->stores.asked;
        const double banks = x->banks.asked ? (double)x->banks.moved / (double)x->banks.asked : 1;
        print_message("%-22s loads %.2f, stores %.2f, banks %.2f\n", name, loads, stores, banks);
        if (loads > most || stores > most || banks > 1.3)
            fail_msg("%s moves more than it has to", name);
    }
}

static void test_traffic(void **state)
{
    static const char *const whole[] = {
        "layernorm",       "layernorm_dx", "layernorm_dw_part", "rmsnorm",      "rmsnorm_dx",
        "rmsnorm_dw_part", "gelu",         "gelu_dx",           "swiglu",       "swiglu_dx",
        "bias_residual",   "embedding",    "colsum_part",       "softmax_xent", "xent_finish"};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    traffic_call *traffic_of;
    (void)state;
    *(void **)&traffic_of = driver != NULL ? dlsym(driver, "ptx_traffic_of") : NULL;
    if (traffic_of == NULL)
        skip();
    CHECK_ALL(sizes, 0, "layernorm", "layernorm.dx", "rmsnorm", "rmsnorm.dx", "gelu", "gelu.dx",
              "bias_residual", "swiglu", "swiglu.dx", "rope", "embedding", "softmax_xent");
    CHECK_ALL(sizes, 1, "layernorm.dw", "rmsnorm.dw", "colsum");
    CHECK_ALL(parts, 0, "xent.sums", "xent.finish");
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
        is_at_most(traffic_of, whole[k], 1.1);
    is_at_most(traffic_of, "rope", 1.4); /* its angles are fp32, eight a thread */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traffic)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
