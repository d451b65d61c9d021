/* Every op of the core in double precision, by the plainest loops: the referee for gradients and
 * splits. An op is evaluated from its shapes alone, so that it may be a rank's part of one. An id
 * that has no entry here fails. Include cmocka.h before it. */
#ifndef OP_EVAL_H
#define OP_EVAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <weft/op.h>

#include "philox.h"

typedef struct eval_call {
    const char *id;
    const weft_attr *attrs;
    uint32_t nattr, nin, nout;
    const weft_shape *is, *os; /* [nin], [nout] */
    double *const *in;
    double *const *out;
} eval_call;

static int64_t eval_elements(const weft_shape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->axes[i].size;
    return n;
}

static const weft_attr *eval_attr(const eval_call *c, const char *key)
{
    static const weft_attr none = {0};
    for (uint32_t i = 0; i < c->nattr; i++)
        if (!strcmp(c->attrs[i].key, key))
            return &c->attrs[i];
    return &none;
}

/* Rows and columns of operand `s` seen as a matrix whose rows are its first axis. */
static int64_t eval_columns(const weft_shape *s)
{
    return eval_elements(s) / s->axes[0].size;
}

/* --- Products: x [t, k], w [m, k], y [t, m] --- */

static void eval_linear(const eval_call *c)
{
    int64_t t = c->is[0].axes[0].size, k = eval_columns(&c->is[0]), m = eval_columns(&c->os[0]);
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < m; j++) {
            double sum = c->nin > 2 ? c->in[2][j] : 0;
            for (int64_t l = 0; l < k; l++)
                sum += c->in[0][i * k + l] * c->in[1][j * k + l];
            c->out[0][i * m + j] = sum;
        }
}

static void eval_linear_dx(const eval_call *c)
{
    int64_t t = c->is[0].axes[0].size, m = eval_columns(&c->is[0]), k = eval_columns(&c->os[0]);
    for (int64_t i = 0; i < t; i++)
        for (int64_t l = 0; l < k; l++) {
            double sum = 0;
            for (int64_t j = 0; j < m; j++)
                sum += c->in[0][i * m + j] * c->in[1][j * k + l];
            c->out[0][i * k + l] = sum;
        }
}

static void eval_linear_dw(const eval_call *c)
{
    int64_t t = c->is[0].axes[0].size, m = eval_columns(&c->is[0]), k = eval_columns(&c->is[1]);
    for (int64_t j = 0; j < m; j++)
        for (int64_t l = 0; l < k; l++) {
            double sum = 0;
            for (int64_t i = 0; i < t; i++)
                sum += c->in[0][i * m + j] * c->in[1][i * k + l];
            c->out[0][j * k + l] = sum;
        }
}

static void eval_colsum(const eval_call *c)
{
    int64_t t = c->is[0].axes[0].size, m = eval_columns(&c->is[0]);
    for (int64_t j = 0; j < m; j++) {
        c->out[0][j] = 0;
        for (int64_t i = 0; i < t; i++)
            c->out[0][j] += c->in[0][i * m + j];
    }
}

/* --- Normalisation --- */

static void eval_layernorm(const eval_call *c)
{
    int64_t t = c->is[0].axes[0].size, n = eval_columns(&c->is[0]);
    for (int64_t i = 0; i < t; i++) {
        const double *x = c->in[0] + i * n;
        double mean = 0, var = 0;
        for (int64_t j = 0; j < n; j++)
            mean += x[j] / (double)n;
        for (int64_t j = 0; j < n; j++)
            var += (x[j] - mean) * (x[j] - mean) / (double)n;
        double rstd = 1 / sqrt(var + eval_attr(c, "eps")->f);
        for (int64_t j = 0; j < n; j++)
            c->out[0][i * n + j] = (x[j] - mean) * rstd * c->in[1][j] + c->in[2][j];
        c->out[1][i] = mean;
        c->out[2][i] = rstd;
    }
}

