/* report/metrics.c: metrics.jsonl as columns, short enough to draw.
 *
 * A run has any number of steps, a page room for some thousand points. Equal numbers of
 * neighbouring lines become a point with their mean, least and greatest value, so that a peak of
 * one step stays visible. Metrics that few steps have, such as valid_loss, keep each of their
 * values, or so many that are spread evenly. Cost: one parse of each line. */
#include "run/view/metrics.h"
#include "base/clock.h"
#include "base/mem.h"
#include "report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POINTS 1000u /* of a series at most */
#define COLUMNS 256u /* names beyond are left out */
#define NAME_BYTES 96u
#define RECENT 20u /* lines */

typedef struct column {
    char name[NAME_BYTES];
    VEC(double) at; /* of the lines up to the last one that has it; NAN: absent, or no number */
    uint32_t values;
} column;

typedef struct attempt {
    uint64_t number, first, last;
    char host[64];
} attempt;

struct report_metrics {
    VEC(uint64_t) step; /* of each line */
    VEC(double) clock;  /* likewise, since 1970 */
    column *column[COLUMNS];
    uint32_t ncolumns, left_out, bad;
    bool unread; /* the file could not be read to its end */
    VEC(attempt) attempts;
};

/* NULL: no line has it. */
static column *find_column(const report_metrics *t, const char *name)
{
    for (uint32_t i = 0; i < t->ncolumns; i++)
        if (!strcmp(t->column[i]->name, name))
            return t->column[i];
    return NULL;
}

static column *column_of(report_metrics *t, const char *name)
{
    column *c = find_column(t, name);
    if (c)
        return c;
    if (t->ncolumns == COLUMNS || strlen(name) >= NAME_BYTES) {
        t->left_out++;
        return NULL;
    }
    c = t->column[t->ncolumns++] = mem_alloc(sizeof *c);
    memcpy(c->name, name, strlen(name) + 1);
    return c;
}

/* A run that was resumed has steps again; the later lines hold. */
static void forget_from(report_metrics *t, uint64_t step)
{
    while (t->step.n && t->step.at[t->step.n - 1] >= step)
        t->step.n--, t->clock.n--;
    for (uint32_t i = 0; i < t->ncolumns; i++) {
        column *c = t->column[i];
        for (; c->at.n > t->step.n; c->at.n--)
            c->values -= !isnan(c->at.at[c->at.n - 1]);
    }
}

static void note_attempt(report_metrics *t, const json_t *line, uint64_t step)
{
    const char *host = json_string_value(json_object_get(line, "host"));
    const uint64_t number = (uint64_t)json_integer_value(json_object_get(line, "attempt"));
    attempt *a = t->attempts.n ? &t->attempts.at[t->attempts.n - 1] : NULL;
    if (!a || a->number != number || step <= a->last || strcmp(a->host, host ? host : "")) {
        a = vec_push(&t->attempts);
        *a = (attempt){.number = number, .first = step};
        snprintf(a->host, sizeof a->host, "%.63s", host ? host : "");
    }
    a->last = step;
}

static void note_value(report_metrics *t, const char *name, const json_t *value)
{
    static const char *const others[] = {"step", "time", "attempt", "version"};
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i]))
            return;
    column *c = json_is_number(value) ? column_of(t, name) : NULL;
    if (!c)
        return;
    while (c->at.n + 1 < t->step.n)
        *vec_push(&c->at) = NAN;
    *vec_push(&c->at) = json_number_value(value);
    c->values++;
}

static void note_line(report_metrics *t, const char *text, size_t length)
{
    const char *name;
    json_t *value, *line = json_loadb(text, length, 0, NULL);
    const json_t *step = json_object_get(line, "step");
    if (!json_is_integer(step) || json_integer_value(step) < 1) {
        t->bad += length > 0;
        json_decref(line);
        return;
    }
    const uint64_t number = (uint64_t)json_integer_value(step);
    if (t->step.n && number <= t->step.at[t->step.n - 1])
        forget_from(t, number);
    *vec_push(&t->step) = number;
    *vec_push(&t->clock) = json_number_value(json_object_get(line, "time"));
    note_attempt(t, line, number);
    json_object_foreach (line, name, value)
        note_value(t, name, value);
    json_decref(line);
}

