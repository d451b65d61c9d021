/* sink.c: a sink that writes OUT/metrics.tsv: a line `step name value` for each value of each step,
 * and `step # name: text` for each event. */
#include <inttypes.h>
#include <stdio.h>
#include <weft/sink.h>

struct weft_sink {
    const weft_host *host;
    FILE *f;
};

static void close_sink(weft_sink *s)
{
    if (!s)
        return;
    if (s->f && fclose(s->f))
        s->host->log(s->host->ctx, WEFT_LOG_WARN, "acme.tsv: the last lines were not written");
    s->host->free(s->host->ctx, s);
}

static weft_status open_sink(void *module, const weft_sink_args *args, weft_sink **out)
{
    const weft_host *host = module;
    char path[4096];
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_sink *s = weft_new(host, sizeof *s, &st);
    if (!s)
        return st;
    s->host = host;
    const int length = snprintf(path, sizeof path, "%s/metrics.tsv", args->out);
    if (length > 0 && (size_t)length < sizeof path)
        s->f = fopen(path, args->after ? "a" : "w"); /* a resumed run goes on */
    if (!s->f) {
        close_sink(s);
        return (host->fail)(host->ctx, WEFT_IO, "acme.tsv: cannot write metrics.tsv in run.out");
    }
    *out = s;
    return WEFT_OK;
}

static weft_status metrics(weft_sink *s, uint64_t step, const weft_metric *values, uint32_t n,
                           uint32_t flags)
{
    const weft_status st = weft_check_flags(s->host, flags, 0);
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++)
        fprintf(s->f, "%" PRIu64 "\t%s\t%.9g\n", step, values[i].name, values[i].value);
    if (st == WEFT_OK && (fflush(s->f) || ferror(s->f)))
        return (s->host->fail)(s->host->ctx, WEFT_IO, "acme.tsv: cannot write metrics.tsv");
    return st;
}

static weft_status event(weft_sink *s, const weft_event *e)
{
    fprintf(s->f, "%" PRIu64 "\t#\t%s: %s\n", e->step, e->name, e->text ? e->text : "");
    return WEFT_OK;
}

static const weft_sink_table table = {sizeof table, 0, open_sink, metrics, event, close_sink};
static const weft_component tsv = {
    sizeof tsv, 0,      "weft.sink/1", "acme.tsv", "writes the values of each step to metrics.tsv",
    NULL,       &table, NULL};
static const weft_component *const components[] = {&tsv, NULL};
WEFT_PLUGIN("org.acme.tsv", "1", "", components, weft_open_host, NULL);