static void eval_layernorm_dx(const eval_call *c)
{
    int64_t t = c->is[0].axes[0].size, n = eval_columns(&c->is[0]);
    for (int64_t i = 0; i < t; i++) {
        const double *dy = c->in[0] + i * n, *x = c->in[1] + i * n, *g = c->in[2];
        double mean = c->in[3][i], rstd = c->in[4][i], a = 0, b = 0;
        for (int64_t j = 0; j < n; j++) {
            a += dy[j] * g[j] / (double)n;
            b += dy[j] * g[j] * (x[j] - mean) * rstd / (double)n;
        }
        for (int64_t j = 0; j < n; j++)
            c->out[0][i * n + j] = rstd * (dy[j] * g[j] - a - (x[j] - mean) * rstd * b);
    }
}

static void eval_layernorm_dw(const eval_call *c)
{
    int64_t t = c->is[0].axes[0].size, n = eval_columns(&c->is[0]);
    for (int64_t j = 0; j < n; j++) {
        c->out[0][j] = c->out[1][j] = 0;
        for (int64_t i = 0; i < t; i++) {
            double dy = c->in[0][i * n + j];
            c->out[0][j] += dy * (c->in[1][i * n + j] - c->in[2][i]) * c->in[3][i];
            c->out[1][j] += dy;
        }
    }
}

static int64_t eval_last(const weft_shape *x)
{
    return x->axes[x->rank - 1].size;
}

static void eval_rmsnorm(const eval_call *c)
{
    int64_t n = eval_last(&c->is[0]), t = eval_elements(&c->is[0]) / n;
    for (int64_t i = 0; i < t; i++) {
        const double *x = c->in[0] + i * n;
        double square = 0;
        for (int64_t j = 0; j < n; j++)
            square += x[j] * x[j];
        c->out[1][i] = 1 / sqrt(square / (double)n + eval_attr(c, "eps")->f);
        for (int64_t j = 0; j < n; j++)
            c->out[0][i * n + j] = x[j] * c->out[1][i] * c->in[1][j];
    }
}

static void eval_rmsnorm_dx(const eval_call *c)
{
    int64_t n = eval_last(&c->is[0]), t = eval_elements(&c->is[0]) / n;
    for (int64_t i = 0; i < t; i++) {
        const double *dy = c->in[0] + i * n, *x = c->in[1] + i * n, *g = c->in[2];
        double rstd = c->in[3][i], a = 0;
        for (int64_t j = 0; j < n; j++)
            a += dy[j] * g[j] * x[j] * rstd / (double)n;
        for (int64_t j = 0; j < n; j++)
            c->out[0][i * n + j] = rstd * (dy[j] * g[j] - x[j] * rstd * a);
    }
}

static void eval_rmsnorm_dw(const eval_call *c)
{
    int64_t n = eval_last(&c->is[0]), t = eval_elements(&c->is[0]) / n;
    for (int64_t j = 0; j < n; j++) {
        c->out[0][j] = 0;
        for (int64_t i = 0; i < t; i++)
            c->out[0][j] += c->in[0][i * n + j] * c->in[1][i * n + j] * c->in[2][i];
    }
}

#include "op_eval_cached.h"

/* --- Rotation: elements i and i + half of a head are the parts of one complex number --- */

/* Given with the token, and the nearest in the sequence; or counted. */
static int64_t eval_rope_position(const eval_call *c, int64_t t)
{
    const int64_t n = eval_attr(c, "sequence")->i, at = c->nin > 1 ? (int64_t)c->in[1][t] : t % n;
    return at < 0 ? 0 : at < n ? at : n - 1;
}

static void eval_rope(const eval_call *c)
{
    int64_t heads = c->is[0].axes[1].size, dim = c->is[0].axes[2].size, half = dim / 2;
    for (int64_t i = 0; i < eval_elements(&c->is[0]); i++) {
        int64_t t = eval_rope_position(c, i / dim / heads), at = i % dim, pair = at % half;
        double theta = eval_attr(c, "theta")->f, sign = eval_attr(c, "sign")->i < 0 ? -1 : 1;
        double a =
            sign * (double)t * pow(theta > 0 ? theta : 1e4, -2.0 * (double)pair / (double)dim);
        double other = at < half ? -c->in[0][i + half] : c->in[0][i - half];
        c->out[0][i] = c->in[0][i] * cos(a) + other * sin(a);
    }
}

/* --- Attention; at() finds query, key or value (which = 0, 1, 2) of a token for a head of queries,
 * in one operand or in three --- */

