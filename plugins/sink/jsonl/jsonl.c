/* plugins/sink/jsonl: OUT/metrics.jsonl, one JSON object per step, and on request OUT/events.jsonl,
 * one per event.
 *
 * A thread writes the lines (output.h). Before a checkpoint is complete, those of its steps are in
 * the file, so a run that resumes lacks none. It first removes the lines of later steps and an
 * incomplete last line; what cannot be read is left as it is. A line that cannot be written, as on
 * a full disk, is left out whole; the first one is logged, and so is the line with which the file
 * goes on. */
#define _GNU_SOURCE
#include <weft/sink.h>

#include "output.h"

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
#include <time.h>
#include <unistd.h>

#define VERSION 1 /* of each line */
#define FLOPS_RULE "products and attention of the plan, forward and backward"

struct weft_sink {
    const weft_host *host;
    output *metrics, *events; /* NULL: not asked for */
    char *line;        /* the one that is being made; a step finds no code of stdio in its caches */
    size_t used, room; /* bytes; used beyond room: there was no memory */
    char host_name[256];
    unsigned long attempt;
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

/* The step of a whole line of `n` bytes. False: the line is none that this sink writes. Rows have a
 * version, or in version 1 a loss or an event. */
static bool step_of(const char *line, ssize_t n, uint64_t *step)
{
    static const char mark[] = "\"step\":";
    const char *p = line[strspn(line, " \t")] == '{' ? strstr(line, mark) : NULL;
    p = p ? p + strlen(mark) : "";
    p += strspn(p, " \t");
    if (line[n - 1] != '\n' || *p < '0' || *p > '9' ||
        (!strstr(line, "\"version\":") && !strstr(line, "\"loss\":") &&
         !strstr(line, "\"event\":")))
        return false;
    *step = strtoull(p, NULL, 10);
    return true;
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

/* The bytes of the file up to the first line of a later step, or to an incomplete last line. Lines
 * that cannot be read are among them. *last is the step of the last line that can be read. */
static weft_status find_end(const weft_host *host, FILE *f, const char *name, uint64_t after,
                            uint64_t *last, off_t *end)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    uint64_t step;
    weft_status st = WEFT_OK;
    *last = UINT64_MAX;
    for (*end = 0; st == WEFT_OK && (n = getline(&line, &room, f)) > 0; *end += n) {
        const bool row = step_of(line, n, &step);
        if ((row && step > after) || line[n - 1] != '\n')
            break;
        if (row)
            st = check_version(host, name, line);
        *last = row ? step : *last;
    }
    if (st == WEFT_OK && ferror(f))
        st = fail(host, WEFT_IO, "%s cannot be read: %s", name, strerror(errno));
    free(line);
    return st;
}

/* Cut the file there. */
static weft_status cut_after(const weft_host *host, int fd, const char *name, uint64_t after,
                             uint64_t *last, off_t *end)
{
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    FILE *f = copy < 0 ? NULL : fdopen(copy, "r");
    if (!f) {
        const int error = errno;
        if (copy >= 0)
            close(copy);
        return fail(host, WEFT_IO, "%s cannot be read: %s", name, strerror(error));
    }
    weft_status st = find_end(host, f, name, after, last, end);
    fclose(f);
    if (st == WEFT_OK && ftruncate(fd, *end))
        st = fail(host, WEFT_IO, "%s cannot be cut after step %" PRIu64 ": %s", name, after,
                  strerror(errno));
    return st;
}

static weft_status open_file(const weft_host *host, const weft_sink_args *a, const char *name,
                             uint64_t *last, output **out)
{
    char path[4096];
    struct stat info;
    off_t end = 0;
    weft_status st = WEFT_OK;
    snprintf(path, sizeof path, "%s/%s", a->out, name);
    /* without O_NONBLOCK a FIFO would keep open() waiting for a reader */
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == ELOOP)
        return fail(host, WEFT_USAGE,
                    "%s is a link, and the file that it leads to may be somebody "
                    "else's: remove the link",
                    path);
    if (fd < 0)
        return fail(host, WEFT_IO, "%s cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &info) || !S_ISREG(info.st_mode))
        st = fail(host, WEFT_USAGE, "%s is not a regular file: remove it", path);
    else
        st = cut_after(host, fd, name, a->after, last, &end);
    if (st == WEFT_OK)
        *out = output_open(host, fd, end, name, "lines", &st);
    else
        close(fd);
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
    output_close(s->metrics);
    output_close(s->events);
    free(s->line);
    (s->host->free)(s->host->ctx, s);
}

/* Who writes: the host, and the number of the attempt that a launcher counts. */
static void find_self(weft_sink *s)
{
    const char *attempt = getenv("WEFT_ATTEMPT");
    s->attempt = attempt ? strtoul(attempt, NULL, 10) : 1;
    s->attempt = s->attempt ? s->attempt : 1;
    if (gethostname(s->host_name, sizeof s->host_name - 1))
        s->host_name[0] = 0;
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
    find_self(s);
    st = open_file(host, args, "metrics.jsonl", &last, &s->metrics);
    if (st == WEFT_OK)
        tell_missing(host, last, args->after);
    if (st == WEFT_OK && args->conf->integer(args->conf->ctx, "events"))
        st = open_file(host, args, "events.jsonl", &last, &s->events);
    if (st != WEFT_OK)
        jsonl_close(s);
    else
        *out = s;
    return st;
}

/* --- lines --- */

static void put_bytes(weft_sink *s, const char *bytes, size_t n)
{
    if (s->used + n > s->room) {
        char *more = s->used <= s->room ? realloc(s->line, 2 * (s->used + n)) : NULL;
        s->line = more ? more : s->line;
        s->room = more ? 2 * (s->used + n) : s->room;
    }
    if (s->used + n <= s->room)
        memcpy(s->line + s->used, bytes, n);
    s->used += n;
}

static void put(weft_sink *s, const char *text)
{
    put_bytes(s, text, strlen(text));
}

static void put_whole(weft_sink *s, uint64_t v)
{
    char digits[20];
    uint32_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + v % 10);
    while (v /= 10);
    put_bytes(s, digits + at, sizeof digits - at);
}

