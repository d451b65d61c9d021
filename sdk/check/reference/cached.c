/* check/reference/cached.c: ops on caches of keys and values. */
#include "check/reference/loops.h"
#include <math.h>
#include <string.h>

static void cache_write(const check_call *c)
{
    const int64_t heads = c->in[0].size[0], rows = c->in[0].size[1], dim = c->in[0].size[2];
    const int64_t part = attr_i(c, "part", 1);
    const int parts = c->in[1].rank == 4;
    memcpy(c->y[0], c->x[0], (size_t)(heads * rows * dim) * sizeof(double));
    for (int64_t t = 0; t < c->in[1].size[0]; t++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < dim; i++) {
                const double at = c->x[2][t];
                const int64_t row = parts ? 3 * t + part : t;
                if (at >= 0 && at < (double)rows)
                    c->y[0][(h * rows + (int64_t)at) * dim + i] =
                        c->x[1][(row * heads + h) * dim + i];
            }
}

static void one_head(const double *q, const double *k, const double *v, int64_t n, int64_t dim,
                     double *y)
{
    double sum = 0;
    for (int64_t p = 0; p < n; p++) {
        double score = 0;
        for (int64_t i = 0; i < dim; i++)
            score += q[i] * k[p * dim + i];
        score = exp(score / sqrt((double)dim));
        sum += score;
        for (int64_t i = 0; i < dim; i++)
            y[i] += score * v[p * dim + i];
    }
    for (int64_t i = 0; i < dim; i++)
        y[i] /= sum;
}

static void attention_cached(const check_call *c)
{
    const int64_t tokens = c->out[0].size[0], heads = c->out[0].size[1], dim = c->out[0].size[2];
    const int64_t kv = c->in[1].size[0], rows = c->in[1].size[1];
    const int64_t stride = c->in[0].rank == 4 ? 3 * heads : heads;
    memset(c->y[0], 0, (size_t)(tokens * heads * dim) * sizeof(double));
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < heads; h++) {
            const int64_t head = h * kv / heads * rows * dim;
            const double at = c->x[3][t];
            if (at >= 0 && at < (double)rows)
                one_head(c->x[0] + (t * stride + h) * dim, c->x[1] + head, c->x[2] + head,
                         (int64_t)at + 1, dim, c->y[0] + (t * heads + h) * dim);
        }
}

const check_loops check_loops_cached[] = {
    {"cache.write", cache_write}, {"attention.cached", attention_cached}, {0}};
