/* tests/plugins/sinks.c: a sink that writes each call of it into OUT/calls.txt, fails or hangs in
 * the call that [sink.test.sink] breaks names, and adds metrics of its own. See sinks.py. */
#include <weft/host.h>
#include <weft/sink.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct weft_sink {
    const weft_host *host;
    const weft_host_metrics *meter;
    const char *breaks;
    FILE *f;
    uint32_t sum, last, max;
};

static weft_status broken(const weft_host *host, const char *breaks, const char *call)
{
    if (!strncmp(breaks, "hang ", 5) && !strcmp(breaks + 5, call))
        for (;;)
            sleep(1);
    return strcmp(breaks, call) ? WEFT_OK
                                : host->fail(host->ctx, WEFT_IO, "this sink was told to break");
}

/* What must be refused is, and a name has one number. */
static weft_status declare(weft_sink *s)
{
    const weft_host_metrics *m = s->meter;
    uint32_t again = 0;
    static const char longest[] =
        "test.456789012345678901234567890123456789012345678901234567890123";
    if (m->declare(m->ctx, "test.sum", "bytes", WEFT_METRICS_SUM, 0, &s->sum) != WEFT_OK ||
        m->declare(m->ctx, "test.last", NULL, WEFT_METRICS_LAST, 0, &s->last) != WEFT_OK ||
        m->declare(m->ctx, "test.max", "ms", WEFT_METRICS_MAX, 0, &s->max) != WEFT_OK ||
        m->declare(m->ctx, "test.sum", "bytes", WEFT_METRICS_SUM, 0, &again) != WEFT_OK ||
        again != s->sum)
        return s->host->fail(s->host->ctx, WEFT_INTERNAL, "metrics are refused");
    if (m->declare(m->ctx, "test.sum", "ms", WEFT_METRICS_SUM, 0, &again) != WEFT_USAGE ||
        m->declare(m->ctx, "nodot", "", WEFT_METRICS_SUM, 0, &again) != WEFT_USAGE ||
        m->declare(m->ctx, longest, "", WEFT_METRICS_SUM, 0, &again) != WEFT_USAGE ||
        m->declare(m->ctx, "test.a\nb", "", WEFT_METRICS_SUM, 0, &again) != WEFT_USAGE ||
        m->declare(m->ctx, "test.x", "", 4, 0, &again) != WEFT_UNSUPPORTED ||
        m->declare(m->ctx, "test.x", "", WEFT_METRICS_SUM, 1, &again) != WEFT_UNSUPPORTED)
        return s->host->fail(s->host->ctx, WEFT_INTERNAL, "a wrong metric is declared");
    return WEFT_OK;
}

static weft_status test_open(void *module, const weft_sink_args *a, weft_sink **out)
{
    const weft_host *host = (const weft_host *)module;
    const char *breaks = a->conf->text(a->conf->ctx, "breaks");
    char path[4096];
    weft_status st = broken(host, breaks, "open");
    if (!strcmp(breaks, "usage"))
        st = host->fail(host->ctx, WEFT_USAGE, "this sink was told to break");
    weft_sink *s = (weft_sink *)weft_new(host, sizeof *s, &st);
    if (!s)
        return st;
    snprintf(path, sizeof path, "%s/calls.txt", a->out);
    *s = (weft_sink){.host = host, .breaks = breaks, .f = fopen(path, "a")};
    s->meter = (const weft_host_metrics *)host->iface(host->ctx, "weft.host.metrics/1");
    if (!s->f || !s->meter)
        return host->fail(host->ctx, WEFT_INTERNAL, "no file, or no table");
    fprintf(s->f, "open %u %u %s %" PRIu64 "\n", a->rank, a->ranks, a->job, a->after);
    *out = s;
    return declare(s);
}

static weft_status test_metrics(weft_sink *s, uint64_t step, const weft_metric *values, uint32_t n,
                                uint32_t flags)
{
    const weft_host_metrics *m = s->meter;
    fprintf(s->f, "metrics %" PRIu64 " %u", step, flags);
    for (uint32_t i = 0; i < n; i++)
        fprintf(s->f, " %s=%.17g=%s=%u", values[i].name, values[i].value, values[i].unit,
                values[i].kind);
    fputc('\n', s->f);
    fflush(s->f);
    m->add(m->ctx, s->sum, 1.5);            /* of the next step */
    m->add(m->ctx, s->sum, -12345678902.5); /* an amount, which is written whole */
    m->add(m->ctx, s->max, 7);
    m->add(m->ctx, s->max, -1);
    m->add(m->ctx, 0, 1);
    m->add(m->ctx, 1000, 1);
    if (step == 2) /* absent in other steps than 3 */
        m->add(m->ctx, s->last, NAN);
    return broken(s->host, s->breaks, "metrics");
}

static weft_status test_event(weft_sink *s, const weft_event *e)
{
    fprintf(s->f, "event %s %" PRIu64 " %d %s\n", e->name, e->step,
            e->time_ns > UINT64_C(1600000000000000000), e->text);
    fflush(s->f);
    return broken(s->host, s->breaks, e->name);
}

static void test_close(weft_sink *s)
{
    fprintf(s->f, "close\n");
    fclose(s->f);
    s->host->free(s->host->ctx, s);
}

static const weft_option breaks = {.struct_size = sizeof breaks,
                                   .type = WEFT_OPT_STRING,
                                   .key = "breaks",
                                   .dflt = "",
                                   .help =
                                       "the call, or event, that fails; hang NAME: never returns"};
static const weft_option *const options[] = {&breaks, NULL};

static const weft_sink_table table = {
    .struct_size = sizeof table,
    .open = test_open,
    .metrics = test_metrics,
    .event = test_event,
    .close = test_close,
};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.sink/1",
                                         .name = "test.sink",
                                         .help = "notes the calls of a sink",
                                         .options = options,
                                         .table = &table};
/* The same without event(), which is optional. */
static const weft_sink_table quiet_table = {
    .struct_size = sizeof quiet_table,
    .open = test_open,
    .metrics = test_metrics,
    .close = test_close,
};
static const weft_component quiet = {.struct_size = sizeof quiet,
                                     .iface = "weft.sink/1",
                                     .name = "test.quiet",
                                     .help = "notes the calls of a sink without events",
                                     .options = options,
                                     .table = &quiet_table};
static const weft_component *const components[] = {&component, &quiet, NULL};
WEFT_PLUGIN("org.test.sink", "1", "Apache-2.0", components, weft_open_host, NULL);