/* Text as a JSON string. */
static void put_string(weft_sink *s, const char *text)
{
    char escaped[8];
    put(s, "\"");
    for (const char *p = text ? text : ""; *p;) {
        size_t n = 0;
        while ((unsigned char)p[n] >= 32 && p[n] != '"' && p[n] != '\\')
            n++;
        put_bytes(s, p, n);
        p += n;
        if (!*p)
            break;
        snprintf(escaped, sizeof escaped, (unsigned char)*p < 32 ? "\\u%04x" : "\\%c", *p);
        put(s, escaped);
        p++;
    }
    put(s, "\"");
}

/* JSON has no NaN and no infinity: they become null. Amounts are whole; the loss scale is a power
 * of two that a resumed run compares. */
static void put_number(weft_sink *s, const weft_metric *m)
{
    char text[40] = "null";
    const double v = m->value;
    const bool amount = !strcmp(m->unit, "bytes") || !strcmp(m->unit, "tokens");
    const bool whole = fabs(v) < (amount ? 9007199254740992.0 : 1e9) && v == trunc(v);
    if (whole && !signbit(v)) {
        put_whole(s, (uint64_t)v); /* as printf() has it below */
        return;
    }
    if (isfinite(v))
        snprintf(text, sizeof text,
                 amount && whole            ? "%.0f"
                 : strcmp(m->name, "scale") ? "%.9g"
                                            : "%.17g",
                 v);
    put(s, text);
}

/* The line of `step` begins: what every line has. `ns`: since 1970, UTC. */
static void begin(weft_sink *s, uint64_t step, uint64_t ns)
{
    const uint64_t ms = ns / 1000000;
    const char fraction[] = {'.', (char)('0' + ms / 100 % 10), (char)('0' + ms / 10 % 10),
                             (char)('0' + ms % 10)};
    s->used = 0;
    put(s, "{\"step\":");
    put_whole(s, step);
    put(s, ",\"time\":");
    put_whole(s, ms / 1000);
    put_bytes(s, fraction, sizeof fraction);
    put(s, ",\"host\":");
    put_string(s, s->host_name);
    put(s, ",\"attempt\":");
    put_whole(s, s->attempt);
}

static void finish(weft_sink *s, output *o, uint64_t step)
{
    put(s, ",\"version\":");
    put_whole(s, VERSION);
    put(s, "}\n");
    output_add(o, step, s->used > s->room ? NULL : s->line, s->used);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static weft_status jsonl_metrics(weft_sink *s, uint64_t step, const weft_metric *values, uint32_t n,
                                 uint32_t flags)
{
    if (flags)
        return fail(s->host, WEFT_UNSUPPORTED, "metrics() with the unknown flags 0x%x", flags);
    begin(s, step, now());
    for (uint32_t i = 0; i < n; i++) {
        put(s, ",");
        put_string(s, values[i].name);
        put(s, ":");
        put_number(s, &values[i]);
        if (!strcmp(values[i].name, "mfu"))
            put(s, ",\"flops_rule\":\"" FLOPS_RULE "\"");
    }
    finish(s, s->metrics, step);
    return WEFT_OK;
}

static weft_status jsonl_event(weft_sink *s, const weft_event *e)
{
    weft_event own = {0};
    weft_take(&own, sizeof own, e);
    if (!strcmp(own.name, "saving"))
        output_settle(s->metrics);
    if (!s->events)
        return WEFT_OK;
    begin(s, own.step, own.time_ns);
    put(s, ",\"event\":");
    put_string(s, own.name);
    put(s, ",\"text\":");
    put_string(s, own.text);
    finish(s, s->events, own.step);
    return WEFT_OK;
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
