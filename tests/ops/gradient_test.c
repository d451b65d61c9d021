/* gradient_test.c: is each backward op the derivative of its forward op? The loss is the sum of the
 * forward output times fixed random weights; the referee's forward pass is differenced in double
 * precision, and the device's backward op, given those weights as dy, must agree. */
#include "cases.h"
#include "referee.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operands of the backward op: r is the weights, a digit an input of the forward op, a letter from
 * a on one of its outputs. `input`: what the gradient is for; `output`: where it comes out. */
struct gradient {
    const char *forward, *backward, *operands;
    uint32_t input, output;
};

static const struct gradient gradients[] = {
    {"linear", "linear.dx", "r1", 0, 0},
    {"linear", "linear.dw", "r0", 1, 0},
    {"linear", "colsum", "r", 2, 0},
    {"layernorm", "layernorm.dx", "r01bc", 0, 0},
    {"layernorm", "layernorm.dw", "r0bc", 1, 0},
    {"layernorm", "layernorm.dw", "r0bc", 2, 1},
    {"bias_gelu", "bias_gelu.dx", "r01", 0, 0},
    {"bias_residual", "colsum", "r", 1, 0},
    {"attention", "attention.dx", "r0ab", 0, 0},
    {"embedding", "embedding.dw", "r10", 0, 0},
    {"softmax_xent.loss", "softmax_xent", "01r", 0, 0},
};

static const struct sizes cases[] = {
    {.tokens = 6,
     .cols = 15,
     .inner = 7,
     .heads = 2,
     .dim = 5,
     .sequence = 3,
     .vocab = 7,
     .causal = 1,
     .bias = 1},
    {.tokens = 9,
     .cols = 8,
     .inner = 12,
     .heads = 3,
     .dim = 4,
     .sequence = 9,
     .vocab = 11,
     .valid = 9,
     .bias = 1},
    {.tokens = 5,
     .cols = 33,
     .inner = 3,
     .heads = 1,
     .dim = 17,
     .sequence = 5,
     .vocab = 18,
     .first = 2,
     .causal = 1,
     .bias = 1},
};

static double loss(const struct call *f, const double *weight)
{
    double sum = 0;
    referee(f);
    for (int64_t i = 0; i < count_of(&f->out[0]); i++)
        sum += f->y[0][i] * weight[i];
    return sum;
}

/* By central differences, one element after the other. */
static double *differences(const struct call *f, uint32_t input, const double *weight)
{
    const int64_t n = count_of(&f->in[input]);
    double *g = malloc((size_t)n * sizeof *g), *x = f->x[input];
    for (int64_t i = 0; i < n; i++) {
        const double h = 1e-4, keep = x[i];
        x[i] = keep + h;
        const double up = loss(f, weight);
        x[i] = keep - h;
        g[i] = (up - loss(f, weight)) / (2 * h);
        x[i] = keep;
    }
    return g;
}

static void give(struct call *b, const weft_operand *o, const double *values)
{
    double *x = add_input(b, o->dtype, o->rank, o->size, 0, 1);
    memcpy(x, values, (size_t)count_of(o) * sizeof *x);
}

/* The backward call for a forward call whose outputs are known. */
static void make_backward(struct call *b, const struct gradient *g, const struct call *f,
                          const double *weight)
{
    *b = (struct call){.id = g->backward, .nattr = f->nattr};
    memcpy(b->attr, f->attr, sizeof b->attr);
    for (const char *p = g->operands; *p != 0; p++) {
        if (*p == 'r')
            give(b, &f->out[0], weight);
        else if (*p >= 'a')
            give(b, &f->out[*p - 'a'], f->y[*p - 'a']);
        else
            give(b, &f->in[*p - '0'], f->x[*p - '0']);
    }
    for (uint32_t k = 0; k < g->output; k++)
        add_output(b, WEFT_F32, f->in[g->input].rank, f->in[g->input].size);
    add_output(b, WEFT_F32, f->in[g->input].rank, f->in[g->input].size);
    if (strcmp(g->backward, "layernorm.dw") == 0 && g->output == 0)
        add_output(b, WEFT_F32, f->in[2].rank, f->in[2].size);
    if (strcmp(g->backward, "softmax_xent") == 0)
        add_output(b, WEFT_F32, 0, NULL);
}

static void check(struct bench *dev, const struct gradient *g, const struct sizes *n)
{
    struct call f, b;
    void *got[WEFT_MAX_OPERANDS];
    char what[128];
    make_call(&f, g->forward, n, WEFT_F32, WEFT_F32);
    const int64_t nout = count_of(&f.out[0]), nin = count_of(&f.in[g->input]);
    double *weight = malloc((size_t)nout * sizeof *weight);
    for (int64_t i = 0; i < nout; i++)
        weight[i] = rounded(uniform(-1, 1), WEFT_F32);
    double *want = differences(&f, g->input, weight);
    referee(&f);
    make_backward(&b, g, &f, weight);
    device_run(dev, &b, got);
    double *have = malloc((size_t)nin * sizeof *have);
    decode(have, WEFT_F32, got[g->output], nin);
    snprintf(what, sizeof what, "%s as the gradient of %s for input %u", g->backward, g->forward,
             g->input);
    expect_close(what, have, want, nin, 2e-5);
    for (uint32_t k = 0; k < b.nout; k++)
        free(got[k]);
    free(weight);
    free(want);
    free(have);
    call_free(&f);
    call_free(&b);
}

static void test_gradients(void **state)
{
    (void)state;
    for (const char *const *isa = bench_isas(); *isa != NULL; isa++) {
        struct bench dev;
        assert_int_equal(bench_open(&dev, *isa, 1), WEFT_OK);
        for (size_t g = 0; g < sizeof gradients / sizeof *gradients; g++)
            for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
                check(&dev, &gradients[g], &cases[n]);
        bench_close(&dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