typedef struct eval_heads {
    int64_t tokens, heads, kv_heads, dim, sequence;
    double scale;
    int causal, joined;
    const double *reach; /* NULL: none */
} eval_heads;

static eval_heads eval_heads_of(const eval_call *c, uint32_t first)
{
    const weft_shape *q = &c->is[first];
    int joined = q->rank == 4;
    eval_heads h = {q->axes[0].size,
                    q->axes[joined ? 2 : 1].size,
                    q->axes[joined ? 2 : 1].size,
                    q->axes[joined ? 3 : 2].size,
                    eval_attr(c, "sequence")->i,
                    0,
                    eval_attr(c, "causal")->i != 0,
                    joined,
                    NULL};
    const uint32_t operands = (joined ? 1 : 3) + 3 * first;
    h.reach = c->nin > operands ? c->in[operands] : NULL;
    if (!joined)
        h.kv_heads = c->is[first + 1].axes[1].size;
    h.scale = 1 / sqrt((double)h.dim);
    return h;
}

static double *eval_at(const eval_heads *h, double *const *x, int64_t token, int which,
                       int64_t head)
{
    if (h->joined)
        return x[0] + ((token * 3 + which) * h->heads + head) * h->dim;
    if (!which)
        return x[0] + (token * h->heads + head) * h->dim;
    return x[which] + (token * h->kv_heads + head / (h->heads / h->kv_heads)) * h->dim;
}

static double eval_dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Tokens [*from, *to) that `token` attends to. */
static void eval_range(const eval_heads *h, int64_t token, int64_t *from, int64_t *to)
{
    *from = token / h->sequence * h->sequence;
    *to = h->causal ? token + 1 : *from + h->sequence;
    if (h->reach && token - (int64_t)h->reach[token] > *from)
        *from = token - (int64_t)h->reach[token];
}

static void eval_attention(const eval_call *c)
{
    eval_heads h = eval_heads_of(c, 0);
    for (int64_t t = 0; t < h.tokens; t++)
        for (int64_t a = 0; a < h.heads; a++) {
            int64_t from, to;
            double *q = eval_at(&h, c->in, t, 0, a), *y = c->out[0] + (t * h.heads + a) * h.dim;
            double sum = 0;
            eval_range(&h, t, &from, &to);
            memset(y, 0, (size_t)h.dim * sizeof *y);
            for (int64_t s = from; s < to; s++) {
                double p = exp(h.scale * eval_dot(q, eval_at(&h, c->in, s, 1, a), h.dim));
                sum += p;
                for (int64_t d = 0; d < h.dim; d++)
                    y[d] += p * eval_at(&h, c->in, s, 2, a)[d];
            }
            for (int64_t d = 0; d < h.dim; d++)
                y[d] /= sum;
            c->out[1][t * h.heads + a] = log(sum);
        }
}

/* What query t of head a adds to the gradients. */
static void eval_attention_dx_row(const eval_call *c, const eval_heads *h, int64_t t, int64_t a)
{
    int64_t from, to, at = t * h->heads + a;
    const double *dy = c->in[0] + at * h->dim, *y = c->in[h->joined ? 2 : 4] + at * h->dim;
    double *const *x = c->in + 1, *const *dx = c->out;
    double *q = eval_at(h, x, t, 0, a), ydy = eval_dot(y, dy, h->dim);
    eval_range(h, t, &from, &to);
    for (int64_t s = from; s < to; s++) {
        double *k = eval_at(h, x, s, 1, a), *v = eval_at(h, x, s, 2, a);
        double p = exp(h->scale * eval_dot(q, k, h->dim) - c->in[h->joined ? 3 : 5][at]);
        double ds = h->scale * p * (eval_dot(dy, v, h->dim) - ydy);
        for (int64_t d = 0; d < h->dim; d++) {
            eval_at(h, dx, t, 0, a)[d] += ds * k[d];
            eval_at(h, dx, s, 1, a)[d] += ds * q[d];
            eval_at(h, dx, s, 2, a)[d] += p * dy[d];
        }
    }
}

