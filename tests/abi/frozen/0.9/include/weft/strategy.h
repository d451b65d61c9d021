#ifndef WEFT_STRATEGY_H
#define WEFT_STRATEGY_H
#include <weft/graph.h>
#include <weft/op.h>
#include <weft/plugin.h>
WEFT_EXTERN_C_BEGIN
#define WEFT_PHASE_SPLIT 1u
#define WEFT_PHASE_STAGE 2u
#define WEFT_PHASE_SYNC 3u
#define WEFT_PHASE_MEMORY 4u
#define WEFT_AXIS_SEQUENCE 1u
typedef struct weft_mesh_axis {
    uint32_t struct_size, flags;
    const char *name, *size_key, *help;
} weft_mesh_axis;
WEFT_FREEZE(weft_mesh_axis, help, 32);
#define WEFT_WORK_FORWARD 1u
#define WEFT_WORK_BACKWARD 2u
#define WEFT_WORK_BACKWARD_INPUTS 3u
#define WEFT_WORK_BACKWARD_PARAMS 4u
typedef struct weft_work {
    uint32_t chunk, micro_batch, phase;
    uint32_t flags;
} weft_work;
WEFT_FREEZE(weft_work, flags, 16);
typedef struct weft_tensor_info {
    uint32_t struct_size, flags;
    const char *name, *role;
    uint32_t kind;
    uint32_t block;
    weft_shape shape;
} weft_tensor_info;
WEFT_FREEZE(weft_tensor_info, shape, 176);
typedef struct weft_view {
    uint32_t struct_size, flags;
    void *ctx;
    uint32_t (*mesh)(void *ctx, const char *mesh_axis);
    uint32_t (*micro_batches)(void *ctx);
    uint32_t (*tensors)(void *ctx);
    weft_status (*tensor)(void *ctx, weft_tensor t, weft_tensor_info *out);
    weft_status (*place)(void *ctx, weft_tensor t, const char *mesh_axis, weft_place *out);
    uint32_t (*blocks)(void *ctx);
    const char *(*block)(void *ctx, uint32_t i);
    double (*block_flops)(void *ctx, uint32_t i);
    uint64_t (*block_params)(void *ctx, uint32_t i);
    uint32_t (*ops)(void *ctx);
    weft_status (*op)(void *ctx, uint32_t op, const char **id, weft_opcall *call);
} weft_view;
WEFT_FREEZE(weft_view, op, 104);
#define WEFT_SYNC_LAST 1u
#define WEFT_SYNC_EVERY 2u
#define WEFT_SYNC_NEVER 3u
#define WEFT_SHARD_STATE 1u
#define WEFT_SHARD_GRADS 2u
#define WEFT_SHARD_PARAMS 3u
#define WEFT_ACTIVATION_WHOLE 1u
#define WEFT_ACTIVATION_SPLIT 2u
#define WEFT_ACTIVATION_RECOMPUTE 3u
typedef weft_status (*weft_emit)(void *user, const weft_builder *b);
typedef struct weft_edits {
    uint32_t struct_size, flags;
    void *ctx;
    weft_status (*split)(void *ctx, const char *tensors, const char *axis, const char *mesh_axis,
                         uint32_t flags);
    weft_status (*replace)(void *ctx, uint32_t op, uint32_t flags, weft_emit emit, void *user);
    weft_status (*group)(void *ctx, const char *name, const char *mesh_axis, const uint32_t *coords,
                         uint32_t n, uint32_t flags);
    weft_status (*stage)(void *ctx, const char *blocks, const char *mesh_axis, uint32_t stage,
                         uint32_t chunk, uint32_t flags);
    weft_status (*order)(void *ctx, const char *mesh_axis, uint32_t stage, const weft_work *work,
                         uint32_t n, uint32_t flags);
    weft_status (*sync)(void *ctx, const char *params, const char *mesh_axis, uint32_t when,
                        uint64_t bucket_bytes, uint32_t flags);
    weft_status (*shard)(void *ctx, uint32_t what, const char *params, const char *mesh_axis,
                         uint32_t ahead, uint32_t flags);
    weft_status (*periodic_list)(void *ctx, const char *name, uint32_t every, uint32_t flags,
                                 weft_emit emit, void *user);
    weft_status (*activations)(void *ctx, const char *tensors, uint32_t how, const char *mesh_axis,
                               uint32_t flags);
    weft_status (*weight_versions)(void *ctx, const char *params, uint32_t versions,
                                   uint32_t flags);
    weft_status (*changes_results)(void *ctx, const char *text, uint32_t flags);
} weft_edits;
WEFT_FREEZE(weft_edits, changes_results, 104);
typedef struct weft_strategy {
    uint32_t struct_size, flags;
    const weft_mesh_axis *const *axes;
    weft_status (*edit)(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits);
    const char *list;
} weft_strategy;
WEFT_FREEZE(weft_strategy, list, 32);
WEFT_EXTERN_C_END
#endif
