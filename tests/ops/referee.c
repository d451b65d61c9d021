/* referee.c: naive loops, straight from the definitions, with no thought for speed. */
#include "referee.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t axis(const weft_operand *o, uint32_t k)
{
    return o->size[k];
}

/* Elements of a row of an operand whose first axis is tokens. */
static int64_t row(const weft_operand *o)
{
    return count_of(o) / axis(o, 0);
}

static int64_t attr_i(const struct call *c, const char *key)
{
    for (uint32_t k = 0; k < c->nattr; k++)
        if (strcmp(c->attr[k].key, key) == 0)
            return c->attr[k].i;
    return 0;
}

static double attr_f(const struct call *c, const char *key)
{
    for (uint32_t k = 0; k < c->nattr; k++)
        if (strcmp(c->attr[k].key, key) == 0)
            return c->attr[k].f;
    return 0;
}

static void put(const struct call *c, uint32_t k, int64_t i, double v)
{
    c->y[k][i] = (c->flags & WEFT_SPEC_ACCUMULATE ? c->y[k][i] : 0) + v;
}

static void embedding(const struct call *c)
{
    const int64_t t = axis(&c->out[0], 0), f = row(&c->out[0]), rows = axis(&c->in[0], 0);
    for (int64_t i = 0; i < t; i++)
        for (int64_t k = 0; k < f; k++) {
            const int64_t id = (int64_t)c->x[1][i] - attr_i(c, "first");
            c->y[0][i * f + k] = id < 0 || id >= rows ? 0 : c->x[0][id * f + k];
        }
}

static void embedding_dw(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), f = row(&c->in[0]), rows = axis(&c->out[0], 0);
    for (int64_t i = 0; i < rows * f; i++)
        put(c, 0, i, 0);
    for (int64_t i = 0; i < t; i++) {
        const int64_t id = (int64_t)c->x[1][i] - attr_i(c, "first");
        for (int64_t k = 0; k < f && id >= 0 && id < rows; k++)
            c->y[0][id * f + k] += c->x[0][i * f + k];
    }
}

static void layernorm(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), n = row(&c->in[0]);
    for (int64_t i = 0; i < t; i++) {
        const double *x = c->x[0] + i * n;
        double mean = 0, var = 0;
        for (int64_t k = 0; k < n; k++)
            mean += x[k] / (double)n;
        for (int64_t k = 0; k < n; k++)
            var += (x[k] - mean) * (x[k] - mean) / (double)n;
        const double rstd = 1 / sqrt(var + attr_f(c, "eps"));
        for (int64_t k = 0; k < n; k++)
            c->y[0][i * n + k] = (x[k] - mean) * rstd * c->x[1][k] + c->x[2][k];
        c->y[1][i] = mean;
        c->y[2][i] = rstd;
    }
}

static void layernorm_dx(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), n = row(&c->in[0]);
    for (int64_t i = 0; i < t; i++) {
        const double *dy = c->x[0] + i * n, *x = c->x[1] + i * n, *g = c->x[2];
        const double mean = c->x[3][i], rstd = c->x[4][i];
        double h = 0, hn = 0;
        for (int64_t k = 0; k < n; k++) {
            h += dy[k] * g[k] / (double)n;
            hn += dy[k] * g[k] * (x[k] - mean) * rstd / (double)n;
        }
        for (int64_t k = 0; k < n; k++)
            c->y[0][i * n + k] = rstd * (dy[k] * g[k] - h - (x[k] - mean) * rstd * hn);
    }
}

static void layernorm_dw(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), n = row(&c->in[0]);
    for (int64_t k = 0; k < n; k++) {
        double dg = 0, db = 0;
        for (int64_t i = 0; i < t; i++) {
            dg += c->x[0][i * n + k] * (c->x[1][i * n + k] - c->x[2][i]) * c->x[3][i];
            db += c->x[0][i * n + k];
        }
        put(c, 0, k, dg);
        put(c, 1, k, db);
    }
}

static void linear(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), in = row(&c->in[0]), out = count_of(&c->out[0]) / t;
    for (int64_t i = 0; i < t; i++)
        for (int64_t o = 0; o < out; o++) {
            double s = c->nin > 2 ? c->x[2][o] : 0;
            for (int64_t k = 0; k < in; k++)
                s += c->x[0][i * in + k] * c->x[1][o * in + k];
            c->y[0][i * out + o] = s;
        }
}

