/* report/trace.c: one step of trace.json (see report.h), the one in the middle of those traced.
 *
 * The file has an event a line, so it is read line by line, twice: for steps and the names of
 * lanes, then for the spans of one step. Of many spans the longest are kept, which are those that a
 * picture shows. */
#include "base/mem.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

#define SPANS 20000u  /* of a page */
#define READ 2000000u /* of a step */
#define STEPS 128u    /* log.trace_steps has at most 101 */
#define RANKS 1000000 /* and more are none */

typedef struct span {
    double from, us;
    uint32_t rank, lane, name;
} span;

typedef struct reader {
    json_int_t step[STEPS], chosen;
    uint32_t nsteps, ranks, left_out;
    VEC(span) spans;
    json_t *lanes, *names;             /* arrays of text */
    json_t *lane_number, *name_number; /* text -> index */
    json_t *lane_of;                   /* "pid.tid" -> text */
    json_t *begun;                     /* "pid.id" -> begin of a span in two events */
} reader;

static const char *word(const json_t *event, const char *key)
{
    const char *s = json_string_value(json_object_get(event, key));
    return s ? s : "";
}

static json_int_t whole(const json_t *event, const char *key)
{
    return json_integer_value(json_object_get(event, key));
}

static uint32_t number_of(json_t *numbers, json_t *list, const char *name)
{
    const json_t *known = json_object_get(numbers, name);
    if (known)
        return (uint32_t)json_integer_value(known);
    const size_t n = json_array_size(list);
    json_object_set_new(numbers, name, json_integer((json_int_t)n));
    json_array_append_new(list, json_string(name));
    return (uint32_t)n;
}

static void pair_key(const json_t *event, const char *second, char key[64])
{
    const json_t *id = json_object_get(event, second);
    if (json_is_string(id))
        snprintf(key, 64, "%lld.%.40s", (long long)whole(event, "pid"), json_string_value(id));
    else
        snprintf(key, 64, "%lld.%lld", (long long)whole(event, "pid"),
                 (long long)json_integer_value(id));
}

/* --- the first time: which steps, which lanes --- */

static void note_outline(reader *r, const json_t *event)
{
    const json_t *args = json_object_get(event, "args"), *step = json_object_get(args, "step");
    if (!strcmp(word(event, "name"), "thread_name")) {
        char key[64];
        pair_key(event, "tid", key);
        json_object_set_new(r->lane_of, key, json_string(word(args, "name")));
    }
    if (!json_is_integer(step))
        return;
    for (uint32_t i = 0; i < r->nsteps; i++)
        if (r->step[i] == json_integer_value(step))
            return;
    if (r->nsteps < STEPS)
        r->step[r->nsteps++] = json_integer_value(step);
}

static int by_number(const void *a, const void *b)
{
    const json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;
    return x < y ? -1 : x > y;
}

/* --- the second time: spans --- */

static void add(reader *r, const json_t *event, const char *lane, double from, double us)
{
    const json_int_t rank = whole(event, "pid");
    if (rank < 0 || rank >= RANKS || us < 0)
        return;
    if (r->spans.n == READ) {
        r->left_out++;
        return;
    }
    r->ranks = r->ranks > (uint32_t)rank ? r->ranks : (uint32_t)rank + 1;
    const uint32_t l = number_of(r->lane_number, r->lanes, lane);
    const uint32_t n = number_of(r->name_number, r->names, word(event, "name"));
    *vec_push(&r->spans) = (span){from, us, (uint32_t)rank, l, n};
}

static void note_span(reader *r, const json_t *event)
{
    char key[64];
    const char *ph = word(event, "ph");
    const double ts = json_number_value(json_object_get(event, "ts"));
    const json_t *step = json_object_get(json_object_get(event, "args"), "step");
    if (!strcmp(ph, "e")) { /* its begin has the step */
        pair_key(event, "id", key);
        const json_t *from = json_object_get(r->begun, key);
        if (from)
            add(r, event, word(event, "cat"), json_number_value(from),
                ts - json_number_value(from));
        json_object_del(r->begun, key);
        return;
    }
    if (!json_is_integer(step) || json_integer_value(step) != r->chosen)
        return;
    if (!strcmp(ph, "b")) {
        pair_key(event, "id", key);
        json_object_set_new(r->begun, key, json_real(ts));
    } else if (!strcmp(ph, "X")) {
        pair_key(event, "tid", key);
        const char *lane = json_string_value(json_object_get(r->lane_of, key));
        add(r, event, lane ? lane : "?", ts, json_number_value(json_object_get(event, "dur")));
    }
}

static bool each_event(FILE *f, reader *r, void (*use)(reader *, const json_t *))
{
    char *line = mem_alloc(REPORT_LINE);
    size_t n;
    bool whole;
    rewind(f);
    while (report_next_line(f, line, &n, &whole)) {
        while (n && strchr(", \r", line[n - 1]))
            n--;
        json_t *event = n && *line == '{' ? json_loadb(line, n, 0, NULL) : NULL;
        if (event)
            use(r, event);
        json_decref(event);
    }
    free(line);
    return !ferror(f);
}

/* --- as JSON --- */

static int by_length(const void *a, const void *b)
{
    const double x = ((const span *)a)->us, y = ((const span *)b)->us;
    return x > y ? -1 : x < y;
}

static json_t *step_json(reader *r)
{
    json_t *spans = json_array();
    double first = 0, end = 0;
    if (r->spans.n)
        qsort(r->spans.at, r->spans.n, sizeof *r->spans.at, by_length);
    for (uint32_t i = 0; i < r->spans.n; i++) {
        const span *s = &r->spans.at[i];
        first = !i || s->from < first ? s->from : first;
        end = s->from + s->us > end ? s->from + s->us : end;
    }
    const uint32_t kept = r->spans.n < SPANS ? r->spans.n : SPANS;
    for (uint32_t i = 0; i < kept; i++) {
        const span *s = &r->spans.at[i];
        json_array_append_new(spans, json_pack("[iiffi]", (int)s->rank, (int)s->lane,
                                               s->from - first, s->us, (int)s->name));
    }
    return json_pack("{s:I, s:i, s:f, s:O, s:O, s:o, s:I}", "step", r->chosen, "ranks",
                     (int)r->ranks, "us", end - first, "names", r->names, "lanes", r->lanes,
                     "spans", spans, "left_out",
                     (json_int_t)r->left_out + (json_int_t)(r->spans.n - kept));
}

json_t *report_read_trace(FILE *f, json_t *notes)
{
    reader r = {.lanes = json_array(),
                .names = json_array(),
                .lane_number = json_object(),
                .name_number = json_object(),
                .lane_of = json_object(),
                .begun = json_object()};
    json_t *x = NULL;
    if (!each_event(f, &r, note_outline))
        report_note(notes, "trace.json could not be read to its end");
    if (r.nsteps) {
        qsort(r.step, r.nsteps, sizeof *r.step, by_number);
        r.chosen = r.step[r.nsteps / 2];
        each_event(f, &r, note_span);
        x = step_json(&r);
    } else {
        report_note(notes, "trace.json has no event of a step");
    }
    json_t *all[] = {r.lanes, r.names, r.lane_number, r.name_number, r.lane_of, r.begun};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
        json_decref(all[i]);
    free(r.spans.at);
    return x ? x : json_null();
}
