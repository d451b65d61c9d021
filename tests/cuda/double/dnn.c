/* dnn.c: a double of libcudnn, as much of its graph API as the cuda device calls. It refuses what
 * the library refuses: attributes that a descriptor has not, of another type or number, values that
 * are not finalized, tensors without an address or at an odd one. dnn_graph.c computes.
 *
 * DOUBLE_CUDNN_VERSION is the version that it says it has. */
#define _GNU_SOURCE
#include "dnn.h"
#include "double.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Attributes of each descriptor: how many elements (0: any number), and whether it must be set. */
struct rule {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    bool needed;
};

#define D CUDNN_TYPE_BACKEND_DESCRIPTOR
#define OF(descriptor, name, type, count, needed)                                                  \
    {                                                                                              \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, type, count, needed            \
    }

static const struct rule rules[] = {
    OF(TENSOR, TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true),
    OF(TENSOR, TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, true),
    OF(TENSOR, TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, true),
    OF(TENSOR, TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, true),
    OF(TENSOR, TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, true),
    OF(TENSOR, TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false),
    OF(TENSOR, TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false),
    OF(POINTWISE, POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, true),
    OF(POINTWISE, POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, true),
    OF(POINTWISE, POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, false),
    OF(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, D, 1, true),
    OF(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, D, 1, true),
    OF(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, D, 1, false),
    OF(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, D, 1, false),
    OF(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, D, 1, true),
    OF(REDUCTION, REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, true),
    OF(REDUCTION, REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true),
    OF(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, D, 1, true),
    OF(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, D, 1, true),
    OF(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, D, 1, true),
    OF(MATMUL, MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true),
    OF(OPERATION_MATMUL, OPERATION_MATMUL_DESC, D, 1, true),
    OF(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, D, 1, true),
    OF(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, D, 1, true),
    OF(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, D, 1, true),
    OF(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, D, 1, true),
    OF(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, D, 1, true),
    OF(OPERATIONGRAPH, OPERATIONGRAPH_OPS, D, 0, true),
    OF(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, true),
    OF(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, D, 1, true),
    OF(ENGINEHEUR, ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, true),
    OF(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, D, 1, true),
    OF(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 0, true),
    OF(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 0, true),
    OF(VARIANT_PACK, VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, true),
};
enum { RULES = sizeof rules / sizeof *rules };

static cudaStream_t stream;

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    *out = calloc(1, 8);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    free(h);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
    (void)h;
    stream = s;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    const char *version = getenv("DOUBLE_CUDNN_VERSION");
    return version ? strtoul(version, NULL, 10) : 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t st)
{
    return st == CUDNN_STATUS_NOT_SUPPORTED ? "not supported" : "a bad parameter";
}

static char last[256];

void cudnnGetLastErrorString(char *text, size_t cap)
{
    snprintf(text, cap, "%s", last);
}

static cudnnStatus_t refuse(cudnnStatus_t st, const char *why)
{
    snprintf(last, sizeof last, "%s", why);
    return st;
}

/* --- descriptors --- */

static size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return sizeof(int);
    }
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    struct dnn_object *o = calloc(1, sizeof *o);
    o->type = type;
    *out = o;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    struct dnn_object *o = d;
    for (int i = 0; i < o->values; i++)
        free(o->value[i].data);
    free(o);
    return CUDNN_STATUS_SUCCESS;
}

const void *dnn_get(const struct dnn_object *o, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < o->values; i++)
        if (o->value[i].name == name)
            return o->value[i].data;
    return NULL;
}

struct dnn_object *dnn_part(const struct dnn_object *o, cudnnBackendAttributeName_t name)
{
    struct dnn_object *const *part = dnn_get(o, name);
    return part ? *part : NULL;
}

static int64_t count_of(const struct dnn_object *o, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < o->values; i++)
        if (o->value[i].name == name)
            return o->value[i].count;
    return 0;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *from)
{
    struct dnn_object *o = d;
    const struct rule *r = rules;
    while (r < rules + RULES && (r->of != o->type || r->name != name))
        r++;
    if (r == rules + RULES || r->type != type || (r->count != 0 && r->count != count) ||
        count < 1 || o->final || dnn_get(o, name) || o->values == VALUES)
        return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute that this descriptor has not");
    for (int64_t i = 0; type == D && i < count; i++)
        if (!((struct dnn_object *const *)from)[i]->final)
            return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor that is not finalized");
    void *data = malloc(size_of(type) * (size_t)count);
    memcpy(data, from, size_of(type) * (size_t)count);
    o->value[o->values++] = (struct dnn_value){name, count, data};
    return CUDNN_STATUS_SUCCESS;
}

