#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H
#include <weft/data.h>
WEFT_EXTERN_C_BEGIN
#define WEFT_MODEL_TRAIN 1u
#define WEFT_MODEL_EVAL 2u
#define WEFT_MODEL_LOGITS 3u
typedef struct weft_model_args {
    uint32_t struct_size, flags;
    uint32_t want;
    uint32_t vocab;
    int64_t batch;
    int64_t sequence;
    double weight;
    const weft_conf *conf;
    const weft_field *fields;
    uint32_t nfields, reserved;
} weft_model_args;
WEFT_FREEZE(weft_model_args, reserved, 64);
typedef struct weft_model_info {
    uint32_t struct_size, flags;
    uint64_t params;
    int64_t context;
    uint32_t vocab;
    uint32_t reserved;
} weft_model_info;
WEFT_FREEZE(weft_model_info, reserved, 32);
typedef struct weft_model_tensor {
    uint32_t struct_size;
    uint32_t flags;
    const char *param;
    const char *name;
    const char *axes;
} weft_model_tensor;
WEFT_FREEZE(weft_model_tensor, axes, 32);
#define WEFT_TENSOR_BARE 1u
typedef struct weft_model_field {
    uint32_t struct_size, flags;
    const char *key;
    const char *field;
    const char *dflt;
    const char *values;
} weft_model_field;
WEFT_FREEZE(weft_model_field, values, 40);
typedef struct weft_model_format {
    uint32_t struct_size, flags;
    const char *format;
    const char *architecture;
    const char *prefix;
    const weft_model_tensor *const *tensors;
    const weft_model_field *const *fields;
} weft_model_format;
WEFT_FREEZE(weft_model_format, fields, 48);
typedef struct weft_model_table {
    uint32_t struct_size, flags;
    weft_status (*describe)(void *module, const weft_conf *conf, const weft_data_info *data,
                            weft_model_info *out);
    weft_status (*build)(void *module, const weft_model_args *args, const weft_builder *b,
                         weft_tensor *out);
    const weft_model_format *const *formats;
} weft_model_table;
WEFT_FREEZE(weft_model_table, formats, 32);
WEFT_EXTERN_C_END
#endif
