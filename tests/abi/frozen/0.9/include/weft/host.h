#ifndef WEFT_HOST_H
#define WEFT_HOST_H
#include <weft/plugin.h>
WEFT_EXTERN_C_BEGIN
typedef struct weft_tls weft_tls;
typedef struct weft_host_tls {
    uint32_t struct_size, flags;
    void *ctx;
    weft_status (*start)(void *ctx, int32_t fd, int32_t server, const char *label, weft_tls **out);
    weft_status (*handshake)(weft_tls *t);
    int32_t (*wants)(const weft_tls *t);
    weft_status (*read)(weft_tls *t, void *to, uint64_t bytes, uint64_t *done);
    weft_status (*write)(weft_tls *t, const void *from, uint64_t bytes, uint64_t *done);
    void (*end)(weft_tls *t);
} weft_host_tls;
WEFT_FREEZE(weft_host_tls, end, 64);
typedef struct weft_component_args {
    uint32_t struct_size, flags;
    const char *iface;
    const char *name;
} weft_component_args;
WEFT_FREEZE(weft_component_args, name, 24);
typedef struct weft_component_ref {
    uint32_t struct_size, flags;
    const void *table;
    void *module;
    const weft_conf *conf;
} weft_component_ref;
WEFT_FREEZE(weft_component_ref, conf, 32);
typedef struct weft_host_component {
    uint32_t struct_size, flags;
    void *ctx;
    weft_status (*open)(void *ctx, const weft_component_args *args, weft_component_ref *out);
} weft_host_component;
WEFT_FREEZE(weft_host_component, open, 24);
typedef struct weft_host_trace {
    uint32_t struct_size, flags;
    void *ctx;
    int32_t (*enabled)(void *ctx);
    uint64_t (*now)(void *ctx);
    void (*span)(void *ctx, const char *name, uint64_t began_ns, uint64_t ended_ns);
} weft_host_trace;
WEFT_FREEZE(weft_host_trace, span, 40);
typedef struct weft_kv_gather {
    uint32_t struct_size, flags;
    const char *key;
    const uint32_t *members;
    uint32_t n;
    uint32_t reserved;
    const void *in;
    uint64_t bytes;
    void *out;
} weft_kv_gather;
WEFT_FREEZE(weft_kv_gather, out, 56);
typedef struct weft_host_kv {
    uint32_t struct_size, flags;
    void *ctx;
    uint32_t rank, ranks;
    weft_status (*put)(void *ctx, const char *key, const void *data, uint64_t bytes);
    weft_status (*get)(void *ctx, const char *key, void *out, uint64_t *bytes);
    weft_status (*all_gather)(void *ctx, const weft_kv_gather *args);
} weft_host_kv;
WEFT_FREEZE(weft_host_kv, all_gather, 48);
#define WEFT_METRICS_LAST 1u
#define WEFT_METRICS_SUM 2u
#define WEFT_METRICS_MAX 3u
typedef struct weft_host_metrics {
    uint32_t struct_size, flags;
    void *ctx;
    weft_status (*declare)(void *ctx, const char *name, const char *unit, uint32_t how,
                           uint32_t flags, uint32_t *out);
    void (*add)(void *ctx, uint32_t metric, double value);
} weft_host_metrics;
WEFT_FREEZE(weft_host_metrics, add, 32);
WEFT_EXTERN_C_END
#endif
