/* cases.c: calls of each op. Multi-axis features are used on purpose: a row of `cols` features is
 * given as [cols] or, where it divides, as [3, cols/3]. */
#include "cases.h"
#include "joined.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static weft_operand operand(uint32_t dtype, uint32_t rank, const int64_t *size)
{
    weft_operand o = {.dtype = dtype, .rank = rank};
    for (uint32_t k = 0; k < rank; k++)
        o.size[k] = size[k];
    return o;
}

double *add_input(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size, double lo,
                  double hi)
{
    const bool whole = dtype == WEFT_I32 || dtype == WEFT_I64;
    double *x = check_call_room(c, dtype, rank, size);
    for (int64_t i = 0; i < check_operand_count(&c->in[c->nin - 1]); i++) {
        const double v = uniform(lo, hi);
        x[i] = check_operand_rounded(dtype, whole ? floor(v) : v);
    }
    return x;
}

void add_output(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size)
{
    double *y = check_call_out(c, dtype, rank, size);
    for (int64_t i = 0; i < check_operand_count(&c->out[c->nout - 1]); i++)
        y[i] = check_operand_rounded(dtype, uniform(-1, 1));
}

static void add_attr(check_call *c, const char *key, int64_t i, double f)
{
    c->attrs[c->nattr++] = (weft_attr){key, i, f, NULL, 0, 0};
}

/* Axes of a row of features. */
static uint32_t feature_rank(int64_t cols)
{
    return cols % 3 == 0 ? 2 : 1;
}

static void features(int64_t *to, int64_t cols)
{
    to[0] = cols % 3 == 0 ? 3 : cols;
    to[1] = cols % 3 == 0 ? cols / 3 : 1;
}

static void input_rows(check_call *c, uint32_t dtype, int64_t tokens, int64_t cols)
{
    int64_t size[3] = {tokens};
    features(size + 1, cols);
    add_input(c, dtype, 1 + feature_rank(cols), size, -2, 2);
}

static void output_rows(check_call *c, uint32_t dtype, int64_t tokens, int64_t cols)
{
    int64_t size[3] = {tokens};
    features(size + 1, cols);
    add_output(c, dtype, 1 + feature_rank(cols), size);
}

static void input_features(check_call *c, uint32_t dtype, int64_t cols)
{
    int64_t size[2];
    features(size, cols);
    add_input(c, dtype, feature_rank(cols), size, -1, 1);
}

static void output_features(check_call *c, uint32_t dtype, int64_t cols)
{
    int64_t size[2];
    features(size, cols);
    add_output(c, dtype, feature_rank(cols), size);
}

/* A weight [O.., I..]. */
static uint32_t weight_size(int64_t *size, const struct sizes *n)
{
    const uint32_t r = feature_rank(n->cols);
    features(size, n->cols);
    features(size + r, n->inner);
    return r + feature_rank(n->inner);
}

static void make_linear(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    int64_t w[4];
    const uint32_t rank = weight_size(w, n);
    if (strcmp(c->id, "linear") == 0) {
        input_rows(c, ct, n->tokens, n->inner);
        add_input(c, ct, rank, w, -1, 1);
        if (n->bias)
            input_features(c, ct, n->cols);
        output_rows(c, ct, n->tokens, n->cols);
    } else if (strcmp(c->id, "linear.dx") == 0) {
        input_rows(c, ct, n->tokens, n->cols);
        add_input(c, ct, rank, w, -1, 1);
        output_rows(c, ct, n->tokens, n->inner);
    } else {
        input_rows(c, ct, n->tokens, n->cols);
        input_rows(c, ct, n->tokens, n->inner);
        add_output(c, gt, rank, w);
    }
}

static void make_embedding(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int backward = strcmp(c->id, "embedding.dw") == 0;
    int64_t table[3] = {n->vocab}, tokens[1] = {n->tokens};
    features(table + 1, n->cols);
    const uint32_t rank = 1 + feature_rank(n->cols);
    if (backward)
        input_rows(c, ct, n->tokens, n->cols);
    else
        add_input(c, ct, rank, table, -1, 1);
    add_input(c, WEFT_I32, 1, tokens, -2, (double)n->vocab + 2); /* some ids are not there */
    if (backward) {
        add_input(c, ct, rank, table, -1, 1);
        free(c->x[2]);
        c->x[2] = NULL; /* only its shape is used: no address */
        add_output(c, gt, rank, table);
    } else {
        output_rows(c, ct, n->tokens, n->cols);
    }
    add_attr(c, "first", n->first, 0);
}