/* --- as JSON --- */

static double value_at(const column *c, uint32_t line)
{
    return line < c->at.n ? c->at.at[line] : NAN;
}

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* Units are those of the core's own metrics; the others have none. */
static const char *unit_of(const char *name)
{
    run_metrics all = {.valid_loss = 1,
                       .scale = 1,
                       .skipped = 1,
                       .verify_bytes = 1,
                       .save_stop_ms = 1,
                       .save_write_ms = 1,
                       .ranks.steps = 1};
    const run_metric of_axis = {name, 0};
    all.axes = &of_axis;
    all.naxes = !strncmp(name, "axis.", 5);
    weft_metric *list = mem_alloc(run_metrics_max(0) * sizeof *list);
    const char *unit = "";
    for (uint32_t i = run_metrics_list(&all, list); i-- > 0;)
        unit = strcmp(list[i].name, name) ? unit : list[i].unit;
    free(list);
    return unit;
}

/* Hoare's selection: v[k] becomes what it is in the sorted array, with nothing larger before it. In
 * the mean 3 n comparisons; a sort of 100,000 steps takes ten times as long, and a page has dozens.
 */
static void select_at(double *v, uint32_t n, uint32_t k)
{
    int64_t from = 0, to = (int64_t)n - 1;
    uint64_t chance = clock_ns(); /* so that no file can be written for the worst case */
    while (from < to) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        const double pivot = v[from + (int64_t)((chance >> 33) % (uint64_t)(to - from + 1))];
        int64_t i = from, j = to;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                const double x = v[i];
                v[i++] = v[j];
                v[j--] = x;
            }
        }
        if (k <= j)
            to = j;
        else if (k >= i)
            from = i;
        else
            return;
    }
}

/* Over the lines from `first` on, which are of one layout. */
static double median_of(const report_metrics *t, const column *c, uint32_t first)
{
    uint32_t n = 0;
    double *v = mem_alloc(t->step.n * sizeof *v + 1);
    for (uint32_t i = first; i < t->step.n; i++)
        if (isfinite(value_at(c, i)))
            v[n++] = value_at(c, i);
    select_at(v, n, n / 2);
    if (n && n % 2 == 0) /* the one before it, too */
        select_at(v, n / 2, n / 2 - 1);
    const double median = n ? (v[n / 2] + v[(n - 1) / 2]) / 2 : NAN;
    free(v);
    return median;
}

static json_t *series_json(const report_metrics *t, const column *c, uint32_t bucket,
                           uint32_t first)
{
    json_t *mean = json_array(), *min = json_array(), *max = json_array();
    for (uint32_t i = 0; i < t->step.n; i += bucket) {
        double sum = 0, least = INFINITY, most = -INFINITY;
        uint32_t n = 0;
        for (uint32_t k = i; k < i + bucket && k < t->step.n; k++) {
            const double v = value_at(c, k);
            if (!isfinite(v))
                continue;
            sum += v;
            n++;
            least = v < least ? v : least;
            most = v > most ? v : most;
        }
        json_array_append_new(mean, number(n ? sum / n : NAN));
        json_array_append_new(min, number(least));
        json_array_append_new(max, number(most));
    }
    json_t *x = json_pack("{s:s, s:o, s:o}", "unit", unit_of(c->name), "median",
                          number(median_of(t, c, first)), "mean", mean);
    if (bucket > 1) {
        json_object_set(x, "min", min);
        json_object_set(x, "max", max);
    }
    json_decref(min);
    json_decref(max);
    return x;
}

