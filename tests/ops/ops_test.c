/* ops_test.c: every op against the referee: odd sizes, fp32 and bf16, gradients in either type,
 * accumulating or not, on each instruction set, with one thread and with two. */
#include "cases.h"
#include "referee.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setting {
    const char *id;
    uint32_t ct, gt, flags;
};

static double tolerance(uint32_t dtype)
{
    return dtype == WEFT_F32 ? 1e-5 : dtype == WEFT_BF16 ? 5e-3 : 1e-3;
}

static void compare(const struct call *c, void *const *got, const char *isa)
{
    for (uint32_t k = 0; k < c->nout; k++) {
        char what[128];
        const int64_t n = count_of(&c->out[k]);
        double *g = malloc((size_t)n * sizeof *g);
        decode(g, c->out[k].dtype, got[k], n);
        snprintf(what, sizeof what, "%s output %u, isa %s, types %u to %u, first axis %lld", c->id,
                 k, isa, c->in[0].dtype, c->out[k].dtype, (long long)c->in[0].size[0]);
        expect_close(what, g, c->y[k], n, tolerance(c->out[k].dtype));
        free(g);
    }
}

static void expect_same_bits(const struct call *c, void *const *a, void *const *b)
{
    for (uint32_t k = 0; k < c->nout; k++) {
        const size_t bytes =
            (size_t)count_of(&c->out[k]) * (size_t)weft_dtype_size(c->out[k].dtype);
        if (memcmp(a[k], b[k], bytes) != 0)
            fail_msg("%s output %u differs between two runs", c->id, k);
    }
}

static void free_all(const struct call *c, void **got)
{
    for (uint32_t k = 0; k < c->nout; k++)
        free(got[k]);
}

/* Devices of one instruction set with one and two threads. */
struct pair {
    struct bench one, two;
    const char *isa;
};

static void check(struct pair *p, const struct setting *s, const struct sizes *n)
{
    void *first[WEFT_MAX_OPERANDS], *again[WEFT_MAX_OPERANDS], *two[WEFT_MAX_OPERANDS];
    struct call c;
    make_call(&c, s->id, n, s->ct, s->gt);
    c.flags = s->flags;
    device_run(&p->one, &c, first);
    device_run(&p->one, &c, again);
    device_run(&p->two, &c, two);
    expect_same_bits(&c, first, again);
    if (strncmp(s->id, "linear", 6) != 0) /* oneDNN may cut a long sum among threads */
        expect_same_bits(&c, first, two);
    referee(&c);
    compare(&c, first, p->isa);
    compare(&c, two, p->isa);
    free_all(&c, first);
    free_all(&c, again);
    free_all(&c, two);
    call_free(&c);
}

/* Every combination of types and of accumulating that the op has. */
static void check_types(struct pair *p, const char *id, const struct sizes *n, int grads)
{
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    const int flat = strcmp(id, "accumulate") == 0 || strcmp(id, "sumsq") == 0;
    for (int a = 0; a < (flat ? 3 : 2); a++)
        for (int b = 0; b < (flat ? 3 : 2); b++)
            for (int add = 0; add < (grads ? 2 : 1); add++) {
                if (b != 0 && (!grads || (b != a && !flat)))
                    continue;
                const struct setting s = {id, types[a], types[b], add ? WEFT_SPEC_ACCUMULATE : 0};
                check(p, &s, n);
            }
}

static void open_pair(struct pair *p, const char *isa)
{
    p->isa = isa;
    assert_int_equal(bench_open(&p->one, isa, 1), WEFT_OK);
    assert_int_equal(bench_open(&p->two, isa, 2), WEFT_OK);
}

static void close_pair(struct pair *p)
{
    bench_close(&p->two);
    bench_close(&p->one);
}

/* Each op of a NULL-ended list with each of the sizes, on each instruction set. */
static void check_all(const char *const *ids, const struct sizes *n, size_t sizes, int grads)
{
    for (const char *const *isa = bench_isas(); *isa != NULL; isa++) {
        struct pair p;
        open_pair(&p, *isa);
        for (size_t k = 0; k < sizes; k++)
            for (const char *const *id = ids; *id != NULL; id++)
                check_types(&p, *id, &n[k], grads);
        close_pair(&p);
    }
}

