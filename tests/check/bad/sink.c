/* bad/sink.c: a sink that counts steps, and its ways of failing. Each name of sink.expected breaks
 * one rule. */
#include "faults.h"

#include <unistd.h>
#include <weft/sink.h>

struct weft_sink {
    const weft_host *host;
    uint64_t steps;
};

static weft_status open_sink(void *module, const weft_sink_args *args, weft_sink **out)
{
    const weft_host *host = module;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_sink *s = weft_new(host, sizeof *s, &st);
    if (!s)
        return st;
    s->host = host;
    *out = s;
    return WEFT_OK;
}

static weft_status metrics(weft_sink *s, uint64_t step, const weft_metric *values, uint32_t n,
                           uint32_t flags)
{
    const weft_status st = weft_check_flags(s->host, flags, 0);
    (void)step, (void)values, (void)n;
    s->steps += st == WEFT_OK;
    while (BAD == NEVER && s->steps >= 3)
        pause();
    return st;
}

static void close_sink(weft_sink *s)
{
    if (s)
        (s->host->free)(s->host->ctx, s);
}

static const weft_sink_table table = {
    .struct_size = sizeof table, .open = open_sink, .metrics = metrics, .close = close_sink};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.sink/1",
                                         .name = "acme.count",
                                         .help = "counts the steps",
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.count", "1", "MIT", components, weft_open_host, NULL);