/* The values that are there: the last, and others at equal distances. */
static json_t *points_json(const report_metrics *t, const column *c)
{
    json_t *step = json_array(), *value = json_array();
    const uint32_t every = c->values / POINTS + 1;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < c->at.n; i++) {
        if (isnan(c->at.at[i]))
            continue;
        if (++seen % every && seen != c->values)
            continue;
        json_array_append_new(step, json_integer((json_int_t)t->step.at[i]));
        json_array_append_new(value, number(c->at.at[i]));
    }
    return json_pack("{s:s, s:o, s:o}", "unit", unit_of(c->name), "step", step, "value", value);
}

/* The line of `step`, or of the next one there is. */
static uint32_t line_of(const report_metrics *t, uint64_t step)
{
    uint32_t low = 0, high = t->step.n;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (t->step.at[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The end of what began with `first`: a begin of the record comes next, or the attempt ends. */
static uint64_t end_of(const json_t *begins, uint64_t first, uint64_t last)
{
    const json_t *x;
    size_t i;
    json_array_foreach (begins, i, x) {
        const json_int_t after = json_integer_value(json_object_get(x, "after"));
        if (after >= (json_int_t)first && (uint64_t)after < last)
            last = (uint64_t)after;
    }
    return last;
}

/* A run that is resumed by hand has the number of its attempt again; the record says where. */
static json_t *attempts_json(const report_metrics *t, const json_t *begins)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < t->attempts.n; i++) {
        const attempt *a = &t->attempts.at[i];
        for (uint64_t first = a->first, last; first <= a->last; first = last + 1) {
            last = end_of(begins, first, a->last);
            const uint32_t from = line_of(t, first), to = line_of(t, last);
            if (to >= t->step.n)
                break;
            json_array_append_new(
                all, json_pack("{s:I, s:o, s:I, s:I, s:I, s:I}", "attempt", (json_int_t)a->number,
                               "host", report_text(a->host), "first", (json_int_t)first, "last",
                               (json_int_t)last, "from", (json_int_t)t->clock.at[from], "to",
                               (json_int_t)t->clock.at[to]));
        }
    }
    return all;
}

/* Seconds a step, evaluations and saves included, over the newest lines; null: too few to say. */
static json_t *pace_json(const report_metrics *t, uint32_t first)
{
    const uint32_t n = t->step.n, from = n > first + RECENT ? n - RECENT : first;
    const double took = n > from ? t->clock.at[n - 1] - t->clock.at[from] : 0;
    return took > 0 ? json_real(took / (double)(t->step.at[n - 1] - t->step.at[from]))
                    : json_null();
}

/* The mean of step_ms over the newest lines; null: none has it. */
static json_t *recent_json(const report_metrics *t)
{
    const uint32_t lines = t->step.n, from = lines > RECENT ? lines - RECENT : 0;
    const column *c = find_column(t, "step_ms");
    double sum = 0, n = 0;
    for (uint32_t i = from; c && i < lines; i++)
        if (isfinite(value_at(c, i))) {
            sum += value_at(c, i);
            n++;
        }
    return number(n > 0 ? sum / n : NAN);
}

/* The newest value of each metric, however few steps have it. */
static json_t *newest_json(const report_metrics *t)
{
    json_t *all = json_object();
    for (uint32_t i = 0; i < t->ncolumns; i++) {
        const column *c = t->column[i];
        uint32_t n = c->at.n;
        while (n && isnan(c->at.at[n - 1]))
            n--;
        if (n)
            json_object_set_new(all, c->name,
                                json_pack("{s:I, s:o}", "step", (json_int_t)t->step.at[n - 1],
                                          "value", number(c->at.at[n - 1])));
    }
    return all;
}

/* The values of the last step. */
static json_t *last_json(const report_metrics *t)
{
    json_t *last = json_object();
    for (uint32_t i = 0; i < t->ncolumns; i++) {
        const column *c = t->column[i];
        if (t->step.n && c->at.n == t->step.n)
            json_object_set_new(last, c->name, number(c->at.at[c->at.n - 1]));
    }
    json_object_set_new(last, "time",
                        t->step.n ? json_integer((json_int_t)t->clock.at[t->step.n - 1])
                                  : json_null());
    return last;
}

static void put_notes(const report_metrics *t, json_t *notes)
{
    if (t->unread)
        report_note(notes, "metrics.jsonl could not be read to its end");
    if (t->bad)
        report_note(notes, "metrics.jsonl has %u line%s that could not be read", t->bad,
                    t->bad == 1 ? "" : "s");
    if (t->left_out)
        report_note(notes, "metrics.jsonl has more than %u metrics; the others are left out",
                    COLUMNS);
}

/* Where the points of series are: step, seconds since the first line, tokens until then. */
static void put_places(const report_metrics *t, uint32_t bucket, json_t *run)
{
    json_t *steps = json_array(), *elapsed = json_array(), *tokens = json_array();
    const column *each = find_column(t, "tokens");
    double sum = 0;
    for (uint32_t i = 0; i < t->step.n; i++) {
        sum += each ? value_at(each, i) : NAN;
        if ((i + 1) % bucket && i + 1 < t->step.n)
            continue;
        json_array_append_new(steps, json_integer((json_int_t)t->step.at[i]));
        json_array_append_new(elapsed, number(t->clock.at[i] - t->clock.at[0]));
        json_array_append_new(tokens, number(sum));
    }
    json_object_set_new(run, "step", steps);
    json_object_set_new(run, "elapsed", elapsed);
    json_object_set_new(run, "tokens", tokens);
}

void report_metrics_put(const report_metrics *t, json_t *run, json_t *notes)
{
    const uint32_t n = t->step.n, bucket = (n + POINTS - 1) / POINTS;
    json_t *series = json_object(), *points = json_object();
    const json_t *begins = json_object_get(json_object_get(run, "record"), "begins");
    const json_t *newest = json_array_get(begins, json_array_size(begins) - 1);
    const json_int_t after = json_integer_value(json_object_get(newest, "after"));
    uint32_t first = line_of(t, after > 0 ? (uint64_t)after + 1 : 0);
    first = first < n ? first : 0; /* it has no step yet */
    put_places(t, bucket, run);
    for (uint32_t i = 0; i < t->ncolumns; i++) {
        const column *c = t->column[i];
        if (c->values > n / 2)
            json_object_set_new(series, c->name, series_json(t, c, bucket, first));
        else if (c->values)
            json_object_set_new(points, c->name, points_json(t, c));
    }
    json_object_set_new(run, "steps",
                        n ? json_pack("{s:I, s:I, s:i, s:i}", "first", (json_int_t)t->step.at[0],
                                      "last", (json_int_t)t->step.at[n - 1], "n", (int)n, "bucket",
                                      (int)bucket)
                          : json_null());
    json_object_set_new(run, "series", series);
    json_object_set_new(run, "points", points);
    json_object_set_new(run, "newest", newest_json(t));
    json_object_set_new(run, "recent_ms", recent_json(t));
    json_object_set_new(run, "last", n ? last_json(t) : json_null());
    json_object_set_new(run, "attempts", attempts_json(t, begins));
    json_object_set_new(run, "pace", pace_json(t, first));
    put_notes(t, notes);
}

report_metrics *report_metrics_create(void)
{
    return mem_alloc(sizeof(report_metrics));
}

void report_metrics_read(report_metrics *t, FILE *f)
{
    char *line = mem_alloc(REPORT_LINE);
    size_t length;
    bool whole;
    clearerr(f);
    off_t at = ftello(f);
    for (; report_next_line(f, line, &length, &whole) && whole; at = ftello(f))
        note_line(t, line, length);
    t->unread = ferror(f) || at < 0;
    fseeko(f, at < 0 ? 0 : at, SEEK_SET);
    free(line);
}

void report_metrics_free(report_metrics *t)
{
    for (uint32_t i = 0; t && i < t->ncolumns; i++) {
        free(t->column[i]->at.at);
        free(t->column[i]);
    }
    if (t) {
        free(t->attempts.at);
        free(t->clock.at);
        free(t->step.at);
    }
    free(t);
}