static void linear_dx(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), out = row(&c->in[0]), in = row(&c->out[0]);
    for (int64_t i = 0; i < t; i++)
        for (int64_t k = 0; k < in; k++) {
            double s = 0;
            for (int64_t o = 0; o < out; o++)
                s += c->x[0][i * out + o] * c->x[1][o * in + k];
            c->y[0][i * in + k] = s;
        }
}

static void linear_dw(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), out = row(&c->in[0]), in = row(&c->in[1]);
    for (int64_t o = 0; o < out; o++)
        for (int64_t k = 0; k < in; k++) {
            double s = 0;
            for (int64_t i = 0; i < t; i++)
                s += c->x[0][i * out + o] * c->x[1][i * in + k];
            put(c, 0, o * in + k, s);
        }
}

static void colsum(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), n = row(&c->in[0]);
    for (int64_t k = 0; k < n; k++) {
        double s = 0;
        for (int64_t i = 0; i < t; i++)
            s += c->x[0][i * n + k];
        put(c, 0, k, s);
    }
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static void bias_gelu(const struct call *c)
{
    const int64_t n = row(&c->in[0]);
    for (int64_t i = 0; i < count_of(&c->in[0]); i++)
        c->y[0][i] = gelu(c->x[0][i] + c->x[1][i % n]);
}

static void bias_gelu_dx(const struct call *c)
{
    const int64_t n = row(&c->in[0]);
    for (int64_t i = 0; i < count_of(&c->in[0]); i++) {
        const double z = c->x[1][i] + c->x[2][i % n],
                     u = sqrt(2 / M_PI) * (z + 0.044715 * z * z * z);
        const double du = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * z * z), th = tanh(u);
        c->y[0][i] = c->x[0][i] * (0.5 * (1 + th) + 0.5 * z * (1 - th * th) * du);
    }
}

static void bias_residual(const struct call *c)
{
    const int64_t n = row(&c->in[0]);
    for (int64_t i = 0; i < count_of(&c->in[0]); i++)
        c->y[0][i] = c->x[0][i] + c->x[1][i % n] + c->x[2][i];
}

/* Where element (token, which of q k v, head, d) of qkv [T,3,H,D] lies. */
struct heads {
    int64_t t, h, d, n;
    int causal;
};

static struct heads heads_of(const struct call *c, const weft_operand *qkv)
{
    return (struct heads){axis(qkv, 0), axis(qkv, 2), axis(qkv, 3), attr_i(c, "sequence"),
                          attr_i(c, "causal") != 0};
}

static int64_t at(const struct heads *s, int64_t token, int64_t which, int64_t head)
{
    return ((token * 3 + which) * s->h + head) * s->d;
}

/* Scores of a query against the keys of its sequence; those it does not see are minus infinity. */
static void scores(const struct heads *s, const double *qkv, int64_t q, int64_t h, double *p)
{
    const int64_t first = q / s->n * s->n;
    for (int64_t k = 0; k < s->n; k++) {
        p[k] = 0;
        for (int64_t d = 0; d < s->d; d++)
            p[k] += qkv[at(s, q, 0, h) + d] * qkv[at(s, first + k, 1, h) + d] / sqrt((double)s->d);
        if (s->causal && first + k > q)
            p[k] = -INFINITY;
    }
}

static void attention(const struct call *c)
{
    const struct heads s = heads_of(c, &c->in[0]);
    double *p = calloc((size_t)s.n, sizeof *p);
    for (int64_t q = 0; q < s.t; q++)
        for (int64_t h = 0; h < s.h; h++) {
            const int64_t first = q / s.n * s.n;
            double max = -INFINITY, sum = 0, *y = c->y[0] + (q * s.h + h) * s.d;
            scores(&s, c->x[0], q, h, p);
            for (int64_t k = 0; k < s.n; k++)
                max = fmax(max, p[k]);
            for (int64_t k = 0; k < s.n; k++)
                sum += exp(p[k] - max);
            c->y[1][q * s.h + h] = max + log(sum);
            memset(y, 0, (size_t)s.d * sizeof *y);
            for (int64_t k = 0; k < s.n; k++)
                for (int64_t d = 0; d < s.d; d++)
                    y[d] += exp(p[k] - max) / sum * c->x[0][at(&s, first + k, 2, h) + d];
        }
    free(p);
}

