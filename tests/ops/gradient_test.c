/* gradient_test.c: is each backward op the derivative of its forward op? The loss is the sum of the
 * forward output times fixed random weights; the reference's forward pass is differenced in double
 * precision, and the device's backward op, given those weights as dy, must agree. */
#include "cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

/* Operands of the backward op: r is the weights, a digit an input of the forward op, a letter from
 * a on one of its outputs. `outputs`: the inputs whose gradients come out, in order. */
struct gradient {
    const char *forward, *backward, *operands, *outputs;
};

static const struct gradient gradients[] = {
    {"linear", "linear.dx", "r1", "0"},
    {"linear", "linear.dw", "r0", "1"},
    {"linear", "colsum", "r", "2"},
    {"layernorm", "layernorm.dx", "r01bc", "0"},
    {"layernorm", "layernorm.dw", "r0bc", "12"},
    {"rmsnorm", "rmsnorm.dx", "r01b", "0"},
    {"rmsnorm", "rmsnorm.dw", "r0b", "1"},
    {"gelu", "gelu.dx", "r01", "0"},
    {"bias_residual", "colsum", "r", "1"},
    {"swiglu", "swiglu.dx", "r01", "01"},
    {"rope", "rope", "r", "0"},
    {"attention", "attention.dx", "r0ab", "0"},
    {"attention", "attention.dx", "r012ab", "012"},
    {"embedding", "embedding.dw", "r10", "0"},
    {"softmax_xent.loss", "softmax_xent", "01r", "0"},
    {"sum_axis", "broadcast", "r0", "0"}, /* from here on: the cpu alone */
    {"broadcast", "sum_axis", "r", "0"},
    {"bmm", "bmm.dx", "r1", "0"},
    {"bmm", "bmm.dw", "r0", "1"},
};

static const struct sizes cases[] = {
    {.tokens = 6,
     .cols = 15,
     .inner = 7,
     .heads = 2,
     .kv_heads = 1,
     .dim = 5,
     .sequence = 3,
     .vocab = 7,
     .causal = 1,
     .bias = 1},
    {.tokens = 9,
     .cols = 8,
     .inner = 12,
     .heads = 6,
     .kv_heads = 2,
     .dim = 4,
     .sequence = 9,
     .vocab = 11,
     .valid = 9,
     .bias = 1},
    {.tokens = 5,
     .cols = 33,
     .inner = 3,
     .heads = 1,
     .kv_heads = 1,
     .dim = 17,
     .sequence = 5,
     .vocab = 18,
     .first = 2,
     .causal = 1,
     .bias = 1},
};

static double loss(const check_call *f, const double *weight)
{
    double sum = 0;
    reference(f);
    for (int64_t i = 0; i < check_operand_count(&f->out[0]); i++)
        sum += f->y[0][i] * weight[i];
    return sum;
}

/* By central differences, one element after the other. */
static double *differences(const check_call *f, uint32_t input, const double *weight)
{
    const int64_t n = check_operand_count(&f->in[input]);
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

static void give(check_call *b, const weft_operand *o, const double *values)
{
    double *x = add_input(b, o->dtype, o->rank, o->size, 0, 1);
    memcpy(x, values, (size_t)check_operand_count(o) * sizeof *x);
}

/* The backward call for a forward call whose outputs are known. */
static void make_backward(check_call *b, const struct gradient *g, const check_call *f,
                          const double *weight)
{
    *b = (check_call){.id = g->backward, .nattr = f->nattr};
    memcpy(b->attrs, f->attrs, sizeof b->attrs);
    for (const char *p = g->operands; *p != 0; p++) {
        if (*p == 'r')
            give(b, &f->out[0], weight);
        else if (*p >= 'a')
            give(b, &f->out[*p - 'a'], f->y[*p - 'a']);
        else
            give(b, &f->in[*p - '0'], f->x[*p - '0']);
    }
    for (const char *p = g->outputs; *p != 0; p++)
        add_output(b, WEFT_F32, f->in[*p - '0'].rank, f->in[*p - '0'].size);
    for (uint32_t k = 0; k < b->nattr; k++) /* the inverse rotation */
        if (strcmp(b->attrs[k].key, "sign") == 0)
            b->attrs[k].i = -b->attrs[k].i;
    if (strcmp(g->backward, "softmax_xent") == 0)
        add_output(b, WEFT_F32, 0, NULL);
}

static void check(struct bench *dev, const struct gradient *g, struct sizes n)
{
    check_call f, b;
    void *got[WEFT_MAX_OPERANDS];
    char what[128];
    if (strlen(g->outputs) != 3)
        n.kv_heads = 0; /* attention in its fused form */
    make_call(&f, g->forward, &n, WEFT_F32, WEFT_F32);
    const int64_t nout = check_operand_count(&f.out[0]);
    double *weight = malloc((size_t)nout * sizeof *weight);
    for (int64_t i = 0; i < nout; i++)
        weight[i] = check_operand_rounded(WEFT_F32, uniform(-1, 1));
    reference(&f);
    make_backward(&b, g, &f, weight);
    device_run(dev, &b, got);
    for (uint32_t k = 0; g->outputs[k] != 0; k++) {
        const uint32_t input = (uint32_t)(g->outputs[k] - '0');
        const int64_t nin = check_operand_count(&f.in[input]);
        double *want = differences(&f, input, weight);
        double *have = malloc((size_t)nin * sizeof *have);
        decode(have, WEFT_F32, got[k], nin);
        snprintf(what, sizeof what, "%s as the gradient of %s for input %u", g->backward,
                 g->forward, input);
        expect_close(what, have, want, nin, 2e-5);
        free(want);
        free(have);
    }
    for (uint32_t k = 0; k < b.nout; k++)
        free(got[k]);
    free(weight);
    check_call_end(&f);
    check_call_end(&b);
}

TEST(test_gradients)
{
    for (const char *const *isa = bench_isas(); *isa; isa++) {
        struct bench dev;
        assert_int_equal(bench_open(&dev, *isa, 1), WEFT_OK);
        for (size_t g = 0; g < sizeof gradients / sizeof *gradients; g++) {
            if (!bench_is_cpu() && is_axis(gradients[g].backward))
                continue;
            for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
                check(&dev, &gradients[g], cases[n]);
        }
        bench_close(&dev);
    }
}
