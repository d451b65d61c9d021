/* dnn_graph.c: a graph of the double of libcudnn, computed operation by operation, naively.
 *
 * Every tensor is held as fp32 numbers, rounded where its type is of 16 bits. An fp32 accumulator
 * that lies in memory is summed in another order each time, as atomic additions are: who wants the
 * same bits has to ask for the graph that has none. */
#include "bits.h"
#include "dnn.h"
#include <stdlib.h>

struct held {
    struct dnn_tensor t;
    float *x; /* NULL: not yet made or read */
};

struct work {
    const struct dnn_run *run;
    struct held held[TENSORS];
    int n;
};

static int64_t count(const struct dnn_tensor *t)
{
    return t->size[0] * t->size[1] * t->size[2] * t->size[3];
}

static void place_of(const struct dnn_tensor *t, int64_t i, int64_t at[4])
{
    for (int k = 3; k >= 0; k--) {
        at[k] = i % t->size[k];
        i /= t->size[k];
    }
}

static int64_t offset_of(const struct dnn_tensor *t, const int64_t at[4])
{
    int64_t o = 0;
    for (int k = 0; k < 4; k++)
        o += at[k] * t->step[k];
    return o;
}

/* --- memory --- */

static float element(const char *p, cudnnDataType_t type, int64_t i)
{
    if (type == CUDNN_DATA_FLOAT)
        return ((const float *)(const void *)p)[i];
    const uint16_t bits = ((const uint16_t *)(const void *)p)[i];
    return type == CUDNN_DATA_HALF ? from_f16(bits) : as_float((uint32_t)bits << 16);
}

static float rounded(float x, cudnnDataType_t type)
{
    if (type == CUDNN_DATA_HALF)
        return from_f16((uint16_t)f16_bits(x));
    return type == CUDNN_DATA_BFLOAT16 ? as_float(bf16_bits(x) << 16) : x;
}

static void put(char *p, cudnnDataType_t type, int64_t i, float x)
{
    if (type == CUDNN_DATA_FLOAT)
        ((float *)(void *)p)[i] = x;
    else
        ((uint16_t *)(void *)p)[i] =
            (uint16_t)(type == CUDNN_DATA_HALF ? f16_bits(x) : bf16_bits(x));
}

static int64_t packed(const struct work *w, int64_t number)
{
    int64_t k = 0;
    while (w->run->number[k] != number)
        k++;
    return k;
}

static struct held *find(struct work *w, const struct dnn_object *o)
{
    int i = 0;
    while (w->held[i].t.object != o)
        i++;
    return &w->held[i];
}

/* What an operation reads: made before, or in memory. */
static const struct held *input(struct work *w, const struct dnn_object *o)
{
    struct held *h = find(w, o);
    if (h->x)
        return h;
    const int64_t n = count(&h->t), k = packed(w, h->t.number);
    h->x = malloc((size_t)n * sizeof *h->x);
    for (int64_t i = 0; i < n; i++) {
        int64_t at[4];
        place_of(&h->t, i, at);
        h->x[i] = h->t.by_value ? w->run->scalar[k]
                                : element(w->run->at[k], h->t.type, offset_of(&h->t, at));
    }
    return h;
}

static struct held *output(struct work *w, const struct dnn_object *o)
{
    struct held *h = find(w, o);
    h->x = calloc((size_t)count(&h->t), sizeof *h->x);
    return h;
}

/* Rounded; and into memory, where it is not virtual. */
static void finish(const struct work *w, const struct held *h)
{
    for (int64_t i = 0; i < count(&h->t); i++) {
        h->x[i] = rounded(h->x[i], h->t.type);
        if (h->t.is_virtual)
            continue;
        int64_t at[4];
        place_of(&h->t, i, at);
        put(w->run->at[packed(w, h->t.number)], h->t.type, offset_of(&h->t, at), h->x[i]);
    }
}

/* The element of a tensor that goes with place `at` of another of size `of`: an axis that is
 * shorter is shared by runs of the longer one. */
static float share(const struct held *h, const int64_t of[4], const int64_t at[4])
{
    int64_t i = 0;
    for (int k = 0; k < 4; k++)
        i = i * h->t.size[k] + at[k] / (of[k] / h->t.size[k]);
    return h->x[i];
}

/* --- operations --- */

static float apply(cudnnPointwiseMode_t mode, float x, float b, float t)
{
    switch (mode) {
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_EXP: return expf(x);
    case CUDNN_POINTWISE_LOG: return logf(x);
    case CUDNN_POINTWISE_CMP_GE: return x >= b;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    case CUDNN_POINTWISE_IDENTITY: return x;
    default: abort();
    }
}

static const struct held *operand(struct work *w, const struct dnn_object *op,
                                  cudnnBackendAttributeName_t name)
{
    const struct dnn_object *o = dnn_part(op, name);
    return o ? input(w, o) : NULL;
}

