#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H
#include <weft/base.h>
WEFT_EXTERN_C_BEGIN
typedef uint32_t weft_tensor;
typedef struct weft_axis {
    const char *name;
    int64_t size;
} weft_axis;
typedef struct weft_shape {
    uint32_t dtype, rank;
    uint32_t flags, reserved;
    weft_axis axes[WEFT_MAX_AXES];
} weft_shape;
WEFT_FREEZE(weft_shape, axes, 144);
#define WEFT_T_INPUT 1u
#define WEFT_T_PARAM 2u
#define WEFT_T_ACTIVATION 3u
#define WEFT_T_GRAD 4u
#define WEFT_T_STATE 5u
#define WEFT_T_SCALAR 6u
typedef struct weft_attr {
    const char *key;
    int64_t i;
    double f;
    const void *data;
    uint32_t bytes, flags;
} weft_attr;
WEFT_FREEZE(weft_attr, flags, 40);
#define WEFT_ATTR_INT(key, value)                                                                  \
    {                                                                                              \
        key, value, 0, NULL, 0, 0                                                                  \
    }
#define WEFT_ATTR_REAL(key, value)                                                                 \
    {                                                                                              \
        key, 0, value, NULL, 0, 0                                                                  \
    }
typedef struct weft_input_args {
    uint32_t struct_size, flags;
    const char *name;
    const weft_shape *shape;
} weft_input_args;
WEFT_FREEZE(weft_input_args, shape, 24);
#define WEFT_PARAM_MATRIX 1u
#define WEFT_PARAM_PAD 2u
typedef struct weft_param_args {
    uint32_t struct_size, flags;
    const char *name;
    const weft_shape *shape;
    const char *init;
    const char *role;
} weft_param_args;
WEFT_FREEZE(weft_param_args, role, 40);
typedef struct weft_comm_args {
    uint32_t struct_size, flags;
    uint32_t kind;
    uint32_t redop;
    const char *mesh_axis;
    const char *axis;
    uint32_t root;
    uint32_t reserved;
} weft_comm_args;
WEFT_FREEZE(weft_comm_args, reserved, 40);
typedef struct weft_state_args {
    uint32_t struct_size, flags;
    const char *name;
    weft_tensor like;
    uint32_t dtype;
    uint32_t reserved;
    const char *keep;
    const weft_shape *shape;
    const char *init;
} weft_state_args;
WEFT_FREEZE(weft_state_args, init, 56);
typedef struct weft_builder {
    uint32_t struct_size, flags;
    void *ctx;
    weft_status (*shape)(void *ctx, weft_tensor t, weft_shape *out);
    const char *(*name)(void *ctx, weft_tensor t);
    uint32_t (*kind)(void *ctx, weft_tensor t);
    weft_status (*block)(void *ctx, const char *name, uint32_t flags);
    weft_status (*input)(void *ctx, const weft_input_args *args, weft_tensor *out);
    weft_status (*param)(void *ctx, const weft_param_args *args, weft_tensor *out);
    weft_status (*scalar)(void *ctx, const char *name, uint32_t flags, weft_tensor *out);
    weft_status (*constant)(void *ctx, double value, uint32_t flags, weft_tensor *out);
    weft_status (*state)(void *ctx, const weft_state_args *args, weft_tensor *out);
    weft_status (*op)(void *ctx, const char *id, const weft_attr *attrs, uint32_t nattr,
                      const weft_tensor *in, uint32_t nin, uint32_t flags, weft_tensor *out,
                      uint32_t nout);
    weft_status (*comm)(void *ctx, const weft_comm_args *args, weft_tensor in, weft_tensor *out);
    weft_status (*assign)(void *ctx, weft_tensor dst, weft_tensor src, uint32_t flags);
    weft_status (*fail)(void *ctx, weft_status code, const char *text);
} weft_builder;
WEFT_FREEZE(weft_builder, fail, 120);
WEFT_EXTERN_C_END
#endif