/* x, g, b through the reference, for mean and rstd. */
static void make_layernorm(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int64_t rows[2] = {n->tokens, n->cols}, cols[1] = {n->cols}, tokens[1] = {n->tokens};
    check_call f = {.id = "layernorm"};
    add_attr(&f, "eps", 0, 1e-5);
    add_input(&f, ct, 2, rows, -1, 3);
    add_input(&f, ct, 1, cols, -1, 1);
    add_input(&f, ct, 1, cols, -1, 1);
    add_output(&f, ct, 2, rows);
    add_output(&f, WEFT_F32, 1, tokens);
    add_output(&f, WEFT_F32, 1, tokens);
    if (strcmp(c->id, "layernorm") == 0) {
        *c = f;
        return;
    }
    reference(&f);
    add_input(c, ct, 2, rows, -1, 1);
    const int dx = strcmp(c->id, "layernorm.dx") == 0;
    memcpy(add_input(c, ct, 2, rows, 0, 1), f.x[0], (size_t)(rows[0] * rows[1]) * sizeof(double));
    if (dx)
        memcpy(add_input(c, ct, 1, cols, 0, 1), f.x[1], (size_t)cols[0] * sizeof(double));
    for (int k = 1; k <= 2; k++) {
        double *x = add_input(c, WEFT_F32, 1, tokens, 0, 1);
        for (int64_t i = 0; i < n->tokens; i++)
            x[i] = check_operand_rounded(WEFT_F32, f.y[k][i]);
    }
    if (dx)
        add_output(c, ct, 2, rows);
    for (int k = 0; k < 2 && !dx; k++)
        add_output(c, gt, 1, cols);
    check_call_end(&f);
}

/* x and g through the reference, for rstd. */
static void make_rmsnorm(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const uint32_t heads = n->heads ? 1 : 0; /* each head of a token by itself */
    const int64_t plain[2] = {n->tokens, n->cols}, of_heads[3] = {n->tokens, n->heads, n->cols};
    const int64_t *rows = heads ? of_heads : plain, cols[1] = {n->cols};
    check_call f = {.id = "rmsnorm"};
    add_attr(&f, "eps", 0, 1e-5);
    add_input(&f, ct, 2 + heads, rows, -1, 3);
    add_input(&f, ct, 1, cols, -1, 1);
    add_output(&f, ct, 2 + heads, rows);
    add_output(&f, WEFT_F32, 1 + heads, rows);
    if (strcmp(c->id, "rmsnorm") == 0) {
        *c = f;
        return;
    }
    reference(&f);
    add_input(c, ct, 2 + heads, rows, -1, 1);
    const int dx = strcmp(c->id, "rmsnorm.dx") == 0;
    memcpy(add_input(c, ct, 2 + heads, rows, 0, 1), f.x[0],
           (size_t)check_operand_count(&f.in[0]) * sizeof(double));
    if (dx)
        memcpy(add_input(c, ct, 1, cols, 0, 1), f.x[1], (size_t)cols[0] * sizeof(double));
    double *rstd = add_input(c, WEFT_F32, 1 + heads, rows, 0, 1);
    for (int64_t i = 0; i < check_operand_count(&f.out[1]); i++)
        rstd[i] = check_operand_rounded(WEFT_F32, f.y[1][i]);
    if (dx)
        add_output(c, ct, 2 + heads, rows);
    else
        add_output(c, gt, 1, cols);
    check_call_end(&f);
}

