#ifndef WEFT_OPTIM_H
#define WEFT_OPTIM_H
#include <weft/graph.h>
#include <weft/plugin.h>
#include <weft/strategy.h>
WEFT_EXTERN_C_BEGIN
#define WEFT_UNIT_ELEMENT 1u
#define WEFT_UNIT_TENSOR 2u
#define WEFT_UNIT_MATRIX 3u
typedef struct weft_update {
    uint32_t struct_size;
    uint32_t flags;
    const char *name;
    weft_tensor param, grad;
    weft_tensor lr, count;
    const char *role;
} weft_update;
WEFT_FREEZE(weft_update, role, 40);
typedef struct weft_rule {
    uint32_t struct_size;
    uint32_t unit;
    weft_status (*update)(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u);
} weft_rule;
WEFT_FREEZE(weft_rule, update, 16);
typedef struct weft_placement_args {
    uint32_t struct_size, flags;
    const weft_view *view;
    const weft_edits *edits;
    const char *const *mesh_axes;
    uint32_t unit;
    uint32_t reserved;
} weft_placement_args;
WEFT_FREEZE(weft_placement_args, reserved, 40);
typedef struct weft_placement {
    uint32_t struct_size, flags;
    weft_status (*edit)(void *module, const weft_conf *conf, const weft_placement_args *args);
} weft_placement;
WEFT_FREEZE(weft_placement, edit, 16);
WEFT_EXTERN_C_END
#endif
