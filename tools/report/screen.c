/* report/screen.c: see screen.h. What a run says is data of other people: of text only printable
 * characters reach the terminal. */
#include "report/screen.h"

#include "report/report.h"
#include "run/view/progress.h"
#include "view/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#define LABEL 11 /* columns */
#define WHY_LINES 3u

typedef struct screen {
    FILE *to;
    uint32_t width, lines;
} screen;

/* NAN: absent. */
static double value_of(const json_t *x)
{
    return json_is_number(x) ? json_number_value(x) : NAN;
}

static double last(const json_t *run, const char *name)
{
    return value_of(json_object_get(json_object_get(run, "last"), name));
}

static double record(const json_t *run, const char *name)
{
    return value_of(json_object_get(json_object_get(run, "record"), name));
}

/* Of a metric that steps may lack. */
static double newest(const json_t *run, const char *name, uint64_t *step)
{
    const json_t *x = json_object_get(json_object_get(run, "newest"), name);
    *step = (uint64_t)json_integer_value(json_object_get(x, "step"));
    return value_of(json_object_get(x, "value"));
}

uint64_t report_screen_step(const json_t *run)
{
    return (uint64_t)json_integer_value(json_object_get(json_object_get(run, "steps"), "last"));
}

/* Without anything that a terminal would obey. */
static const char *plain(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; text && *text && n + 1 < size; text++)
        out[n++] = *text < ' ' || *text > '~' ? '?' : *text;
    out[n] = 0;
    return out;
}

