#ifndef WEFT_SINK_H
#define WEFT_SINK_H
#include <weft/plugin.h>
WEFT_EXTERN_C_BEGIN
typedef struct weft_sink weft_sink;
typedef struct weft_sink_args {
    uint32_t struct_size, flags;
    uint32_t rank, ranks;
    const char *job;
    const char *out;
    uint64_t after;
    const weft_conf *conf;
} weft_sink_args;
WEFT_FREEZE(weft_sink_args, conf, 48);
#define WEFT_METRIC_GAUGE 1u
#define WEFT_METRIC_COUNTER 2u
typedef struct weft_metric {
    const char *name;
    const char *unit;
    double value;
    uint32_t kind, flags;
} weft_metric;
WEFT_FREEZE(weft_metric, flags, 32);
typedef struct weft_event {
    uint32_t struct_size, flags;
    const char *name;
    const char *text;
    uint64_t step;
    uint64_t time_ns;
} weft_event;
WEFT_FREEZE(weft_event, time_ns, 40);
typedef struct weft_sink_table {
    uint32_t struct_size, flags;
    weft_status (*open)(void *module, const weft_sink_args *args, weft_sink **out);
    weft_status (*metrics)(weft_sink *s, uint64_t step, const weft_metric *values, uint32_t n,
                           uint32_t flags);
    weft_status (*event)(weft_sink *s, const weft_event *e);
    void (*close)(weft_sink *s);
} weft_sink_table;
WEFT_FREEZE(weft_sink_table, close, 40);
WEFT_EXTERN_C_END
#endif
