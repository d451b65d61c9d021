/* The core's ops on caches, for op_eval.h, which includes this file. */
#ifndef OP_EVAL_CACHED_H
#define OP_EVAL_CACHED_H

static void eval_cache_write(const eval_call *c)
{
    const weft_shape *cache = &c->is[0], *x = &c->is[1];
    const int64_t heads = cache->axes[0].size, rows = cache->axes[1].size;
    const int64_t dim = cache->axes[2].size;
    const weft_attr *part = eval_attr(c, "part");
    for (int64_t i = 0; i < eval_elements(cache); i++)
        c->out[0][i] = c->in[0][i];
    for (int64_t t = 0; t < x->axes[0].size; t++)
        for (int64_t i = 0; i < heads * dim; i++) {
            const int64_t at = (int64_t)c->in[2][t], h = i / dim;
            const int64_t row = x->rank == 4 ? t * 3 + (part->key ? part->i : 1) : t;
            if (at >= 0 && at < rows)
                c->out[0][(h * rows + at) * dim + i % dim] = c->in[1][row * heads * dim + i];
        }
}

/* One head of queries of one token, over rows 0 to `at` of k and v. */
static void eval_cached_head(const double *q, const double *k, const double *v, int64_t at,
                             int64_t dim, double *y)
{
    double most = -INFINITY, sum = 0;
    for (int64_t pass = 0; pass < 2; pass++)
        for (int64_t p = 0; p <= at; p++) {
            double score = 0;
            for (int64_t i = 0; i < dim; i++)
                score += q[i] * k[p * dim + i] / sqrt((double)dim);
            most = !pass && score > most ? score : most;
            sum += pass ? exp(score - most) : 0;
            for (int64_t i = 0; pass && i < dim; i++)
                y[i] += exp(score - most) * v[p * dim + i];
        }
    for (int64_t i = 0; i < dim; i++)
        y[i] /= sum;
}

static void eval_attention_cached(const eval_call *c)
{
    const weft_shape *q = &c->is[0], *k = &c->is[1];
    const int64_t heads = c->os[0].axes[1].size, dim = c->os[0].axes[2].size;
    const int64_t rows = k->axes[1].size, shared = heads / k->axes[0].size;
    for (int64_t t = 0; t < q->axes[0].size; t++)
        for (int64_t h = 0; h < heads; h++) {
            const int64_t at = (int64_t)c->in[3][t], from = h / shared * rows * dim;
            double *y = c->out[0] + (t * heads + h) * dim;
            for (int64_t i = 0; i < dim; i++)
                y[i] = 0;
            if (at >= 0 && at < rows)
                eval_cached_head(c->in[0] + ((q->rank == 4 ? 3 * t : t) * heads + h) * dim,
                                 c->in[1] + from, c->in[2] + from, at, dim, y);
        }
}

#endif
