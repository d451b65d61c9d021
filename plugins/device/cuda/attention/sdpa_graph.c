/* sdpa_graph.c: attention in cuDNN's own operations, out of which it makes one flash kernel.
 *
 * cuDNN recognises these graphs as a whole: products, scaling, mask, softmax, and their gradients,
 * in the order and with the types that its own front end gives them. Nothing between two operations
 * is ever stored (the tensors are virtual), except for what a caller has to lend: the sums of rows
 * of dO * O, and an fp32 accumulator of dQ, without which the gradient is deterministic but takes
 * the scores' worth of workspace. Keys are seen transposed by their strides.
 *
 *   forward    S = scale Q K', masked; P = softmax S; O = P V; stats = max + log of the sum
 *   backward   P = exp(scale Q K' - stats); dV = P' dO; dP = dO V' - rows of dO * O;
 *              dS = scale P dP; dK = dS' Q; dQ = dS K
 *
 * With fewer heads of keys than of queries, dV and dK are summed over those that share one. */
#include "sdpa_graph.h"
#include <stdio.h>
#include <string.h>

typedef cudnnBackendDescriptor_t desc;

enum { OPS = 32 };

/* A graph in the making: after the first failure its steps do nothing. */
struct making {
    const struct sdpa_calls *c;
    const struct sdpa_shape *s;
    struct sdpa_plan *plan;
    desc ops[OPS];
    int nops;
    int64_t next; /* number of the next virtual tensor */
    cudnnStatus_t st;
    char *why;
};

static void check(struct making *m, cudnnStatus_t st)
{
    if (m->st != CUDNN_STATUS_SUCCESS || st == CUDNN_STATUS_SUCCESS)
        return;
    m->st = st;
    m->c->cudnnGetLastErrorString(m->why, 256);
    m->why[255] = 0;
}