/* Gates where the logistic function bends, and where it is 0 or 1. */
static void make_swiglu(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int backward = strcmp(c->id, "swiglu.dx") == 0;
    (void)gt;
    if (backward)
        input_rows(c, ct, n->tokens, n->cols);
    input_rows(c, ct, n->tokens, n->cols);
    double *gate = c->x[backward];
    for (int64_t i = 0; i < check_operand_count(&c->in[backward]); i += 3)
        gate[i] = check_operand_rounded(ct, gate[i] * 30);
    input_rows(c, ct, n->tokens, n->cols);
    for (int k = 0; k <= backward; k++)
        output_rows(c, ct, n->tokens, n->cols);
}

/* Heads of twice `dim`, so that the halves are of any size. With an even number of heads angles are
 * divided: all, or those that turn seldom in 40 positions. */
static void make_rope(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int64_t x[3] = {n->tokens, n->heads, 2 * n->dim};
    (void)gt;
    add_input(c, ct, 3, x, -2, 2);
    if (n->placed) /* positions, some outside the sequence */
        add_input(c, WEFT_I32, 1, x, -1.5, (double)n->sequence + 1);
    add_output(c, ct, 3, x);
    add_attr(c, "sequence", n->sequence, 0);
    add_attr(c, "theta", 0, 1000);
    add_attr(c, "sign", n->causal ? 1 : -1, 0);
    add_attr(c, "factor", 0, n->heads % 2 ? 1 : 4);
    add_attr(c, "original", n->heads % 2 || n->dim % 3 ? 0 : 40, 0);
    add_attr(c, "low", 0, 1.5);
    add_attr(c, "high", 0, 3);
}

/* Caches of `sequence` rows; some positions are outside. `kv_heads` 0: three in one tensor, of
 * which the part `first` is written. */
static void make_cached(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int64_t kv = n->kv_heads ? n->kv_heads : n->heads;
    const int64_t cache[3] = {kv, n->sequence, n->dim}, tokens[1] = {n->tokens};
    const int64_t qkv[4] = {n->tokens, 3, n->heads, n->dim};
    const int64_t q[3] = {n->tokens, n->heads, n->dim}, x[3] = {n->tokens, kv, n->dim};
    const int write = strcmp(c->id, "cache.write") == 0;
    (void)gt;
    if (write) {
        add_input(c, ct, 3, cache, -2, 2);
        add_input(c, ct, n->kv_heads ? 3 : 4, n->kv_heads ? x : qkv, -2, 2);
        add_attr(c, "part", n->first, 0);
    } else {
        add_input(c, ct, n->kv_heads ? 3 : 4, n->kv_heads ? q : qkv, -2, 2);
        add_input(c, ct, 3, cache, -2, 2);
        add_input(c, ct, 3, cache, -2, 2);
    }
    add_input(c, WEFT_I32, 1, tokens, -1.5, (double)n->sequence + 1);
    add_output(c, ct, 3, write ? cache : q);
}

/* gelu, gelu.dx, bias_residual, colsum */
static void make_rows(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    input_rows(c, ct, n->tokens, n->cols);
    if (strcmp(c->id, "colsum") == 0) {
        output_features(c, gt, n->cols);
        return;
    }
    if (strcmp(c->id, "gelu.dx") == 0)
        input_rows(c, ct, n->tokens, n->cols);
    const int residual = strcmp(c->id, "bias_residual") == 0;
    if (residual || n->bias)
        input_features(c, ct, n->cols);
    if (residual)
        input_rows(c, ct, n->tokens, n->cols);
    output_rows(c, ct, n->tokens, n->cols);
}

/* The operands in the form that the sizes ask for: how many they are. */
static uint32_t attention_operands(weft_operand o[3], const struct sizes *n, uint32_t ct)
{
    const int64_t qkv[4] = {n->tokens, 3, n->heads, n->dim};
    const int64_t q[3] = {n->tokens, n->heads, n->dim}, k[3] = {n->tokens, n->kv_heads, n->dim};
    o[0] = n->kv_heads ? operand(ct, 3, q) : operand(ct, 4, qkv);
    o[1] = o[2] = operand(ct, 3, k);
    return n->kv_heads ? 3 : 1;
}

static void give_rounded(check_call *c, const check_call *f, uint32_t output, uint32_t dtype)
{
    const weft_operand *o = &f->out[output];
    double *x = add_input(c, dtype, o->rank, o->size, 0, 1);
    for (int64_t i = 0; i < check_operand_count(o); i++)
        x[i] = check_operand_rounded(dtype, f->y[output][i]);
}

