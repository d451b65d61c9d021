/* traffic_test.c: do kernels move whole sectors? Ops in 16 bits at a row of a real model's width,
 * and elementwise programs in any type, on the double with the interpreter of PTX, which counts
 * what each warp's loads and stores touch. This is what is left of speed without a GPU: a kernel
 * that stores 4 bytes of each 16 in turn is right, and moves four times what it has to. */
#include "../ops/sweep.h"
#include "ptx/ptx.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <test.h>

typedef const struct ptx_traffic *traffic_call(const char *kernel);

static const struct sizes sizes[] = {
    {.tokens = 64, .cols = 768, .heads = 4, .dim = 64, .sequence = 64, .vocab = 4096, .bias = 1}};

static const struct sizes parts[] = {{.tokens = 16, .vocab = 4096, .first = 4096, .valid = 8190}};

/* most: times what it has to be, for global memory. */
static void is_at_most(traffic_call *traffic_of, const char *name, double max)
{
    const struct ptx_traffic *x = traffic_of(name);
    if (!x || x->loads.asked == 0 || x->stores.asked == 0)
        fail_msg("%s has not run", name);
    const double loads = (double)x->loads.moved / (double)x->loads.asked;
    const double stores = (double)x->stores.moved / (double)x->stores.asked;
    const double banks = x->banks.asked ? (double)x->banks.moved / (double)x->banks.asked : 1;
    print_message("%-22s loads %.2f, stores %.2f, banks %.2f\n", name, loads, stores, banks);
    if (loads > max || stores > max || banks > 1.3)
        fail_msg("%s moves more than it has to", name);
}

static void in_16_bits(traffic_call *traffic_of, const char *kernel, double max)
{
    char name[64];
    snprintf(name, sizeof name, "%s_bf16", kernel);
    is_at_most(traffic_of, name, max);
    snprintf(name, sizeof name, "%s_f16", kernel);
    is_at_most(traffic_of, name, max);
}

/* A sum, which has a kernel of its own, and a product, which goes to the one for any program. */
static void run_programs(uint32_t type)
{
    static const char *const ids[] = {"add", "mul"};
    const int64_t n = 1 << 15;
    struct bench b;
    assert_int_equal(bench_open(&b, bench_isas()[0], 1), WEFT_OK);
    for (int k = 0; k < 2; k++) {
        check_call c = {.id = ids[k]};
        void *got[WEFT_MAX_OPERANDS];
        add_input(&c, type, 1, &n, -1, 1);
        add_input(&c, type, 1, &n, -1, 1);
        add_output(&c, type, 1, &n);
        device_run(&b, &c, got);
        free(got[0]);
        check_call_end(&c);
    }
    bench_close(&b);
}

TEST(test_traffic)
{
    static const char *const whole[] = {
        "layernorm",       "layernorm_dx", "layernorm_dw_part", "rmsnorm",      "rmsnorm_dx",
        "rmsnorm_dw_part", "gelu",         "gelu_dx",           "swiglu",       "swiglu_dx",
        "bias_residual",   "embedding",    "colsum_part",       "softmax_xent", "xent_finish"};
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    traffic_call *traffic_of;
    *(void **)&traffic_of = driver ? dlsym(driver, "ptx_traffic_of") : NULL;
    if (!traffic_of)
        fail_msg("libcuda is not the double with the interpreter");
    CHECK_ALL(sizes, 0, "layernorm", "layernorm.dx", "rmsnorm", "rmsnorm.dx", "gelu", "gelu.dx",
              "bias_residual", "swiglu", "swiglu.dx", "rope", "embedding", "softmax_xent");
    CHECK_ALL(sizes, 1, "layernorm.dw", "rmsnorm.dw", "colsum");
    CHECK_ALL(parts, 0, "xent.sums", "xent.finish");
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
        in_16_bits(traffic_of, whole[k], 1.1);
    in_16_bits(traffic_of, "rope", 1.4); /* its angles are fp32, eight a thread */
    for (int k = 0; k < 3; k++)
        run_programs(types[k]);
    is_at_most(traffic_of, "known_add", 1.1);
    is_at_most(traffic_of, "ew", 1.1);
}