static void eval_attention_dx(const eval_call *c)
{
    eval_heads h = eval_heads_of(c, 1);
    for (uint32_t i = 0; i < c->nout; i++)
        memset(c->out[i], 0, (size_t)eval_elements(&c->os[i]) * sizeof(double));
    for (int64_t t = 0; t < h.tokens; t++)
        for (int64_t a = 0; a < h.heads; a++)
            eval_attention_dx_row(c, &h, t, a);
}

/* --- Embedding and loss --- */

static void eval_embedding(const eval_call *c)
{
    int64_t rows = c->is[0].axes[0].size, n = eval_columns(&c->is[0]);
    for (int64_t t = 0; t < c->is[1].axes[0].size; t++) {
        int64_t row = (int64_t)c->in[1][t] - eval_attr(c, "first")->i;
        for (int64_t j = 0; j < n; j++)
            c->out[0][t * n + j] = row >= 0 && row < rows ? c->in[0][row * n + j] : 0;
    }
}

static void eval_embedding_dw(const eval_call *c)
{
    int64_t rows = c->os[0].axes[0].size, n = eval_columns(&c->os[0]);
    memset(c->out[0], 0, (size_t)(rows * n) * sizeof(double));
    for (int64_t t = 0; t < c->is[1].axes[0].size; t++) {
        int64_t row = (int64_t)c->in[1][t] - eval_attr(c, "first")->i;
        for (int64_t j = 0; row >= 0 && row < rows && j < n; j++)
            c->out[0][row * n + j] += c->in[0][t * n + j];
    }
}

/* nll of row t; its softmax into p */
static double eval_softmax(const eval_call *c, int64_t t, double *p)
{
    int64_t n = c->is[0].axes[1].size, target = (int64_t)c->in[1][t];
    int64_t valid = eval_attr(c, "valid")->i ? eval_attr(c, "valid")->i : n;
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        p[j] = j < valid ? exp(c->in[0][t * n + j]) : 0;
        sum += p[j];
    }
    for (int64_t j = 0; j < n; j++)
        p[j] /= sum;
    return target < 0 ? 0 : -log(p[target]);
}

static void eval_xent(const eval_call *c)
{
    int64_t n = c->is[0].axes[1].size;
    int full = c->nout == 2;
    double weight = eval_attr(c, "weight")->f, p[64], *loss = c->out[full];
    *loss = 0;
    for (int64_t t = 0; t < c->is[0].axes[0].size; t++) {
        int64_t target = (int64_t)c->in[1][t];
        *loss += weight * eval_softmax(c, t, p);
        for (int64_t j = 0; full && j < n; j++)
            c->out[0][t * n + j] = target < 0 ? 0 : (p[j] - (j == target)) * weight * c->in[2][0];
    }
}

/* --- The loss over a part of the vocabulary --- */

static void eval_vocab_max(const eval_call *c)
{
    int64_t n = c->is[0].axes[1].size;
    for (int64_t t = 0; t < c->is[0].axes[0].size; t++) {
        c->out[0][t] = c->in[0][t * n];
        for (int64_t j = 1; j < n; j++)
            c->out[0][t] = fmax(c->out[0][t], c->in[0][t * n + j]);
    }
}

static void eval_vocab_sums(const eval_call *c)
{
    int64_t n = c->is[0].axes[1].size;
    for (int64_t t = 0; t < c->is[0].axes[0].size; t++) {
        int64_t target = (int64_t)c->in[1][t] - eval_attr(c, "first")->i;
        double *out = c->out[0] + 2 * t;
        out[0] = out[1] = 0;
        for (int64_t j = 0; j < n; j++) {
            out[0] += exp(c->in[0][t * n + j] - c->in[2][t]);
            out[1] += j == target ? c->in[0][t * n + j] : 0;
        }
    }
}

static void eval_vocab_loss(const eval_call *c)
{
    int full = c->nout == 2;
    const double *targets = c->in[full], *max = c->in[1 + full], *sums = c->in[2 + full];
    double *loss = c->out[full], weight = eval_attr(c, "weight")->f;
    int64_t n = full ? c->is[0].axes[1].size : 0;
    *loss = 0;
    for (int64_t t = 0; t < c->is[0].axes[0].size; t++) {
        if (targets[t] >= 0)
            *loss += weight * (log(sums[2 * t]) + max[t] - sums[2 * t + 1]);
        for (int64_t j = 0; j < n; j++) {
            double p = exp(c->in[0][t * n + j] - max[t]) / sums[2 * t];
            p -= j + eval_attr(c, "first")->i == (int64_t)targets[t];
            c->out[0][t * n + j] = targets[t] < 0 ? 0 : p * weight * c->in[4][0];
        }
    }
}