static void make_attention(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int64_t y[3] = {n->tokens, n->heads, n->dim};
    weft_operand o[3];
    const uint32_t count = attention_operands(o, n, ct);
    check_call f = {.id = "attention"};
    (void)gt;
    add_attr(&f, "sequence", n->sequence, 0);
    add_attr(&f, "causal", n->causal, 0);
    for (uint32_t k = 0; k < count; k++)
        add_input(&f, ct, o[k].rank, o[k].size, -2, 2);
    if (n->reach)
        add_input(&f, WEFT_I32, 1, y, -2, (double)n->reach + 1);
    add_output(&f, ct, 3, y);
    add_output(&f, WEFT_F32, 2, y);
    if (strcmp(c->id, "attention") == 0) {
        *c = f;
        return;
    }
    reference(&f);
    c->nattr = f.nattr;
    memcpy(c->attrs, f.attrs, sizeof c->attrs);
    add_input(c, ct, 3, y, -1, 1);
    for (uint32_t k = 0; k < count; k++)
        memcpy(add_input(c, ct, o[k].rank, o[k].size, 0, 1), f.x[k],
               (size_t)check_operand_count(&o[k]) * sizeof(double));
    give_rounded(c, &f, 0, ct);
    give_rounded(c, &f, 1, WEFT_F32);
    if (n->reach)
        memcpy(add_input(c, WEFT_I32, 1, y, 0, 1), f.x[count], (size_t)n->tokens * sizeof(double));
    for (uint32_t k = 0; k < count; k++)
        add_output(c, ct, o[k].rank, o[k].size);
    check_call_end(&f);
}

static void make_xent(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int64_t logits[2] = {n->tokens, n->vocab}, tokens[1] = {n->tokens};
    const int64_t valid = n->valid ? n->valid : n->vocab;
    (void)gt;
    add_input(c, ct, 2, logits, -8, 8);
    add_input(c, WEFT_I32, 1, tokens, -1.2, (double)valid); /* some targets are ignored */
    if (strcmp(c->id, "softmax_xent") == 0) {
        add_input(c, WEFT_F32, 0, NULL, 0.5, 4);
        add_output(c, ct, 2, logits);
    }
    add_output(c, WEFT_F32, 0, NULL);
    add_attr(c, "weight", 0, 1.0 / (double)n->tokens);
    add_attr(c, "valid", n->valid, 0);
}

/* Maxima that no logit exceeds, sums that could be, and the target's logit where it is here. */
static void add_sums(check_call *c, const struct sizes *n)
{
    const int64_t tokens[2] = {n->tokens, 2};
    const double *logits = c->x[0], *targets = c->x[1];
    add_input(c, WEFT_F32, 1, tokens, 8, 9);
    if (strcmp(c->id, "xent.sums") == 0)
        return;
    double *sums = add_input(c, WEFT_F32, 2, tokens, 1, 40);
    for (int64_t t = 0; t < n->tokens; t++) {
        const int64_t target = (int64_t)targets[t] - n->first;
        if (targets[t] >= 0 && target >= 0 && target < n->vocab)
            sums[2 * t + 1] = logits[t * n->vocab + target];
    }
}

static void make_vocab(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int64_t logits[2] = {n->tokens, n->vocab}, tokens[2] = {n->tokens, 2};
    const int64_t all = n->valid ? n->valid : n->first + n->vocab;
    const int loss = strcmp(c->id, "xent.loss") == 0, finish = strcmp(c->id, "xent.finish") == 0;
    (void)gt;
    if (!loss)
        add_input(c, ct, 2, logits, -8, 8);
    if (strcmp(c->id, "xent.max") != 0)
        add_input(c, WEFT_I32, 1, tokens, -1.2, (double)all); /* some targets are ignored */
    if (loss) {
        add_input(c, WEFT_F32, 1, tokens, 8, 9);
        add_input(c, WEFT_F32, 2, tokens, 1, 40);
    } else if (c->nin > 1) {
        add_sums(c, n);
    }
    if (finish)
        add_input(c, WEFT_F32, 0, NULL, 0.5, 4);
    if (finish)
        add_output(c, ct, 2, logits);
    else if (!loss)
        add_output(c, WEFT_F32, c->nin > 1 ? 2 : 1, tokens);
    if (finish || loss)
        add_output(c, WEFT_F32, 0, NULL);
    add_attr(c, "weight", 0, 1.0 / (double)n->tokens);
    add_attr(c, "valid", n->valid, 0);
    add_attr(c, "first", n->first, 0);
}

