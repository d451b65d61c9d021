/* dnn.h: what the two parts of the double of libcudnn share: descriptors, and what is enqueued. */
#ifndef DNN_H
#define DNN_H

#include <cudnn_graph.h>
#include <stdbool.h>

enum { VALUES = 8, OPERATIONS = 32, TENSORS = 96, PACKED = 24 };

/* One attribute as it was set; `data` has `count` elements. */
struct dnn_value {
    cudnnBackendAttributeName_t name;
    int64_t count;
    void *data;
};

struct dnn_object {
    cudnnBackendDescriptorType_t type;
    bool final, loaded; /* loaded: a plan has been run */
    struct dnn_value value[VALUES];
    int values;
    struct dnn_object *graph; /* of a configuration and a plan */
};

/* A tensor as its descriptor says. */
struct dnn_tensor {
    const struct dnn_object *object;
    cudnnDataType_t type;
    int64_t number, size[4], step[4];
    bool is_virtual, by_value;
};

/* A plan's run: addresses by the tensors' numbers; scalars by value. */
struct dnn_run {
    const struct dnn_object *graph;
    int64_t n, number[PACKED];
    char *at[PACKED];
    float scalar[PACKED];
    void *workspace;
    uint64_t turn; /* counts runs */
};

/* dnn.c */
const void *dnn_get(const struct dnn_object *o, cudnnBackendAttributeName_t name); /* NULL: unset */
struct dnn_object *dnn_part(const struct dnn_object *o, cudnnBackendAttributeName_t name);
struct dnn_tensor dnn_tensor_of(const struct dnn_object *o);

/* All tensors of a graph, each once. */
int dnn_tensors(const struct dnn_object *graph, struct dnn_tensor out[TENSORS]);

/* dnn_graph.c: do what the graph says, operation by operation. */
#define DNN_WORKSPACE 4096
void dnn_compute(const void *run);

#endif
