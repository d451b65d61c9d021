/* large_test.c: the libraries at the sizes of real models, against our own kernels on the same GPU
 * (which the tests of tests/ops hold against naive loops), and our own at rows that those sizes are
 * too small for. */
#include "cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

static struct bench library, own;

static int open_both(void **state)
{
    (void)state;
    setenv("WEFT_OPS_CONF", "attention=own,products=own", 1);
    if (bench_open(&own, "auto", 1) != WEFT_OK)
        return -1;
    setenv("WEFT_OPS_CONF", "", 1);
    return bench_open(&library, "auto", 1) == WEFT_OK ? 0 : -1;
}

static int close_both(void **state)
{
    (void)state;
    bench_close(&library);
    bench_close(&own);
    return 0;
}

/* Output k of both, decoded; into the call's y what our own kernels gave. */
static void compare(const check_call *c, void **got, void **want, double tolerance)
{
    for (uint32_t k = 0; k < c->nout; k++) {
        char what[64];
        if (c->out[k].dtype == 0)
            continue;
        const int64_t n = check_operand_count(&c->out[k]);
        double *g = malloc((size_t)n * sizeof *g);
        snprintf(what, sizeof what, "%s output %u", c->id, k);
        decode(g, c->out[k].dtype, got[k], n);
        decode(c->y[k], c->out[k].dtype, want[k], n);
        expect_close(what, g, c->y[k], n, c->out[k].dtype == WEFT_F32 ? 1e-3 : tolerance);
        free(g);
        free(got[k]);
        free(want[k]);
    }
}

static void run_both(const check_call *c, double tolerance)
{
    void *got[WEFT_MAX_OPERANDS], *want[WEFT_MAX_OPERANDS];
    device_run(&library, c, got);
    device_run(&own, c, want);
    compare(c, got, want, tolerance);
}

struct heads {
    int64_t tokens, sequence, heads, kv_heads, dim; /* kv_heads 0: one operand */
    int causal;
    uint32_t type;
};

static void add_attrs(check_call *c, const struct heads *h)
{
    c->attrs[0] = (weft_attr)WEFT_ATTR_INT("sequence", h->sequence);
    c->attrs[1] = (weft_attr)WEFT_ATTR_INT("causal", h->causal);
    c->nattr = 2;
}

static void add_copy(check_call *c, const weft_operand *o, const double *from)
{
    double *x = add_input(c, o->dtype, o->rank, o->size, 0, 1);
    memcpy(x, from, (size_t)check_operand_count(o) * sizeof *x);
}

/* Forward, and backward from what forward gave. */
static void check_attention(const struct heads *h, double tolerance)
{
    const int64_t qkv[4] = {h->tokens, 3, h->heads, h->dim}, y[3] = {h->tokens, h->heads, h->dim};
    const int64_t kv[3] = {h->tokens, h->kv_heads, h->dim};
    check_call f = {.id = "attention"}, b = {.id = "attention.dx"};
    add_attrs(&f, h);
    add_attrs(&b, h);
    add_input(&f, h->type, h->kv_heads ? 3 : 4, h->kv_heads ? y : qkv, -1, 1);
    for (int k = 0; k < 2 && h->kv_heads; k++)
        add_input(&f, h->type, 3, kv, -1, 1);
    add_output(&f, h->type, 3, y);
    add_output(&f, WEFT_F32, 2, y);
    run_both(&f, tolerance);
    add_input(&b, h->type, 3, y, -1, 1);
    for (uint32_t k = 0; k < f.nin; k++)
        add_copy(&b, &f.in[k], f.x[k]);
    for (uint32_t k = 0; k < f.nout; k++)
        add_copy(&b, &f.out[k], f.y[k]);
    for (uint32_t k = 0; k < f.nin; k++)
        add_output(&b, h->type, f.in[k].rank, f.in[k].size);
    run_both(&b, 2 * tolerance);
    b.flags = WEFT_SPEC_DETERMINISTIC;
    run_both(&b, 2 * tolerance);
    check_call_end(&f);
    check_call_end(&b);
}