#define CHECK_ALL(sizes, grads, ...)                                                               \
    check_all((const char *const[]){__VA_ARGS__, NULL}, sizes, sizeof(sizes) / sizeof *(sizes),    \
              grads)

static const struct sizes rows[] = {
    {.tokens = 1, .cols = 1},    {.tokens = 3, .cols = 7},    {.tokens = 7, .cols = 17},
    {.tokens = 65, .cols = 65},  {.tokens = 17, .cols = 257}, {.tokens = 600, .cols = 96},
    {.tokens = 5, .cols = 1100},
};

static void test_rows(void **state)
{
    (void)state;
    CHECK_ALL(rows, 0, "bias_gelu", "bias_gelu.dx", "bias_residual");
    CHECK_ALL(rows, 1, "colsum");
}

/* A row of one feature has no variance: all that is left is rounding. */
static const struct sizes norms[] = {
    {.tokens = 1, .cols = 3},    {.tokens = 3, .cols = 7},    {.tokens = 7, .cols = 17},
    {.tokens = 65, .cols = 65},  {.tokens = 17, .cols = 257}, {.tokens = 600, .cols = 96},
    {.tokens = 5, .cols = 1100},
};

static void test_norms(void **state)
{
    (void)state;
    CHECK_ALL(norms, 0, "layernorm", "layernorm.dx");
    CHECK_ALL(norms, 1, "layernorm.dw");
}

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
    (void)state;
    CHECK_ALL(products, 0, "linear", "linear.dx");
    CHECK_ALL(products, 1, "linear.dw");
}

static const struct sizes tables[] = {
    {.tokens = 1, .cols = 1, .vocab = 1},
    {.tokens = 7, .cols = 17, .vocab = 3, .first = 1},
    {.tokens = 65, .cols = 96, .vocab = 11},
    {.tokens = 300, .cols = 300, .vocab = 257, .first = 7},
    {.tokens = 3, .cols = 65, .vocab = 70000},
};

static void test_embedding(void **state)
{
    (void)state;
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
};

static void test_attention(void **state)
{
    (void)state;
    CHECK_ALL(heads, 0, "attention", "attention.dx");
}

static const struct sizes classes[] = {
    {.tokens = 1, .vocab = 1},    {.tokens = 3, .vocab = 11},
    {.tokens = 65, .vocab = 257}, {.tokens = 17, .vocab = 64, .valid = 50},
    {.tokens = 5, .vocab = 2600}, {.tokens = 4, .vocab = 2112, .valid = 2049},
};

static void test_xent(void **state)
{
    (void)state;
    CHECK_ALL(classes, 0, "softmax_xent", "softmax_xent.loss");
}

static const struct sizes flats[] = {
    {.tokens = 1, .cols = 1},
    {.tokens = 1, .cols = 17},
    {.tokens = 65, .cols = 257},
    {.tokens = 3, .cols = 70001},
};

static void test_flat(void **state)
{
    (void)state;
    CHECK_ALL(flats, 1, "accumulate", "sumsq");
}

/* The gradient may lie over the logits, and other results over an operand of their shape. */
static void test_in_place(void **state)
{
    static const struct {
        const char *id;
        int over;
    } ops[] = {{"softmax_xent", 1}, {"bias_gelu", 1},    {"bias_gelu.dx", 1}, {"bias_residual", 3},
               {"layernorm", 1},    {"layernorm.dx", 1}, {"bias_gelu.dx", 2}};
    const struct sizes n = {.tokens = 33, .cols = 300, .vocab = 300};
    (void)state;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        struct pair p;
        struct call c;
        void *got[WEFT_MAX_OPERANDS];
        open_pair(&p, "auto");
        make_call(&c, ops[k].id, &n, WEFT_BF16, WEFT_F32);
        c.alias[0] = ops[k].over;
        device_run(&p.two, &c, got);
        referee(&c);
        compare(&c, got, "auto");
        free_all(&c, got);
        call_free(&c);
        close_pair(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_norms),
        cmocka_unit_test(test_products),  cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_xent),
        cmocka_unit_test(test_flat),      cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
