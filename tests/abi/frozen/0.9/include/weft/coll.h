#ifndef WEFT_COLL_H
#define WEFT_COLL_H
#include <weft/device.h>
WEFT_EXTERN_C_BEGIN
#define WEFT_ALL_REDUCE 1u
#define WEFT_REDUCE_SCATTER 2u
#define WEFT_ALL_GATHER 3u
#define WEFT_BROADCAST 4u
#define WEFT_REDUCE 5u
#define WEFT_GATHER 6u
#define WEFT_SCATTER 7u
#define WEFT_ALL_TO_ALL 8u
#define WEFT_BARRIER 9u
#define WEFT_SEND 10u
#define WEFT_RECV 11u
#define WEFT_SHIFT 12u
#define WEFT_SUM 1u
#define WEFT_MAX 2u
#define WEFT_MIN 3u
typedef struct weft_comm weft_comm;
typedef struct weft_coll_args {
    uint32_t struct_size, flags;
    uint32_t rank, ranks;
    const void *id;
    uint64_t id_bytes;
    weft_comm *parent;
    uint32_t color;
    uint32_t reserved;
    void *stream;
    const weft_conf *conf;
    const uint32_t *members;
} weft_coll_args;
WEFT_FREEZE(weft_coll_args, members, 72);
typedef struct weft_coll_call {
    uint32_t struct_size, flags;
    uint32_t kind;
    uint32_t redop;
    uint32_t dtype;
    uint32_t root;
    const void *in;
    void *out;
    uint64_t count;
    void *stream;
} weft_coll_call;
WEFT_FREEZE(weft_coll_call, stream, 56);
#define WEFT_COLL_STREAM 1u
#define WEFT_COLL_HOST 2u
typedef struct weft_coll_table {
    uint32_t struct_size;
    uint32_t channels;
    uint64_t caps;
    weft_status (*probe)(void *module, const weft_conf *conf, uint32_t device_caps, int32_t *score);
    weft_status (*id)(void *module, const weft_conf *conf, void *out, uint64_t *bytes);
    weft_status (*open)(void *module, const weft_coll_args *args, weft_comm **out);
    weft_status (*ready)(weft_comm *c);
    void (*close)(weft_comm *c);
    weft_status (*register_memory)(weft_comm *c, void *base, uint64_t bytes, uint32_t flags);
    weft_status (*begin)(void *module, uint32_t flags);
    weft_status (*end)(void *module, uint32_t flags);
    weft_status (*call)(weft_comm *c, const weft_coll_call *call);
    weft_status (*health)(weft_comm *c);
    void (*abort)(weft_comm *c);
    weft_status (*test)(weft_comm *c, uint32_t flags, uint64_t *done);
    weft_status (*supports)(void *module, uint32_t kind, uint32_t redop, uint32_t dtype);
} weft_coll_table;
WEFT_FREEZE(weft_coll_table, supports, 120);
WEFT_EXTERN_C_END
#endif
