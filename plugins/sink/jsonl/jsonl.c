/* plugins/sink/jsonl: OUT/metrics.jsonl, one JSON object per step, and on request OUT/events.jsonl,
 * one per event.
 *
 * A line is flushed before the call returns, so after a crash a file lacks no step that is
 * complete. A run that resumes first removes the lines of later steps and an incomplete last line;
 * what cannot be read is left as it is. */
#include <weft/sink.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION 1 /* of each line */
#define FLOPS_RULE "products and attention of the plan, forward and backward"

struct weft_sink {
    const weft_host *host;
    FILE *metrics, *events; /* events NULL: not asked for */
};

/* --- messages --- */

static weft_status fail(const weft_host *host, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static weft_status fail(const weft_host *host, weft_status code, const char *fmt, ...)
{
    char text[4608];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return (host->fail)(host->ctx, code, text);
}

static void warn(const weft_host *host, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void warn(const weft_host *host, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (host->log)(host->ctx, WEFT_LOG_WARN, text);
}

/* --- opening --- */

static uint64_t step_of(const char *line)
{
    const char *p = strstr(line, "\"step\":");
    return p && strchr(p, '\n') ? strtoull(p + 7, NULL, 10) : UINT64_MAX;
}

/* Lines without a version have version 1. */
static weft_status check_version(const weft_host *host, const char *name, const char *line)
{
    static const char mark[] = "\"version\":";
    const char *p = strstr(line, mark);
    const char *digits = p ? p + strlen(mark) : "1";
    const size_t n = strspn(digits, "0123456789");
    const uint64_t found = n && n < 10 ? strtoull(digits, NULL, 10) : 0;
    if (!found)
        return fail(host, WEFT_DATA,
                    "%s has no valid version number; this program reads versions 1 to %d", name,
                    VERSION);
    return found <= VERSION
               ? WEFT_OK
               : fail(host, WEFT_UNSUPPORTED,
                      "%s has version %" PRIu64 ", and this program reads versions up to %d: use a "
                      "weft as new as the one that wrote it",
                      name, found, VERSION);
}

/* Truncate the file before the first line of a later step; not if it cannot be read. *last is the
 * step of the last line that is kept. */
static weft_status cut_after(const weft_host *host, FILE *f, const char *name, uint64_t after,
                             uint64_t *last)
{
    char line[8192];
    long keep = 0;
    uint64_t step;
    *last = UINT64_MAX;
    for (; fgets(line, sizeof line, f) && (step = step_of(line)) <= after; *last = step) {
        weft_status st = check_version(host, name, line);
        if (st != WEFT_OK)
            return st;
        keep = ftell(f);
    }
    if (ferror(f))
        return fail(host, WEFT_IO, "%s cannot be read: %s", name, strerror(errno));
    if (keep < 0 || fflush(f) || ftruncate(fileno(f), keep) || fseek(f, keep, SEEK_SET))
        return fail(host, WEFT_IO, "%s cannot be cut after step %" PRIu64 ": %s", name, after,
                    strerror(errno));
    return WEFT_OK;
}

static weft_status open_file(const weft_host *host, const weft_sink_args *a, const char *name,
                             FILE **file, uint64_t *last)
{
    char path[4096];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", a->out, name);
    /* without O_NONBLOCK a FIFO would keep open() waiting for a reader */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd >= 0 && (fstat(fd, &info) || !S_ISREG(info.st_mode))) {
        close(fd);
        return fail(host, WEFT_USAGE, "%s is not a regular file: remove it", path);
    }
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!f) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return fail(host, WEFT_IO, "%s cannot be opened: %s", path, strerror(error));
    }
    weft_status st = cut_after(host, f, name, a->after, last);
    if (st != WEFT_OK)
        fclose(f);
    else
        *file = f;
    return st;
}

static void tell_missing(const weft_host *host, uint64_t last, uint64_t after)
{
    if (after && last == UINT64_MAX)
        warn(host, "metrics.jsonl of earlier steps is missing: it starts at step %" PRIu64,
             after + 1);
    else if (after && last < after)
        warn(host,
             "metrics.jsonl ended after step %" PRIu64 ": it continues with step %" PRIu64
             ", and the steps between are missing",
             last, after + 1);
}