static desc make(struct making *m, cudnnBackendDescriptorType_t type)
{
    desc d = NULL;
    if (m->st != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (m->plan->nmade == SDPA_MADE) {
        m->st = CUDNN_STATUS_INTERNAL_ERROR;
        return NULL;
    }
    check(m, m->c->cudnnBackendCreateDescriptor(type, &d));
    if (m->st == CUDNN_STATUS_SUCCESS)
        m->plan->made[m->plan->nmade++] = d;
    return d;
}

static void set(struct making *m, desc d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
    if (m->st == CUDNN_STATUS_SUCCESS)
        check(m, m->c->cudnnBackendSetAttribute(d, name, type, count, value));
}

static void set_desc(struct making *m, desc d, cudnnBackendAttributeName_t name, desc value)
{
    if (value)
        set(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(struct making *m, desc d)
{
    if (m->st == CUDNN_STATUS_SUCCESS)
        check(m, m->c->cudnnBackendFinalize(d));
}

static void add_op(struct making *m, desc op)
{
    finalize(m, op);
    if (m->nops < OPS)
        m->ops[m->nops++] = op;
    else
        m->st = CUDNN_STATUS_INTERNAL_ERROR;
}

/* --- tensors, all of four axes: sequences, heads, rows, columns --- */

struct axes {
    int64_t size[4], step[4];
};

static desc tensor(struct making *m, int64_t number, cudnnDataType_t type, const struct axes *a,
                   bool is_virtual, bool by_value)
{
    const int64_t alignment = 16;
    desc d = make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, a->size);
    set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, a->step);
    set(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    set(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(m, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(m, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize(m, d);
    return d;
}

/* [B,H,rows,cols], one behind the other. */
static struct axes packed(const struct making *m, int64_t rows, int64_t cols)
{
    const int64_t h = m->s->heads;
    return (struct axes){{m->s->sequences, h, rows, cols}, {h * rows * cols, rows * cols, cols, 1}};
}

static desc between(struct making *m, cudnnDataType_t type, const struct axes *a)
{
    return tensor(m, m->next++, type, a, true, false);
}

/* Scores, and what is made of them. */
static desc scores(struct making *m, cudnnDataType_t type)
{
    const struct axes a = packed(m, m->s->length, m->s->length);
    return between(m, type, &a);
}

/* One number a query; `number` 0: a virtual one. */
static desc rows(struct making *m, int64_t number)
{
    const struct axes a = packed(m, m->s->length, 1);
    return number != 0 ? tensor(m, number, CUDNN_DATA_FLOAT, &a, false, false)
                       : between(m, CUDNN_DATA_FLOAT, &a);
}

static desc scalar(struct making *m, int64_t number)
{
    static const struct axes one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    return tensor(m, number, CUDNN_DATA_FLOAT, &one, false, true);
}

/* Stride in elements between consecutive tokens of queries (or of keys and values). */
static int64_t token_step(const struct sdpa_shape *s, int64_t heads)
{
    return s->fused ? 3 * s->heads * s->dim : heads * s->dim;
}

/* A tensor of the caller with `heads` heads, [tokens, heads, dim] from token to token `step`. */
static struct axes heads_of(const struct sdpa_shape *s, int64_t heads, int64_t step)
{
    return (struct axes){{s->sequences, heads, s->length, s->dim},
                         {s->length * step, s->dim, step, 1}};
}

static desc given(struct making *m, int64_t number, int64_t heads, int64_t step)
{
    const struct axes a = heads_of(m->s, heads, step);
    return tensor(m, number, m->s->type, &a, false, false);
}

/* ... with rows and columns exchanged. */
static desc transposed(struct making *m, int64_t number)
{
    const struct sdpa_shape *s = m->s;
    const struct axes a = heads_of(s, s->kv_heads, token_step(s, s->kv_heads));
    const struct axes t = {{a.size[0], a.size[1], a.size[3], a.size[2]},
                           {a.step[0], a.step[1], a.step[3], a.step[2]}};
    return tensor(m, number, s->type, &t, false, false);
}

/* --- operations --- */

static void pointwise(struct making *m, cudnnPointwiseMode_t mode, cudnnDataType_t math,
                      int64_t axis, desc x, desc b, desc t, desc y)
{
    desc p = make(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(m, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(m, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
    if (axis >= 0)
        set(m, p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finalize(m, p);
    desc o = make(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_desc(m, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    set_desc(m, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_desc(m, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    set_desc(m, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_desc(m, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    add_op(m, o);
}

/* y = mode(x, b) in fp32 */
static void apply(struct making *m, cudnnPointwiseMode_t mode, desc x, desc b, desc y)
{
    pointwise(m, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
}

static void reduce(struct making *m, cudnnReduceTensorOp_t mode, desc x, desc y)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    desc r = make(m, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(m, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    set(m, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    finalize(m, r);
    desc o = make(m, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_desc(m, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
    set_desc(m, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_desc(m, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add_op(m, o);
}

static void multiply(struct making *m, desc a, desc b, desc c)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    desc p = make(m, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(m, p, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    finalize(m, p);
    desc o = make(m, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_desc(m, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_desc(m, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_desc(m, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_desc(m, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, p);
    add_op(m, o);
}

static void reshape(struct making *m, desc x, desc y)
{
    desc o = make(m, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_desc(m, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_desc(m, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_op(m, o);
}

/* --- the two graphs --- */

/* Scores of keys behind the query become the least number. */
static desc mask(struct making *m, desc s)
{
    if (!m->s->causal)
        return s;
    desc least = scalar(m, SDPA_LEAST);
    desc row = scores(m, CUDNN_DATA_INT32), col = scores(m, CUDNN_DATA_INT32);
    desc sees = scores(m, CUDNN_DATA_BOOLEAN), out = scores(m, CUDNN_DATA_FLOAT);
    pointwise(m, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, s, NULL, NULL, row);
    pointwise(m, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, s, NULL, NULL, col);
    pointwise(m, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, row, col, NULL, sees);
    pointwise(m, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, s, least, sees, out);
    return out;
}

static desc scaled_scores(struct making *m, desc q, desc kt, desc scale)
{
    desc s0 = scores(m, CUDNN_DATA_FLOAT), s1 = scores(m, CUDNN_DATA_FLOAT);
    multiply(m, q, kt, s0);
    apply(m, CUDNN_POINTWISE_MUL, s0, scale, s1);
    return s1;
}

static void forward(struct making *m)
{
    const struct sdpa_shape *s = m->s;
    const int64_t kv_step = token_step(s, s->kv_heads);
    desc q = given(m, SDPA_Q, s->heads, token_step(s, s->heads)), kt = transposed(m, SDPA_K);
    desc v = given(m, SDPA_V, s->kv_heads, kv_step);
    desc o = given(m, SDPA_O, s->heads, s->heads * s->dim), scale = scalar(m, SDPA_SCALE);
    desc x = mask(m, scaled_scores(m, q, kt, scale));
    desc max = rows(m, 0), sum = rows(m, 0), log = rows(m, 0), stats = rows(m, SDPA_STATS);
    desc less = scores(m, CUDNN_DATA_FLOAT), e = scores(m, CUDNN_DATA_FLOAT);
    desc p = scores(m, s->type);
    reduce(m, CUDNN_REDUCE_TENSOR_MAX, x, max);
    apply(m, CUDNN_POINTWISE_SUB, x, max, less);
    apply(m, CUDNN_POINTWISE_EXP, less, NULL, e);
    reduce(m, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    apply(m, CUDNN_POINTWISE_LOG, sum, NULL, log);
    apply(m, CUDNN_POINTWISE_ADD, max, log, stats);
    apply(m, CUDNN_POINTWISE_DIV, e, sum, p);
    multiply(m, p, v, o);
}

/* The transpose of scores, rounded: what stands on the left of a product with dO or Q. */
static desc turned(struct making *m, desc x)
{
    struct axes a = packed(m, m->s->length, m->s->length);
    a.step[2] = 1;
    a.step[3] = m->s->length;
    desc y = between(m, m->s->type, &a);
    reshape(m, x, y);
    return y;
}

/* left' right into a gradient of keys or values: summed over the heads that share one. */
static void shared_gradient(struct making *m, desc left, desc right, desc out)
{
    if (m->s->heads == m->s->kv_heads) {
        multiply(m, left, right, out);
        return;
    }
    const struct axes a = packed(m, m->s->length, m->s->dim);
    desc all = between(m, m->s->type, &a);
    multiply(m, left, right, all);
    reduce(m, CUDNN_REDUCE_TENSOR_ADD, all, out);
}

/* The sum over a row of dO * O. */
static desc row_sums(struct making *m, desc d_o, desc o)
{
    const struct sdpa_shape *s = m->s;
    const int64_t row = s->heads * s->dim;
    const struct axes a = {{s->sequences, s->heads, s->length, s->dim},
                           {s->length * row, s->length * s->dim, row, 1}};
    desc product = between(m, CUDNN_DATA_FLOAT, &a), sum = rows(m, 0), out = rows(m, SDPA_SUM);
    apply(m, CUDNN_POINTWISE_MUL, d_o, o, product);
    reduce(m, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    apply(m, CUDNN_POINTWISE_MUL, sum, scalar(m, SDPA_ONE), out);
    return out;
}

/* dQ = dS K, where keys have to be turned back. */
static void query_gradient(struct making *m, desc ds, desc kt, desc dq)
{
    const struct sdpa_shape *s = m->s;
    const struct axes a = heads_of(s, s->kv_heads, token_step(s, s->kv_heads));
    desc k = between(m, s->type, &a);
    reshape(m, kt, k);
    if (s->deterministic) {
        multiply(m, ds, k, dq);
        return;
    }
    const struct axes sums = packed(m, s->length, s->dim);
    desc sum = tensor(m, SDPA_DQ_SUM, CUDNN_DATA_FLOAT, &sums, false, false);
    multiply(m, ds, k, sum);
    apply(m, CUDNN_POINTWISE_IDENTITY, sum, NULL, dq);
}

static void backward(struct making *m)
{
    const struct sdpa_shape *s = m->s;
    const int64_t q_step = token_step(s, s->heads), kv_step = token_step(s, s->kv_heads);
    const int64_t row = s->heads * s->dim;
    desc q = given(m, SDPA_Q, s->heads, q_step);
    desc kt = transposed(m, SDPA_K), vt = transposed(m, SDPA_V);
    desc o = given(m, SDPA_O, s->heads, row), d_o = given(m, SDPA_DO, s->heads, row);
    desc stats = rows(m, SDPA_STATS), scale = scalar(m, SDPA_SCALE);
    desc dq = given(m, SDPA_DQ, s->heads, q_step);
    desc dk = given(m, SDPA_DK, s->kv_heads, kv_step);
    desc dv = given(m, SDPA_DV, s->kv_heads, kv_step);
    desc sums = row_sums(m, d_o, o);
    desc x = scaled_scores(m, q, kt, scale), less = scores(m, CUDNN_DATA_FLOAT);
    apply(m, CUDNN_POINTWISE_SUB, x, stats, less);
    desc seen = mask(m, less), p = scores(m, CUDNN_DATA_FLOAT);
    apply(m, CUDNN_POINTWISE_EXP, seen, NULL, p);
    shared_gradient(m, turned(m, p), d_o, dv);
    desc dp = scores(m, CUDNN_DATA_FLOAT), centred = scores(m, CUDNN_DATA_FLOAT);
    desc weighed = scores(m, CUDNN_DATA_FLOAT), ds = scores(m, CUDNN_DATA_FLOAT);
    multiply(m, d_o, vt, dp);
    apply(m, CUDNN_POINTWISE_SUB, dp, sums, centred);
    apply(m, CUDNN_POINTWISE_MUL, centred, p, weighed);
    apply(m, CUDNN_POINTWISE_MUL, weighed, scale, ds);
    shared_gradient(m, turned(m, ds), q, dk);
    query_gradient(m, ds, kt, dq);
}

/* --- plans --- */

/* A plan of one of the heuristic's configurations, if it serves. */
static cudnnStatus_t try_plan(struct making *m, desc config, int64_t cap)
{
    const struct sdpa_calls *c = m->c;
    desc p = NULL;
    int64_t n = 0;
    cudnnStatus_t st = c->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendSetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendFinalize(p);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &n, &m->plan->workspace);
    if (st == CUDNN_STATUS_SUCCESS && m->plan->workspace > cap)
        st = CUDNN_STATUS_NOT_SUPPORTED;
    if (st == CUDNN_STATUS_SUCCESS)
        m->plan->plan = p;
    else if (p)
        c->cudnnBackendDestroyDescriptor(p);
    return st;
}

/* The first configuration, best guess first, that gives a plan. */
static void choose(struct making *m, const struct sdpa_target *target, int64_t cap)
{
    enum { CONFIGS = 8 };
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    desc config[CONFIGS] = {0};
    int64_t n = 0;
    desc g = make(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(m, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, m->nops, m->ops);
    if (target->handle)
        set(m, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    finalize(m, g);
    desc h = make(m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(m, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g);
    set(m, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set_desc(m, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target->properties);
    finalize(m, h);
    for (int i = 0; i < CONFIGS; i++)
        config[i] = make(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (m->st == CUDNN_STATUS_SUCCESS)
        check(m,
              m->c->cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &n, config));
    if (m->st != CUDNN_STATUS_SUCCESS)
        return;
    cudnnStatus_t st = CUDNN_STATUS_NOT_SUPPORTED;
    for (int64_t i = 0; i < n && i < CONFIGS && st != CUDNN_STATUS_SUCCESS; i++)
        st = try_plan(m, config[i], cap);
    check(m, st);
}

cudnnStatus_t sdpa_build(const struct sdpa_calls *c, const struct sdpa_target *target,
                         const struct sdpa_shape *shape, int64_t cap, struct sdpa_plan *out,
                         char why[256])
{
    struct making m = {.c = c, .s = shape, .plan = out, .next = 100, .why = why};
    *out = (struct sdpa_plan){.plan = NULL};
    why[0] = 0;
    if (shape->backward)
        backward(&m);
    else
        forward(&m);
    choose(&m, target, cap);
    return m.st;
}

void sdpa_free(const struct sdpa_calls *c, struct sdpa_plan *p)
{
    if (p->plan)
        c->cudnnBackendDestroyDescriptor(p->plan);
    while (p->nmade > 0)
        c->cudnnBackendDestroyDescriptor(p->made[--p->nmade]);
}