TEST(test_attention)
{
    static const struct heads all[] = {
        {2048, 1024, 12, 0, 64, 1, WEFT_BF16}, {2048, 1024, 12, 0, 64, 0, WEFT_F16},
        {2048, 2048, 16, 4, 128, 1, WEFT_F16}, {1000, 500, 6, 2, 96, 1, WEFT_BF16},
        {1024, 128, 25, 0, 64, 1, WEFT_BF16},  {600, 200, 5, 5, 40, 1, WEFT_BF16},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        check_attention(&all[k], all[k].type == WEFT_BF16 ? 2e-2 : 4e-3);
}

static void check_product(const char *id, const struct sizes *n, uint32_t ct, uint32_t gt,
                          uint32_t flags)
{
    check_call c;
    make_call(&c, id, n, ct, gt);
    c.flags = flags;
    run_both(&c, ct == WEFT_BF16 ? 1e-2 : 2e-3);
    check_call_end(&c);
}

TEST(test_products)
{
    static const struct sizes all[] = {
        {.tokens = 2048, .cols = 2304, .inner = 768, .bias = 1},
        {.tokens = 1024, .cols = 768, .inner = 3072},
        {.tokens = 256, .cols = 50304, .inner = 768},
        {.tokens = 520, .cols = 50257, .inner = 200},
    };
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int t = 0; t < 3; t++) {
            if (all[k].cols > 50000 && types[t] != WEFT_BF16)
                continue; /* rounding its numbers takes the processor ten seconds */
            check_product("linear", &all[k], types[t], types[t], 0);
            check_product("linear.dx", &all[k], types[t], types[t], 0);
            check_product("linear.dw", &all[k], types[t], types[t], 0);
            check_product("linear.dw", &all[k], types[t], WEFT_F32, WEFT_SPEC_ACCUMULATE);
        }
}

/* With what comes behind them: by an epilogue of cuBLASLt, if that is faster. */
TEST(test_joined)
{
    static const struct sizes all[] = {
        {.tokens = 2048, .cols = 3072, .inner = 768, .bias = 1},
        {.tokens = 1024, .cols = 6400, .inner = 1600, .bias = 1, .unread = 1},
        {.tokens = 2048, .cols = 768, .inner = 3072},
    };
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int t = 0; t < 3; t++) {
            check_product("linear+gelu", &all[k], types[t], types[t], 0);
            check_product("linear+bias_residual", &all[k], types[t], types[t], 0);
            check_product("linear.dx+gelu.dx", &all[k], types[t], types[t], 0);
            check_product("linear.dw+colsum", &all[k], types[t], types[t], 0);
            check_product("colsum+linear.dw", &all[k], types[t], WEFT_F32, WEFT_SPEC_ACCUMULATE);
        }
}

/* Against naive loops. */
static void check_rows(const char *id, const struct sizes *n, uint32_t ct, double tolerance)
{
    void *got[WEFT_MAX_OPERANDS];
    check_call c;
    make_call(&c, id, n, ct, WEFT_F32);
    device_run(&library, &c, got);
    reference(&c);
    for (uint32_t k = 0; k < c.nout; k++) {
        const int64_t count = check_operand_count(&c.out[k]);
        double *g = malloc((size_t)count * sizeof *g);
        decode(g, c.out[k].dtype, got[k], count);
        expect_close(id, g, c.y[k], count, c.out[k].dtype == WEFT_F32 ? 2e-5 : tolerance);
        free(g);
        free(got[k]);
    }
    check_call_end(&c);
}

TEST(test_rows)
{
    static const char *const norms[] = {"layernorm", "layernorm.dx", "layernorm.dw",
                                        "rmsnorm",   "rmsnorm.dx",   "rmsnorm.dw"};
    static const struct sizes widths[] = {{.tokens = 4099, .cols = 768},
                                          {.tokens = 515, .cols = 4096},
                                          {.tokens = 130, .cols = 20008},
                                          {.tokens = 67, .cols = 20001}};
    static const struct sizes vocab[] = {{.tokens = 400, .vocab = 50304, .valid = 50257},
                                         {.tokens = 100, .vocab = 50257},
                                         {.tokens = 100, .vocab = 128256}};
    static const struct sizes table[] = {{.tokens = 20000, .cols = 768, .vocab = 40},
                                         {.tokens = 9000, .cols = 96, .vocab = 50257}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
            check_rows(norms[k], &widths[i], WEFT_BF16, 5e-3);
    for (size_t i = 0; i < sizeof vocab / sizeof *vocab; i++) {
        check_rows("softmax_xent", &vocab[i], WEFT_BF16, 5e-3);
        check_rows("softmax_xent.loss", &vocab[i], WEFT_BF16, 5e-3);
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_rows("embedding.dw", &table[i], WEFT_BF16, 5e-3);
}

int main(void)
{
    return test_run(open_both, close_both);
}