static void jsonl_close(weft_sink *s)
{
    if (!s)
        return;
    if (s->metrics)
        fclose(s->metrics);
    if (s->events)
        fclose(s->events);
    (s->host->free)(s->host->ctx, s);
}

static weft_status jsonl_open(void *module, const weft_sink_args *args, weft_sink **out)
{
    const weft_host *host = (const weft_host *)module;
    uint64_t last = 0;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_sink *s = (weft_sink *)weft_new(host, sizeof *s, &st);
    if (!s)
        return st;
    s->host = host;
    st = open_file(host, args, "metrics.jsonl", &s->metrics, &last);
    if (st == WEFT_OK)
        tell_missing(host, last, args->after);
    if (st == WEFT_OK && args->conf->integer(args->conf->ctx, "events"))
        st = open_file(host, args, "events.jsonl", &s->events, &last);
    if (st != WEFT_OK)
        jsonl_close(s);
    else
        *out = s;
    return st;
}

/* --- lines --- */

/* Text as a JSON string. */
static void string(FILE *f, const char *text)
{
    fputc('"', f);
    for (const char *p = text ? text : ""; *p; p++)
        if ((unsigned char)*p < 32)
            fprintf(f, "\\u%04x", (unsigned char)*p);
        else if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else
            fputc(*p, f);
    fputc('"', f);
}

/* JSON has no NaN and no infinity: they become null. Amounts are whole; the loss scale is a power
 * of two that a resumed run compares. */
static void number(FILE *f, const weft_metric *m)
{
    const bool amount = !strcmp(m->unit, "bytes") || !strcmp(m->unit, "tokens");
    if (!isfinite(m->value))
        fputs("null", f);
    else if (amount && fabs(m->value) < 9007199254740992.0 && m->value == trunc(m->value))
        fprintf(f, "%.0f", m->value);
    else
        fprintf(f, strcmp(m->name, "scale") ? "%.9g" : "%.17g", m->value);
}

static weft_status finish(weft_sink *s, FILE *f, const char *name)
{
    fprintf(f, ",\"version\":%d}\n", VERSION);
    return fflush(f) || ferror(f)
               ? fail(s->host, WEFT_IO, "%s cannot be written: %s", name, strerror(errno))
               : WEFT_OK;
}

static weft_status jsonl_metrics(weft_sink *s, uint64_t step, const weft_metric *values, uint32_t n,
                                 uint32_t flags)
{
    FILE *f = s->metrics;
    if (flags)
        return fail(s->host, WEFT_UNSUPPORTED, "metrics() with the unknown flags 0x%x", flags);
    fprintf(f, "{\"step\":%" PRIu64, step);
    for (uint32_t i = 0; i < n; i++) {
        fputc(',', f);
        string(f, values[i].name);
        fputc(':', f);
        number(f, &values[i]);
        if (!strcmp(values[i].name, "mfu"))
            fputs(",\"flops_rule\":\"" FLOPS_RULE "\"", f);
    }
    return finish(s, f, "metrics.jsonl");
}

static weft_status jsonl_event(weft_sink *s, const weft_event *e)
{
    FILE *f = s->events;
    weft_event own = {0};
    if (!f)
        return WEFT_OK;
    weft_take(&own, sizeof own, e);
    fprintf(f, "{\"step\":%" PRIu64 ",\"time\":%.3f,\"event\":", own.step,
            (double)own.time_ns * 1e-9);
    string(f, own.name);
    fputs(",\"text\":", f);
    string(f, own.text);
    return finish(s, f, "events.jsonl");
}

/* --- the plugin --- */

static const weft_option events = {.struct_size = sizeof events,
                                   .type = WEFT_OPT_BOOL,
                                   .key = "events",
                                   .dflt = "off",
                                   .help =
                                       "write what happens between steps into OUT/events.jsonl"};
static const weft_option *const options[] = {&events, NULL};

static const weft_sink_table table = {
    .struct_size = sizeof table,
    .open = jsonl_open,
    .metrics = jsonl_metrics,
    .event = jsonl_event,
    .close = jsonl_close,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.sink/1",
    .name = "jsonl",
    .help = "OUT/metrics.jsonl: the metrics of each step as a line of JSON",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.jsonl", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