/* --- The rest, element by element --- */

static double eval_gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double eval_gelu_slope(double x)
{
    double u = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + u) +
           0.5 * x * (1 - u * u) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

/* Of an input that may be absent. */
static double eval_perhaps(const eval_call *c, uint32_t input, int64_t i)
{
    return input < c->nin ? c->in[input][i] : 0;
}

static void eval_bias(const eval_call *c)
{
    int64_t n = eval_elements(&c->os[0]), columns = eval_columns(&c->os[0]);
    for (int64_t i = 0; i < n; i++) {
        if (!strcmp(c->id, "gelu.dx"))
            c->out[0][i] =
                c->in[0][i] * eval_gelu_slope(c->in[1][i] + eval_perhaps(c, 2, i % columns));
        else if (!strcmp(c->id, "gelu"))
            c->out[0][i] = eval_gelu(c->in[0][i] + eval_perhaps(c, 1, i % columns));
        else
            c->out[0][i] = c->in[0][i] + c->in[1][i % columns] + c->in[2][i];
    }
}

static void eval_swiglu(const eval_call *c)
{
    for (int64_t i = 0; i < eval_elements(&c->os[0]); i++) {
        double gate = c->in[c->nin - 2][i], up = c->in[c->nin - 1][i], s = 1 / (1 + exp(-gate));
        if (c->nin == 2) {
            c->out[0][i] = gate * s * up;
            continue;
        }
        c->out[0][i] = c->in[0][i] * up * (s + gate * s * (1 - s));
        c->out[1][i] = c->in[0][i] * gate * s;
    }
}

/* The number of element i of a part of operand `s`; whole sizes are attributes, or those of s. */
static uint64_t eval_numbered(const eval_call *c, const weft_shape *s, double time, int64_t i)
{
    uint64_t number = (uint64_t)eval_attr(c, "first")->i, distance = 1, rest = (uint64_t)i;
    for (uint32_t k = s->rank; k-- > 0;) {
        char key[16] = "whole.0";
        key[6] = (char)('0' + k);
        const uint64_t own = (uint64_t)s->axes[k].size;
        const int64_t whole = eval_attr(c, key)->i;
        number += rest % own * distance;
        rest /= own;
        if (k)
            distance *= whole ? (uint64_t)whole : own;
    }
    if (c->is[0].dtype == WEFT_F32) /* the unit of time is a row, or that of steps */
        distance = (uint64_t)1 << 40;
    return number + (uint64_t)time * distance;
}

static void eval_random(const eval_call *c)
{
    const uint64_t stream = (uint64_t)eval_attr(c, "stream")->i;
    const uint64_t seed = (uint64_t)eval_attr(c, "seed")->i;
    for (int64_t i = 0; i < eval_elements(&c->os[0]); i++) {
        const uint64_t n = eval_numbered(c, &c->os[0], c->in[0][0], i);
        c->out[0][i] = eval_attr(c, "distribution")->i ? philox_normal(n, stream, seed)
                                                       : philox_uniform(n, stream, seed);
    }
}

static void eval_dropout(const eval_call *c)
{
    const double p = eval_attr(c, "p")->f;
    eval_call numbers = *c;
    const weft_shape time = {.dtype = WEFT_I64};
    numbers.is = &time;
    for (int64_t i = 0; i < eval_elements(&c->os[0]); i++) {
        const uint64_t n = eval_numbered(&numbers, &c->os[0], c->in[1][0], i);
        const double x = c->in[0][i] + eval_perhaps(c, 2, i % eval_columns(&c->os[0]));
        const int drops = philox_drops(n, (uint64_t)eval_attr(c, "stream")->i,
                                       (uint64_t)eval_attr(c, "seed")->i, p);
        c->out[0][i] = (drops ? 0 : x / (1 - p)) + eval_perhaps(c, 3, i);
    }
}