/* One query's share of dqkv, given P and dy. */
static void attention_dx_query(const struct call *c, const struct heads *s, int64_t q, int64_t h,
                               const double *p)
{
    const int64_t first = q / s->n * s->n, row_at = (q * s->h + h) * s->d;
    const double *dy = c->x[0] + row_at, *qkv = c->x[1], *y = c->x[2] + row_at;
    double delta = 0, *g = c->y[0];
    for (int64_t d = 0; d < s->d; d++)
        delta += dy[d] * y[d];
    for (int64_t k = 0; k < s->n; k++) {
        double dp = 0;
        const int64_t key = at(s, first + k, 1, h), value = at(s, first + k, 2, h);
        for (int64_t d = 0; d < s->d; d++)
            dp += dy[d] * qkv[value + d];
        const double ds = p[k] * (dp - delta) / sqrt((double)s->d);
        for (int64_t d = 0; d < s->d; d++) {
            g[value + d] += p[k] * dy[d];
            g[at(s, q, 0, h) + d] += ds * qkv[key + d];
            g[key + d] += ds * qkv[at(s, q, 0, h) + d];
        }
    }
}

static void attention_dx(const struct call *c)
{
    const struct heads s = heads_of(c, &c->in[1]);
    double *p = calloc((size_t)s.n, sizeof *p);
    memset(c->y[0], 0, (size_t)count_of(&c->out[0]) * sizeof(double));
    for (int64_t q = 0; q < s.t; q++)
        for (int64_t h = 0; h < s.h; h++) {
            scores(&s, c->x[1], q, h, p);
            for (int64_t k = 0; k < s.n; k++)
                p[k] = exp(p[k] - c->x[3][q * s.h + h]);
            attention_dx_query(c, &s, q, h, p);
        }
    free(p);
}

/* Also the loss alone: then there is no gradient to write. */
static void xent(const struct call *c)
{
    const int64_t t = axis(&c->in[0], 0), v = row(&c->in[0]);
    const int64_t n = attr_i(c, "valid") ? attr_i(c, "valid") : v;
    const double weight = attr_f(c, "weight");
    double loss = 0;
    for (int64_t i = 0; i < t; i++) {
        const double *x = c->x[0] + i * v;
        const int64_t target = (int64_t)c->x[1][i];
        double max = -INFINITY, sum = 0;
        for (int64_t k = 0; k < n; k++)
            max = fmax(max, x[k]);
        for (int64_t k = 0; k < n; k++)
            sum += exp(x[k] - max);
        if (target >= 0)
            loss += (max + log(sum) - x[target]) * weight;
        for (int64_t k = 0; k < v && c->nout > 1; k++) {
            const double p = k < n ? exp(x[k] - max) / sum : 0;
            c->y[0][i * v + k] = target < 0 ? 0 : (p - (k == target)) * weight * c->x[2][0];
        }
    }
    c->y[c->nout - 1][0] = loss;
}

static void accumulate(const struct call *c)
{
    for (int64_t i = 0; i < count_of(&c->in[0]); i++)
        put(c, 0, i, c->x[0][i]);
}

static void sumsq(const struct call *c)
{
    double s = 0;
    for (int64_t i = 0; i < count_of(&c->in[0]); i++)
        s += c->x[0][i] * c->x[0][i];
    put(c, 0, 0, s);
}

void referee(const struct call *c)
{
    static const struct {
        const char *id;
        void (*run)(const struct call *c);
    } ops[] = {
        {"embedding", embedding},
        {"embedding.dw", embedding_dw},
        {"layernorm", layernorm},
        {"layernorm.dx", layernorm_dx},
        {"layernorm.dw", layernorm_dw},
        {"linear", linear},
        {"linear.dx", linear_dx},
        {"linear.dw", linear_dw},
        {"colsum", colsum},
        {"bias_gelu", bias_gelu},
        {"bias_gelu.dx", bias_gelu_dx},
        {"bias_residual", bias_residual},
        {"attention", attention},
        {"attention.dx", attention_dx},
        {"softmax_xent", xent},
        {"softmax_xent.loss", xent},
        {"accumulate", accumulate},
        {"sumsq", sumsq},
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (strcmp(ops[k].id, c->id) == 0) {
            ops[k].run(c);
            return;
        }
    fail_msg("the referee does not know op %s", c->id);
}