static void make_flat(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    input_rows(c, ct, n->tokens, n->cols);
    if (strcmp(c->id, "sumsq") == 0)
        add_output(c, WEFT_F32, 0, NULL);
    else
        output_rows(c, gt, n->tokens, n->cols);
}

/* [tokens, heads, dim] to [heads, tokens, dim] */
static void make_interchange(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int64_t from[3] = {n->tokens, n->heads, n->dim}, to[3] = {n->heads, n->tokens, n->dim};
    (void)gt;
    add_input(c, ct, 3, from, -2, 2);
    add_output(c, ct, 3, to);
}

/* A part of a tensor that has `heads` more on axis 1 and `valid` more on the last axis; of random
 * numbers that are normal when `causal`, timed by the step when `bias`. */
static void make_random(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const int dropout = strcmp(c->id, "dropout") == 0, by_step = !dropout && n->bias;
    static const char *const keys[] = {"whole.0", "whole.1", "whole.2"};
    (void)gt;
    if (dropout)
        input_rows(c, ct, n->tokens, n->cols);
    add_input(c, by_step ? WEFT_F32 : WEFT_I64, 0, NULL, 1e6, 1e7);
    c->x[dropout][0] = floor(c->x[dropout][0]);
    if (dropout && n->bias) {
        input_features(c, ct, n->cols);
        if (n->bias > 1)
            input_rows(c, ct, n->tokens, n->cols);
    } else if (!dropout) {
        input_rows(c, ct, n->tokens, n->cols);
        free(c->x[1]);
        c->x[1] = NULL; /* only its shape is used: no address */
    }
    output_rows(c, dropout ? ct : WEFT_F32, n->tokens, n->cols);
    for (uint32_t k = 0; k < c->out[0].rank; k++)
        add_attr(c, keys[k],
                 c->out[0].size[k] + (k == 1 ? n->heads : 0) +
                     (k && k + 1 == c->out[0].rank ? n->valid : 0),
                 0);
    add_attr(c, "first", n->first, 0);
    add_attr(c, "seed", 0x299f31d0a4093822, 0);
    add_attr(c, "stream", 0x0370734413198a2e, 0);
    if (dropout)
        add_attr(c, "p", 0, 0.3);
    else
        add_attr(c, "distribution", n->causal, 0);
}

void make_call(check_call *c, const char *id, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    static const struct {
        const char *prefix;
        void (*make)(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt);
    } makers[] = {
        {"linear", make_linear},
        {"embedding", make_embedding},
        {"layernorm", make_layernorm},
        {"attention.cached", make_cached},
        {"cache.write", make_cached},
        {"attention", make_attention},
        {"rmsnorm", make_rmsnorm},
        {"swiglu", make_swiglu},
        {"rope", make_rope},
        {"softmax", make_xent},
        {"xent.", make_vocab},
        {"accumulate", make_flat},
        {"sumsq", make_flat},
        {"gelu", make_rows},
        {"bias_residual", make_rows},
        {"colsum", make_rows},
        {"interchange", make_interchange},
        {"random", make_random},
        {"dropout", make_random},
    };
    *c = (check_call){.id = id};
    if (is_joined(id)) {
        make_joined(c, n, ct, gt);
        return;
    }
    if (is_axis(id)) {
        make_axis(c, n, ct, gt);
        return;
    }
    for (size_t k = 0; k < sizeof makers / sizeof *makers; k++)
        if (strncmp(id, makers[k].prefix, strlen(makers[k].prefix)) == 0) {
            makers[k].make(c, n, ct, gt);
            return;
        }
    fail_msg("make_call() has no maker for op %s: add one to its table in cases.c", id);
}