static void row(screen *s, const char *label, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void row(screen *s, const char *label, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(s->to, "%-*.*s%.*s\n", LABEL, LABEL, label, (int)s->width - LABEL, text);
    s->lines++;
}

/* Tokens a second over the last steps: one step says little. */
static double recent_rate(const json_t *run)
{
    const double ms = value_of(json_object_get(run, "recent_ms"));
    return isfinite(ms) ? 1e3 * last(run, "tokens") / ms : last(run, "tokens_per_s");
}

/* "ETA 0:35", "the last step was 12 s ago", "it has ended". */
static void state(const json_t *run, char out[96])
{
    char left[32];
    const double steps = record(run, "steps"), each = value_of(json_object_get(run, "pace"));
    const double silent = (double)time(NULL) - last(run, "time");
    const uint64_t step = report_screen_step(run);
    const char *is = json_string_value(json_object_get(run, "state"));
    if (!is)
        snprintf(out, 96, "no job trains here");
    else if (strcmp(is, "running"))
        snprintf(out, 96, "%s",
                 !strcmp(is, "early") ? (steps > (double)step ? "ended early" : "failed at its end")
                 : !strcmp(is, "gone") ? "the folder is gone"
                                       : "complete");
    else if (silent > 5 && !(silent <= 5 * each))
        snprintf(out, 96, "running, but the last step was %.0f s ago", silent);
    else if (steps > (double)step && isfinite(each)) {
        const double seconds = each * (steps - (double)step) + 0.5;
        run_progress_duration(seconds < 1e9 ? (uint64_t)seconds : 0, left);
        snprintf(out, 96, "running, ETA %s", left);
    } else
        snprintf(out, 96, "running");
}

/* Why the run ended other than with all its steps; NULL: it goes on, or has not said. */
static const char *why_of(const json_t *run)
{
    const char *is = json_string_value(json_object_get(run, "state"));
    return is && !strcmp(is, "early") ? report_why(run) : NULL;
}

/* Over several lines; report.html has all of it. */
static void put_why(screen *s, const json_t *run)
{
    char text[1024];
    const char *at = plain(why_of(run), text, sizeof text), *label = "because";
    for (uint32_t i = 1; *at && i <= WHY_LINES; i++, label = "") {
        const char *more = i == WHY_LINES && strlen(at) > s->width - LABEL ? " ..." : "";
        size_t max = (s->width < 400 ? s->width : 400) - LABEL - strlen(more);
        size_t n = strnlen(at, max), cut = n;
        while (at[n] && cut && at[cut] != ' ')
            cut--;
        n = cut ? cut : n;
        row(s, label, "%.*s%s", (int)n, at, more);
        at += n + (at[n] == ' ');
    }
}

static void put_head(screen *s, const json_t *run)
{
    char name[128], where[128], about[96], of[32] = "";
    const double steps = record(run, "steps"), ranks = record(run, "ranks");
    const json_t *all = json_object_get(run, "attempts");
    const size_t n = json_array_size(all);
    const json_t *a = n ? json_array_get(all, n - 1) : NULL;
    state(run, about);
    if (steps > 0)
        snprintf(of, sizeof of, "/%.0f", steps);
    row(s, "run", "%s", plain(json_string_value(json_object_get(run, "name")), name, sizeof name));
    row(s, "step", "%" PRIu64 "%s, %s", report_screen_step(run), of, about);
    if (ranks > 0 && a)
        row(s, "ranks", "%.0f, rank 0 on %s, attempt %" JSON_INTEGER_FORMAT, ranks,
            plain(json_string_value(json_object_get(a, "host")), where, sizeof where),
            json_integer_value(json_object_get(a, "attempt")));
}

/* The series on one line, of its last points that fit. */
static void put_curve(screen *s, const json_t *run, const char *name, const char *label,
                      const char *value, int blocks)
{
    static const char *const high[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char low[] = "_.-=+*%#";
    const json_t *mean =
        json_object_get(json_object_get(json_object_get(run, "series"), name), "mean");
    const size_t n = json_array_size(mean);
    const uint32_t used = LABEL + 24;
    const uint32_t room = s->width > used + 4 ? s->width - used : 0,
                   points = room < n ? room : (uint32_t)n;
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const double v = value_of(json_array_get(mean, i));
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    fprintf(s->to, "%-*.*s%-24s", LABEL, LABEL, label, value);
    for (uint32_t i = 0; i < points; i++) {
        const double v = value_of(json_array_get(mean, i * n / points));
        const uint32_t level =
            most > least && isfinite(v) ? (uint32_t)(7.99 * (v - least) / (most - least)) : 0;
        if (!isfinite(v))
            fputc('?', s->to);
        else if (blocks)
            fputs(high[level & 7], s->to);
        else
            fputc(low[level & 7], s->to);
    }
    fputc('\n', s->to);
    s->lines++;
}

static void put_times(screen *s, const json_t *run)
{
    static const char *const names[] = {"compute_ms", "exposed_comm_ms", "bubble_ms",
                                        "optimizer_ms"};
    const double step = last(run, "step_ms");
    double share[4];
    for (uint32_t i = 0; i < 4; i++)
        share[i] = 100 * last(run, names[i]) / step;
    if (isfinite(share[0]))
        row(s, "time",
            "%.1f ms: compute %.0f %%, communication %.0f %%, bubble %.0f %%, optimizer %.0f %%",
            step, share[0], share[1], share[2], share[3]);
    uint64_t at;
    const double slowest = newest(run, "ranks.slowest", &at);
    const double max = newest(run, "ranks.step_ms.max", &at);
    const double min = newest(run, "ranks.step_ms.min", &at);
    if (isfinite(slowest))
        row(s, "ranks", "fastest %.1f, slowest %.1f ms a step; rank %.0f has the most work", min,
            max, slowest);
}

static void put_memory(screen *s, const json_t *run)
{
    const double r = last(run, "resident_bytes");
    if (isfinite(r))
        row(s, "memory", "%s planned, %s resident; %s sent a step",
            mem_size(last(run, "peak_bytes")).text, mem_size(r).text,
            mem_size(last(run, "comm_bytes")).text);
}

uint32_t report_screen(const json_t *run, uint32_t width, int blocks, FILE *to)
{
    screen s = {.to = to, .width = width < 40 ? 40 : width};
    char value[64], valid[64] = "";
    uint64_t at;
    const double v = newest(run, "valid_loss", &at);
    const json_t *note;
    size_t i;
    put_head(&s, run);
    if (report_screen_step(run)) {
        snprintf(value, sizeof value, "%.4f", last(run, "loss"));
        put_curve(&s, run, "loss", "loss", value, blocks);
        if (isfinite(v)) {
            snprintf(valid, sizeof valid, "%.4f after step %" PRIu64, v, at);
            row(&s, "validation", "%s", valid);
        }
        snprintf(value, sizeof value, "%.0f", recent_rate(run));
        put_curve(&s, run, "tokens_per_s", "tokens/s", value, blocks);
        put_times(&s, run);
        put_memory(&s, run);
    }
    put_why(&s, run);
    json_array_foreach (json_object_get(run, "notes"), i, note) {
        char text[128];
        row(&s, "note", "%s", plain(json_string_value(note), text, sizeof text));
    }
    return s.lines;
}

uint32_t report_screen_line(const json_t *run, uint32_t width, FILE *to)
{
    char about[96], name[128], valid[64] = "", of[32] = "", figures[160] = "", line[1536];
    char why[1024];
    uint64_t at;
    const double steps = record(run, "steps"), v = newest(run, "valid_loss", &at);
    state(run, about);
    if (isfinite(v))
        snprintf(valid, sizeof valid, "  valid %.4f after step %" PRIu64, v, at);
    if (steps > 0)
        snprintf(of, sizeof of, "/%.0f", steps);
    if (report_screen_step(run))
        snprintf(figures, sizeof figures, "  loss %.4f%s  %.0f tokens/s  %.1f ms",
                 last(run, "loss"), valid, recent_rate(run), last(run, "step_ms"));
    plain(why_of(run), why, sizeof why);
    snprintf(line, sizeof line, "%s  step %" PRIu64 "%s%s  %s%s%s",
             plain(json_string_value(json_object_get(run, "name")), name, sizeof name),
             report_screen_step(run), of, figures, about, *why ? ": " : "", why);
    fprintf(to, "%.*s\n", (int)(width < sizeof line ? width : sizeof line), line);
    fflush(to);
    return 1;
}