static void pointwise(struct work *w, const struct dnn_object *op)
{
    const struct dnn_object *how = dnn_part(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const cudnnPointwiseMode_t mode =
        *(const cudnnPointwiseMode_t *)dnn_get(how, CUDNN_ATTR_POINTWISE_MODE);
    const int64_t *axis = dnn_get(how, CUDNN_ATTR_POINTWISE_AXIS);
    const struct held *x = operand(w, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const struct held *b = operand(w, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const struct held *t = operand(w, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    struct held *y = output(w, dnn_part(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    for (int64_t i = 0; i < count(&y->t); i++) {
        int64_t at[4];
        place_of(&y->t, i, at);
        if (mode == CUDNN_POINTWISE_GEN_INDEX)
            y->x[i] = (float)at[*axis];
        else
            y->x[i] = apply(mode, share(x, y->t.size, at), b ? share(b, y->t.size, at) : 0,
                            t ? share(t, y->t.size, at) : 0);
    }
    finish(w, y);
}

static void reduce(struct work *w, const struct dnn_object *op)
{
    const struct dnn_object *how = dnn_part(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    const bool adds = *(const cudnnReduceTensorOp_t *)dnn_get(how, CUDNN_ATTR_REDUCTION_OPERATOR) ==
                      CUDNN_REDUCE_TENSOR_ADD;
    const struct held *x = operand(w, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    struct held *y = output(w, dnn_part(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    for (int64_t i = 0; i < count(&y->t); i++)
        y->x[i] = adds ? 0 : -INFINITY;
    for (int64_t i = 0; i < count(&x->t); i++) {
        int64_t at[4], to = 0;
        place_of(&x->t, i, at);
        for (int k = 0; k < 4; k++)
            to = to * y->t.size[k] + at[k] / (x->t.size[k] / y->t.size[k]);
        y->x[to] = adds ? y->x[to] + x->x[i] : fmaxf(y->x[to], x->x[i]);
    }
    finish(w, y);
}

/* [B,H,m,k] by [B,H or fewer,k,n] */
static void multiply(struct work *w, const struct dnn_object *op)
{
    const struct held *a = operand(w, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const struct held *b = operand(w, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    struct held *c = output(w, dnn_part(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const bool sums = !c->t.is_virtual && c->t.type == CUDNN_DATA_FLOAT;
    const int64_t m = c->t.size[2], n = c->t.size[3], depth = a->t.size[3];
    const int64_t group = c->t.size[1] / b->t.size[1];
    for (int64_t i = 0; i < count(&c->t); i++) {
        int64_t at[4];
        place_of(&c->t, i, at);
        const float *row = a->x + ((at[0] * c->t.size[1] + at[1]) * m + at[2]) * depth;
        const float *column = b->x + (at[0] * b->t.size[1] + at[1] / group) * depth * n + at[3];
        float sum = 0;
        for (int64_t k = 0; k < depth; k++) {
            const int64_t from = sums && w->run->turn % 2 ? depth - 1 - k : k;
            sum += row[from] * column[from * n];
        }
        c->x[i] = sum;
    }
    finish(w, c);
}

/* The same memory under other sizes and steps. */
static void reshape(struct work *w, const struct dnn_object *op)
{
    const struct held *x = operand(w, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    struct held *y = output(w, dnn_part(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    int64_t last[4], at[4];
    place_of(&x->t, count(&x->t) - 1, last);
    const int64_t room = offset_of(&x->t, last) + 1;
    float *memory = malloc((size_t)room * sizeof *memory);
    for (int64_t i = 0; i < count(&x->t); i++) {
        place_of(&x->t, i, at);
        memory[offset_of(&x->t, at)] = x->x[i];
    }
    for (int64_t i = 0; i < count(&y->t); i++) {
        place_of(&y->t, i, at);
        y->x[i] = memory[offset_of(&y->t, at)];
    }
    free(memory);
    finish(w, y);
}

void dnn_compute(const void *run)
{
    struct work *w = calloc(1, sizeof *w);
    struct dnn_tensor all[TENSORS];
    w->run = run;
    w->n = dnn_tensors(w->run->graph, all);
    for (int i = 0; i < w->n; i++)
        w->held[i].t = all[i];
    memset(w->run->workspace, 0xff, DNN_WORKSPACE);
    const struct dnn_object *graph = w->run->graph;
    const struct dnn_value *ops = graph->value;
    while (ops->name != CUDNN_ATTR_OPERATIONGRAPH_OPS)
        ops++;
    for (int64_t i = 0; i < ops->count; i++) {
        const struct dnn_object *op = ((struct dnn_object *const *)ops->data)[i];
        switch (op->type) {
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: pointwise(w, op); break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: reduce(w, op); break;
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: multiply(w, op); break;
        default: reshape(w, op); break;
        }
    }
    for (int i = 0; i < w->n; i++)
        free(w->held[i].x);
    free(w);
}