struct dnn_tensor dnn_tensor_of(const struct dnn_object *o)
{
    struct dnn_tensor t = {.object = o};
    const bool *is_virtual = dnn_get(o, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    const bool *by_value = dnn_get(o, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    t.type = *(const cudnnDataType_t *)dnn_get(o, CUDNN_ATTR_TENSOR_DATA_TYPE);
    t.number = *(const int64_t *)dnn_get(o, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    memcpy(t.size, dnn_get(o, CUDNN_ATTR_TENSOR_DIMENSIONS), sizeof t.size);
    memcpy(t.step, dnn_get(o, CUDNN_ATTR_TENSOR_STRIDES), sizeof t.step);
    t.is_virtual = is_virtual && *is_virtual;
    t.by_value = by_value && *by_value;
    return t;
}

int dnn_tensors(const struct dnn_object *graph, struct dnn_tensor out[TENSORS])
{
    struct dnn_object *const *ops = dnn_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    int n = 0;
    for (int64_t i = 0; i < count_of(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++)
        for (int k = 0; k < ops[i]->values; k++) {
            const struct dnn_object *o = *(struct dnn_object *const *)ops[i]->value[k].data;
            int at = 0;
            while (at < n && out[at].object != o)
                at++;
            if (o->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && at == n && n < TENSORS)
                out[n++] = dnn_tensor_of(o);
        }
    return n;
}

/* Two tensors may not have one number. */
static cudnnStatus_t check_graph(const struct dnn_object *graph)
{
    struct dnn_tensor t[TENSORS];
    const int n = dnn_tensors(graph, t);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            if (t[i].number == t[k].number)
                return refuse(CUDNN_STATUS_BAD_PARAM, "two tensors of one number");
        if (t[i].is_virtual && t[i].by_value)
            return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor that is virtual and a value");
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    struct dnn_object *o = d;
    for (const struct rule *r = rules; r < rules + RULES; r++)
        if (r->of == o->type && r->needed && !dnn_get(o, r->name))
            return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute is missing");
    if (o->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
        check_graph(o) != CUDNN_STATUS_SUCCESS)
        return CUDNN_STATUS_BAD_PARAM;
    if (o->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        o->graph = dnn_part(o, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->graph;
    if (o->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
        count_of(o, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) !=
            count_of(o, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS))
        return refuse(CUDNN_STATUS_BAD_PARAM, "numbers and addresses do not fit");
    o->final = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t cap, int64_t *n,
                                       void *out)
{
    struct dnn_object *o = d;
    if (!o->final || cap < 1)
        return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor that is not finalized");
    *n = 1;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
        *(int64_t *)out = DNN_WORKSPACE;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS || type != D)
        return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute that this descriptor has not");
    struct dnn_object *config = *(struct dnn_object *const *)out;
    if (config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return refuse(CUDNN_STATUS_BAD_PARAM, "no room for a configuration");
    config->graph = dnn_part(o, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    config->final = true;
    return CUDNN_STATUS_SUCCESS;
}

/* --- running --- */

typedef int submit_call(cudaStream_t s, void (*run)(const void *payload), const void *payload,
                        uint64_t bytes);

/* The pack has an address for each tensor that is not virtual, and no other. */
static cudnnStatus_t take_pack(struct dnn_run *r, const struct dnn_object *pack)
{
    struct dnn_tensor t[TENSORS];
    const int tensors = dnn_tensors(r->graph, t);
    const int64_t *number = dnn_get(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    char *const *at = dnn_get(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const int64_t n = count_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (int i = 0; i < tensors; i++) {
        int64_t k = 0;
        while (k < n && number[k] != t[i].number)
            k++;
        if (t[i].is_virtual != (k == n) || (k < n && !at[k]) ||
            (k < n && !t[i].by_value && (uintptr_t)at[k] % 16 != 0))
            return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor without an address, or an odd one");
        if (k == n)
            continue;
        r->number[r->n] = number[k];
        r->at[r->n] = at[k];
        r->scalar[r->n++] = t[i].by_value ? *(const float *)(void *)at[k] : 0;
    }
    r->workspace = *(void *const *)dnn_get(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    return r->n == n ? CUDNN_STATUS_SUCCESS
                     : refuse(CUDNN_STATUS_BAD_PARAM, "an address of no tensor");
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    static uint64_t turn;
    struct dnn_run r = {.graph = ((struct dnn_object *)plan)->graph, .turn = turn++};
    submit_call *submit;
    int (*load_code)(void);
    (void)h;
    *(void **)&submit = double_call("double_submit");
    *(void **)&load_code = double_call("double_load_code");
    if (!submit || !load_code || !((struct dnn_object *)pack)->final)
        return refuse(CUDNN_STATUS_BAD_PARAM, "nothing to run it on");
    if (!((struct dnn_object *)plan)->loaded && load_code() != 0)
        return refuse(CUDNN_STATUS_EXECUTION_FAILED, "its code cannot be loaded now");
    ((struct dnn_object *)plan)->loaded = true;
    cudnnStatus_t st = take_pack(&r, pack);
    if (st == CUDNN_STATUS_SUCCESS && submit(stream, dnn_compute, &r, sizeof r) != 0)
        st = CUDNN_STATUS_EXECUTION_FAILED;
    return st;
}
