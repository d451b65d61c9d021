#ifndef WEFT_DATA_H
#define WEFT_DATA_H
#include <weft/graph.h>
#include <weft/plugin.h>
WEFT_EXTERN_C_BEGIN
typedef struct weft_field {
    const char *name;
    const char *help;
    uint32_t dtype;
    uint32_t rank;
    uint32_t flags, reserved;
    weft_axis axes[WEFT_MAX_AXES - 1];
} weft_field;
WEFT_FREEZE(weft_field, axes, 144);
typedef struct weft_dataset weft_dataset;
#define WEFT_DATA_TRAIN 1u
#define WEFT_DATA_VALID 2u
typedef struct weft_data_args {
    uint32_t struct_size, flags;
    uint32_t use;
    uint32_t reserved;
    uint64_t seed;
    const weft_conf *conf;
} weft_data_args;
WEFT_FREEZE(weft_data_args, conf, 32);
typedef struct weft_data_info {
    uint32_t struct_size, flags;
    uint64_t samples;
    uint64_t rows;
    uint32_t vocab;
    uint32_t nfields;
    const weft_field *fields;
    const char *identity;
} weft_data_info;
WEFT_FREEZE(weft_data_info, identity, 48);
typedef struct weft_read_args {
    uint32_t struct_size, flags;
    uint64_t first, count;
    uint64_t sequence;
    uint32_t nfields;
    uint32_t reserved;
    void *const *out;
} weft_read_args;
WEFT_FREEZE(weft_read_args, out, 48);
typedef struct weft_data_table {
    uint32_t struct_size, flags;
    weft_status (*open)(void *module, const weft_data_args *args, weft_dataset **out);
    void (*close)(weft_dataset *d);
    weft_status (*info)(weft_dataset *d, uint64_t sequence, weft_data_info *out);
    weft_status (*read)(weft_dataset *d, const weft_read_args *args);
} weft_data_table;
WEFT_FREEZE(weft_data_table, read, 40);
typedef struct weft_tokenizer weft_tokenizer;
#define WEFT_TOKENIZER_NORMALIZES 1u
typedef struct weft_tokenizer_info {
    uint32_t struct_size, flags;
    uint32_t vocab;
    uint32_t begin;
    uint32_t end;
    uint32_t reserved;
    const char *identity;
} weft_tokenizer_info;
WEFT_FREEZE(weft_tokenizer_info, identity, 32);
#define WEFT_TEXT_LAST 1u
#define WEFT_TEXT_SPECIAL 2u
typedef struct weft_encode_args {
    uint32_t struct_size, flags;
    const char *text;
    uint64_t bytes;
    int32_t *out;
    uint64_t room;
} weft_encode_args;
WEFT_FREEZE(weft_encode_args, room, 40);
typedef struct weft_decode_args {
    uint32_t struct_size, flags;
    const int32_t *ids;
    uint64_t n;
    char *out;
    uint64_t room;
} weft_decode_args;
WEFT_FREEZE(weft_decode_args, room, 40);
typedef struct weft_tokenizer_table {
    uint32_t struct_size, flags;
    weft_status (*open)(void *module, const weft_conf *conf, weft_tokenizer **out);
    void (*close)(weft_tokenizer *t);
    weft_status (*info)(weft_tokenizer *t, weft_tokenizer_info *out);
    weft_status (*encode)(weft_tokenizer *t, const weft_encode_args *args, uint64_t *used,
                          uint64_t *n);
    weft_status (*decode)(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used,
                          uint64_t *bytes);
} weft_tokenizer_table;
WEFT_FREEZE(weft_tokenizer_table, decode, 48);
WEFT_EXTERN_C_END
#endif