static void eval_sumsq(const eval_call *c)
{
    c->out[0][0] = eval_dot(c->in[0], c->in[0], eval_elements(&c->is[0]));
}

#include "op_eval_axis.h"

/* Gives other axes to the same numbers. */
static inline bool eval_relabels(const char *id)
{
    return !strcmp(id, "rename") || !strcmp(id, "merge") || !strcmp(id, "unmerge");
}

static double eval_number(const char *id, double a, double b, double c)
{
    static const struct {
        const char *id;
        double (*f)(double);
    } one[] = {{"sqrt", sqrt}, {"abs", fabs},        {"exp", exp},    {"log", log},
               {"cos", cos},   {"round", nearbyint}, {"floor", floor}};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        if (!strcmp(id, one[i].id))
            return one[i].f(a);
    if (!strcmp(id, "add"))
        return a + b;
    if (!strcmp(id, "sub"))
        return a - b;
    if (!strcmp(id, "mul"))
        return a * b;
    if (!strcmp(id, "div"))
        return a / b;
    if (!strcmp(id, "pow"))
        return pow(a, b);
    if (!strcmp(id, "min"))
        return a < b ? a : b;
    if (!strcmp(id, "max"))
        return a > b ? a : b;
    if (!strcmp(id, "less"))
        return a < b;
    if (!strcmp(id, "select"))
        return c != 0 ? a : b;
    if (!strcmp(id, "neg"))
        return -a;
    if (!strcmp(id, "sign"))
        return (a > 0) - (a < 0);
    if (!strcmp(id, "finite"))
        return isfinite(a) != 0;
    if (strcmp(id, "copy") && strcmp(id, "accumulate") && !eval_relabels(id))
        fail_msg("op_eval.h does not know op %s: add it to eval_op() or eval_number()", id);
    return a;
}

static void eval_elementwise(const eval_call *c)
{
    for (int64_t i = 0; i < eval_elements(&c->os[0]); i++) {
        double x[3] = {0};
        for (uint32_t k = 0; k < c->nin; k++)
            x[k] = c->in[k][c->is[k].rank ? i : 0];
        c->out[0][i] = eval_number(c->id, x[0], x[1], x[2]);
    }
}

static void eval_op(const eval_call *c)
{
    static const struct {
        const char *id;
        void (*f)(const eval_call *c);
    } table[] = {
        {"linear", eval_linear},
        {"linear.dx", eval_linear_dx},
        {"linear.dw", eval_linear_dw},
        {"colsum", eval_colsum},
        {"layernorm", eval_layernorm},
        {"layernorm.dx", eval_layernorm_dx},
        {"layernorm.dw", eval_layernorm_dw},
        {"rmsnorm", eval_rmsnorm},
        {"rmsnorm.dx", eval_rmsnorm_dx},
        {"rmsnorm.dw", eval_rmsnorm_dw},
        {"rope", eval_rope},
        {"swiglu", eval_swiglu},
        {"swiglu.dx", eval_swiglu},
        {"attention", eval_attention},
        {"cache.write", eval_cache_write},
        {"attention.cached", eval_attention_cached},
        {"attention.dx", eval_attention_dx},
        {"embedding", eval_embedding},
        {"embedding.dw", eval_embedding_dw},
        {"softmax_xent", eval_xent},
        {"softmax_xent.loss", eval_xent},
        {"xent.max", eval_vocab_max},
        {"xent.sums", eval_vocab_sums},
        {"xent.finish", eval_vocab_loss},
        {"xent.loss", eval_vocab_loss},
        {"gelu", eval_bias},
        {"gelu.dx", eval_bias},
        {"bias_residual", eval_bias},
        {"sumsq", eval_sumsq},
        {"cast", eval_cast},
        {"sum_axis", eval_axis},
        {"max_axis", eval_axis},
        {"broadcast", eval_axis},
        {"repeat", eval_axis},
        {"bmm", eval_bmm},
        {"bmm.dx", eval_bmm},
        {"bmm.dw", eval_bmm},
        {"random", eval_random},
        {"dropout", eval_dropout},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(c->id, table[i].id)) {
            table[i].f(c);
            return;
        }
    eval_elementwise(c);
}

#endif
