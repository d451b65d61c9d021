/* run/view/sinks.c: see sinks.h. */
#include "run/view/sinks.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/config.h"
#include "host/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const weft_sink_table *table_of(const run_sinks *s, uint32_t i)
{
    return s->spec->sinks[i]->table;
}

static weft_status open_one(const run_sinks_for *f, const host_component *c, weft_sink **out)
{
    char section[128];
    snprintf(section, sizeof section, "sink.%s", c->name);
    const weft_sink_args args = {.struct_size = sizeof args,
                                 .rank = 0,
                                 .ranks = f->ranks,
                                 .job = f->set->name,
                                 .out = f->set->out,
                                 .after = f->after,
                                 .conf = config_conf(f->cfg, section, c->own)};
    const weft_sink_table *table = c->table;
    weft_status st = host_open(f->spec->host, c);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(table, open, c->module, &args, out);
    if (st == WEFT_OK && !*out)
        st = err_fail(WEFT_INTERNAL, "its open() returned WEFT_OK and no sink");
    return st;
}

/* Sink `i` has failed, as err_text() says: the run goes on without it. */
static void lose(run_sinks *s, uint32_t i)
{
    weft_sink *lost = s->open[i];
    err_context("sink %s", s->spec->sinks[i]->name);
    log_line(WEFT_LOG_WARN, "%s; the run goes on without this sink", err_text());
    err_clear();
    s->open[i] = NULL;
    if (lost)
        PLUGIN_DO(table_of(s, i), close, lost);
}

weft_status run_sinks_open(const run_sinks_for *f, run_sinks *out)
{
    *out = (run_sinks){.spec = f->spec, .meter = f->meter};
    out->values = mem_alloc((run_metrics_max(f->told) + METER_MAX) * sizeof *out->values);
    for (uint32_t i = 0; i < f->spec->nsinks; i++) {
        const weft_status st = open_one(f, f->spec->sinks[i], &out->open[i]);
        if (st != WEFT_OK && st != WEFT_IO) {
            err_context("sink %s", f->spec->sinks[i]->name);
            return st;
        }
        out->n = i + 1;
        if (st != WEFT_OK)
            lose(out, i);
    }
    return WEFT_OK;
}

void run_sinks_step(run_sinks *s, const run_metrics *m)
{
    if (!s->n)
        return;
    uint32_t n = run_metrics_list(m, s->values);
    n += run_meter_collect(s->meter, s->values, n, s->values + n);
    for (uint32_t i = 0; i < s->n; i++) {
        if (!s->open[i])
            continue;
        err_clear(); /* of failures that a sink has handled itself */
        if (PLUGIN_CALL(table_of(s, i), metrics, s->open[i], m->step, s->values, n, 0) != WEFT_OK)
            lose(s, i);
    }
}

void run_sinks_event(run_sinks *s, const char *name, uint64_t step, const char *fmt, ...)
{
    char text[1024];
    struct timespec now;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++) /* one line */
        *c = (unsigned char)*c < 32 || *c == 127 ? ' ' : *c;
    clock_gettime(CLOCK_REALTIME, &now);
    const weft_event e = {.struct_size = sizeof e,
                          .name = name,
                          .text = text,
                          .step = step,
                          .time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
    for (uint32_t i = 0; i < s->n; i++) {
        if (!s->open[i] || !table_of(s, i)->event)
            continue;
        err_clear();
        if (PLUGIN_CALL(table_of(s, i), event, s->open[i], &e) != WEFT_OK)
            lose(s, i);
    }
}

void run_sinks_close(run_sinks *s)
{
    while (s->n) {
        if (!s->open[--s->n])
            continue;
        PLUGIN_DO(table_of(s, s->n), close, s->open[s->n]);
    }
    free(s->values);
    *s = (run_sinks){0};
}
