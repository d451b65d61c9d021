/* run/view/trace.c: see trace.h.
 *
 * A part has one JSON object per line, as trace.json has them, except that "ts" and "dur" come
 * first and are ns of the rank's own clock. Two lines are for the merge, which converts times and
 * copies the rest: "clock" says how far that of rank 0 was ahead, and "end" that the part is
 * complete. A line that a dying rank left unfinished is skipped.
 *
 * Clock offsets: a rank requests rank 0's time several times through the job's store and uses the
 * answer with the shortest round trip. The offset is exact to half of that time; a smaller offset
 * counts as 0, so ranks with a common clock are not shifted. It is measured at the start and at the
 * regular end, and interpolated linearly between them. */
#include "run/view/trace.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time/awake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 10
#define CLOCK_SECONDS 60.0
#define JOIN_WAIT_MS 400 /* wait for parts of other ranks after a failure */
#define CLOCKS_MAX 2
#define NAME_BYTES 200
#define LINE_BYTES 1024
#define EVENTS_MAX (1u << 20) /* of a step: 56 MiB */
#define BASE_TID 100000u      /* a thread with the number of its process would be its main one */

void run_trace_setup(uint64_t first, uint64_t last, uint64_t bytes, const plan *p, run_trace *out)
{
    *out = (run_trace){.first = first, .last = last, .bytes = bytes, .plan = p};
    if (last < first)
        return;
    out->starts = mem_alloc(p->collectives.n * sizeof *out->starts + 1);
    out->started = mem_alloc(p->channels.n * sizeof *out->started + 1);
    out->group = mem_alloc(p->spec->ranks * sizeof *out->group);
}

void run_trace_free(run_trace *t)
{
    if (t->part)
        fclose(t->part);
    free(t->events.at);
    free(t->starts);
    free(t->started);
    free(t->group);
    *t = (run_trace){.first = 1, .last = 0};
}

void run_trace_note(run_trace *t, run_trace_event e)
{
    if (t->events.n < EVENTS_MAX)
        *vec_push(&t->events) = e;
    else
        t->left_out++;
}

void run_trace_start(run_trace *t, uint32_t number, uint64_t step)
{
    const plan_collective *c = &t->plan->collectives.at[number];
    t->starts[number] = (run_trace_event){
        {c->name, clock_ns(), 0, step, TRACE_COMM}, 0, number, t->started[c->channel]++};
}

void run_trace_end(run_trace *t, uint32_t number, uint64_t began, uint64_t ended)
{
    run_trace_event e = t->starts[number];
    e.span.began = began ? began : e.span.began;
    e.span.ended = began ? ended : clock_ns();
    run_trace_note(t, e);
}

/* Write out what was added to the part since `at`. False: it does not fit into `limit` bytes of the
 * part, or the folder does not take it, and the part is as it was. */
static bool settle(run_trace *t, long at, uint64_t limit)
{
    const bool whole = !fflush(t->part) && !ferror(t->part);
    if (!whole && !t->error)
        t->error = errno;
    if (at < 0 || (whole && (uint64_t)ftell(t->part) <= limit))
        return whole;
    __fpurge(t->part);
    clearerr(t->part);
    return ftruncate(fileno(t->part), at) || fseek(t->part, at, SEEK_SET);
}

/* --- clock offset --- */

static void key_of(char key[64], char kind, uint32_t when, uint32_t rank, uint32_t round)
{
    snprintf(key, 64, "trace.%c.%u.%u.%u", kind, when, rank, round);
}

/* Rank 0: answer the requests of all other ranks for its time. */
static weft_status tell_time(job *j, uint32_t ranks, uint32_t when)
{
    weft_status st = WEFT_OK;
    for (uint32_t r = 1; st == WEFT_OK && r < ranks; r++)
        for (uint32_t k = 0; st == WEFT_OK && k < ROUNDS; k++) {
            char key[64];
            void *none = NULL;
            uint64_t bytes = 0;
            key_of(key, 'q', when, r, k);
            st = job_get(j, key, CLOCK_SECONDS, &none, &bytes);
            free(none);
            const uint64_t now = clock_ns();
            key_of(key, 'a', when, r, k);
            if (st == WEFT_OK)
                st = job_put(j, key, &now, sizeof now);
        }
    return st;
}

static weft_status ask_time(job *j, uint32_t rank, uint32_t when, int64_t *offset, uint64_t *error)
{
    uint64_t best = UINT64_MAX;
    weft_status st = WEFT_OK;
    for (uint32_t k = 0; st == WEFT_OK && k < ROUNDS; k++) {
        char key[64];
        void *answer = NULL;
        uint64_t bytes = 0, theirs = 0;
        key_of(key, 'q', when, rank, k);
        const uint64_t began = clock_ns();
        st = job_put(j, key, "", 0);
        key_of(key, 'a', when, rank, k);
        if (st == WEFT_OK)
            st = job_get(j, key, CLOCK_SECONDS, &answer, &bytes);
        const uint64_t took = clock_ns() - began;
        if (st == WEFT_OK && bytes != sizeof theirs)
            st = err_fail(WEFT_DATA, "rank 0 sent no time for the trace");
        if (st == WEFT_OK && took < best) {
            memcpy(&theirs, answer, sizeof theirs);
            best = took;
            *offset = (int64_t)(theirs - (began + took / 2));
        }
        free(answer);
    }
    *error = best / 2;
    if (*offset <= (int64_t)*error && *offset >= -(int64_t)*error)
        *offset = 0;
    return st;
}

/* `when` 0: at the start; 1: at the end. */
static weft_status note_clock(run_trace *t, job *j, uint32_t rank, uint32_t ranks, uint32_t when)
{
    int64_t offset = 0;
    uint64_t error = 0;
    weft_status st = !j     ? WEFT_OK
                     : rank ? ask_time(j, rank, when, &offset, &error)
                            : tell_time(j, ranks, when);
    const long at = ftell(t->part);
    fprintf(t->part,
            "{\"name\":\"clock\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"at_ns\":%" PRIu64
            ",\"ahead_ns\":%" PRId64 ",\"error_ns\":%" PRIu64 "}}\n",
            rank, clock_ns(), offset, error);
    (void)settle(t, at, UINT64_MAX);
    return st;
}

/* --- a rank's part --- */

static void part_path(const char *out_dir, uint32_t rank, char path[4096])
{
    snprintf(path, 4096, "%s/.trace-%u.part", out_dir, rank);
}

/* A new file in place of what has the name, which may be a link to somebody else's. */
static FILE *write_anew(const char *path)
{
    unlink(path);
    return fopen(path, "wxe");
}

void run_trace_remove_left(const char *out_dir)
{
    DIR *d = opendir(out_dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!fnmatch(".trace*.part", e->d_name, 0) || !strcmp(e->d_name, ".trace.join") ||
            !strcmp(e->d_name, "trace.json.tmp"))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

/* "rank 3 (tp 1, pp 1)": with its coordinates on axes that have several ranks. */
static void put_rank(const run_trace *t)
{
    const graph_mesh *m = &t->plan->spec->mesh;
    bool any = false;
    fprintf(t->part,
            "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"rank %u",
            t->rank, t->rank);
    for (uint32_t a = 0; a < m->n; a++)
        if (m->size[a] > 1) {
            fprintf(t->part, "%s%s %u", any ? ", " : " (", m->name[a],
                    graph_mesh_coord(m, t->rank, a));
            any = true;
        }
    fprintf(t->part, "%s\"}}\n", any ? ")" : "");
}

weft_status run_trace_begin(run_trace *t, run_spans *spans, job *j, const job_identity *who,
                            const char *out_dir)
{
    char path[4096];
    t->spans = spans;
    if (t->first > t->last)
        return WEFT_OK;
    part_path(out_dir, who->rank, path);
    t->part = write_anew(path);
    if (!t->part)
        return err_fail_errno(WEFT_IO, "the trace %s cannot be written", path);
    __fsetlocking(t->part, FSETLOCKING_BYCALLER); /* one thread writes, many short texts */
    t->rank = who->rank;
    t->bytes = t->bytes / who->ranks * 15 / 16; /* the merge converts times, which lengthens them */
    put_rank(t);
    (void)settle(t, 0, UINT64_MAX);
    return note_clock(t, j, who->rank, who->ranks, 0);
}

/* The digits of `v`; returns their end. A step writes some hundred numbers, and fprintf() takes ten
 * times as long. */
static char *put_number(char *to, uint64_t v)
{
    char digits[20];
    uint32_t n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        *to++ = digits[--n];
    return to;
}

static char *put_name(char *to, const char *name)
{
    for (uint32_t i = 0; i < NAME_BYTES && name[i]; i++) {
        const char c = name[i];
        *to++ = c == '"' || c == '\\' || c < ' ' || c > '~' ? '?' : c;
    }
    return to;
}

/* The begin of the line of an event; returns its end. `took` is for slices alone. */
static char *put_begin(const run_trace *t, char line[LINE_BYTES], char phase, const char *name,
                       uint64_t at, uint64_t took)
{
    char *to = put_number(stpcpy(line, "{\"ts\":"), at);
    if (phase == 'X')
        to = put_number(stpcpy(to, ",\"dur\":"), took);
    to = stpcpy(to, ",\"ph\":\"");
    *to++ = phase;
    to = put_number(stpcpy(to, "\",\"pid\":"), t->rank);
    to = put_name(stpcpy(to, ",\"name\":\""), name);
    return stpcpy(to, "\"");
}

static void put_line_of(const run_trace *t, const char *line, const char *end)
{
    fwrite(line, 1, (size_t)(end - line), t->part);
}

static void put_counter(const run_trace *t, const char *name, uint64_t at, uint64_t bytes)
{
    char line[LINE_BYTES], *to = put_begin(t, line, 'C', name, at, 0);
    to = put_number(stpcpy(to, ",\"args\":{\"bytes\":"), bytes);
    put_line_of(t, line, stpcpy(to, "}}\n"));
}

/* Begin a slice, up to its args without the end of these. */
static void put_slice(run_trace *t, const run_span *s, uint32_t lane)
{
    const char *name = lane < TRACE_COMM     ? lane ? "kernels" : "compute"
                       : lane < TRACE_PLUGIN ? "communication"
                                             : "plugins";
    if (!(t->named >> lane & 1))
        fprintf(t->part,
                "{\"ph\":\"M\",\"pid\":%u,\"name\":\"thread_name\",\"tid\":%u,"
                "\"args\":{\"name\":\"%s\"}}\n",
                t->rank, BASE_TID + lane, name);
    t->named |= 1ull << lane;
    char line[LINE_BYTES], *to = put_begin(t, line, 'X', s->name, s->began, s->ended - s->began);
    to = put_number(stpcpy(to, ",\"tid\":"), BASE_TID + lane);
    to = put_number(stpcpy(to, ",\"args\":{\"step\":"), s->step);
    put_line_of(t, line, to);
}

/* An end of the arrow from this operation on rank `from`. Channel, step, number and source are what
 * both ranks know of it. */
static void put_flow(const run_trace *t, const run_span *s, uint32_t lane, const char *channel,
                     uint32_t nth, uint32_t from)
{
    const bool source = from == t->rank;
    char line[LINE_BYTES];
    const uint64_t at = source ? s->began : s->ended - 1;
    put_line_of(t, line, put_begin(t, line, source ? 's' : 'f', channel, at, 0));
    fprintf(t->part, ",\"tid\":%u,\"cat\":\"flow\",\"id\":%" PRIu64 "%s}\n", BASE_TID + lane,
            (s->step - t->first) << 40 | (uint64_t)nth << 20 | from, source ? "" : ",\"bp\":\"e\"");
}

/* An arrow goes from a send to its receive. Where no rank ends before all have begun, one goes from
 * the beginning on each rank to the end on the next. */
static void put_operation(run_trace *t, const run_span *s, uint32_t lane, uint32_t number,
                          uint32_t nth)
{
    const plan_collective *c = &t->plan->collectives.at[number];
    const char *channel = t->plan->channels.at[c->channel].name;
    const bool pair = plan_between_two(c),
               rooted = c->kind >= WEFT_BROADCAST && c->kind <= WEFT_SCATTER;
    uint32_t me, n = plan_group(t->plan, c->channel, t->rank, t->group, &me);
    const uint32_t before = t->group[(me + n - (c->kind == WEFT_SHIFT ? c->root : 1)) % n];
    put_slice(t, s, lane);
    fprintf(t->part,
            ",\"bytes\":%" PRIu64 ",\"sent\":%" PRIu64
            ",\"algorithm\":\"%s\",\"channel\":\"%s\",\"%s\":%u}}\n",
            c->count * weft_dtype_size(c->dtype), c->sent, c->algorithm, channel,
            pair ? "peer" : "ranks", pair ? t->group[c->root] : n);
    if (!rooted && c->kind != WEFT_RECV)
        put_flow(t, s, lane, channel, nth, t->rank);
    if (!rooted && c->kind != WEFT_SEND)
        put_flow(t, s, lane, channel, nth, pair ? t->group[c->root] : before);
}

/* What is under way at a moment: an operation on each lane. */
typedef struct in_flight {
    uint64_t ended[TRACE_COMM_LANES], sent[TRACE_COMM_LANES]; /* ended 0: the lane is free */
    uint64_t bytes;
} in_flight;

/* Operations that end by `now` leave their lanes, in the order of their ends. */
static void leave(const run_trace *t, in_flight *f, uint64_t now)
{
    for (;;) {
        uint32_t first = TRACE_COMM_LANES;
        for (uint32_t i = 0; i < TRACE_COMM_LANES; i++)
            if (f->ended[i] && f->ended[i] <= now &&
                (first == TRACE_COMM_LANES || f->ended[i] < f->ended[first]))
                first = i;
        if (first == TRACE_COMM_LANES)
            return;
        put_counter(t, "in flight", f->ended[first], f->bytes -= f->sent[first]);
        f->ended[first] = 0;
    }
}

/* Slices of a lane must not overlap, so an operation takes one that is free. False: none is. */
static bool enter(run_trace *t, in_flight *f, const run_trace_event *e)
{
    run_span s = e->span;
    uint32_t i = 0;
    leave(t, f, s.began);
    while (i < TRACE_COMM_LANES && f->ended[i])
        i++;
    if (i == TRACE_COMM_LANES)
        return false;
    f->ended[i] = s.ended += s.ended == s.began; /* so that its arrows begin and end within it */
    f->sent[i] = t->plan->collectives.at[e->collective].sent;
    put_counter(t, "in flight", s.began, f->bytes += f->sent[i]);
    put_operation(t, &s, TRACE_COMM + i, e->collective, e->nth);
    return true;
}

/* Returns how many events it leaves out. `details`: with kernels and plugins. */
static uint64_t put_events(run_trace *t, bool details)
{
    in_flight f = {0};
    uint64_t live = 0, left_out = 0;
    char text[64];
    for (uint32_t i = 0; i < t->events.n; i++) {
        const run_trace_event *e = &t->events.at[i];
        if (e->span.lane == TRACE_COMM) {
            left_out += !enter(t, &f, e);
        } else if (details || e->span.lane == TRACE_COMPUTE) {
            put_slice(t, &e->span, e->span.lane);
            if (e->collective)
                put_line_of(t, text, put_number(stpcpy(text, ",\"micro_batch\":"), e->nth));
            fputs("}}\n", t->part);
        } else {
            left_out++;
        }
        if (e->span.lane == TRACE_COMPUTE && e->live != live)
            put_counter(t, "memory", e->span.began, live = e->live);
    }
    leave(t, &f, UINT64_MAX);
    return left_out;
}

static bool append(run_trace *t, bool details, uint64_t limit)
{
    const uint64_t named = t->named;
    const long at = ftell(t->part);
    const uint64_t left_out = put_events(t, details);
    const bool fits = settle(t, at, limit);
    t->left_out += fits ? left_out : 0;
    t->named = fits ? t->named : named;
    return fits;
}

static void note_span(void *t, const run_span *s)
{
    run_trace_event e = {.span = *s};
    e.span.lane += TRACE_PLUGIN;
    run_trace_note(t, e);
}

/* The one that encloses others before these. */
static int by_begin(const void *x, const void *y)
{
    const run_trace_event *a = x, *b = y;
    return a->span.began != b->span.began
               ? (a->span.began > b->span.began) - (a->span.began < b->span.began)
               : (a->span.ended < b->span.ended) - (a->span.ended > b->span.ended);
}

/* Kernels and plugins get half of the part, so that many steps without them fit. */
void run_trace_flush(run_trace *t)
{
    if (!t->part)
        return;
    t->left_out += run_spans_take(t->spans, note_span, t);
    if (!t->events.n)
        return;
    qsort(t->events.at, t->events.n, sizeof *t->events.at, by_begin);
    if (!append(t, true, t->bytes / 2) && !append(t, false, t->bytes))
        t->left_out += t->events.n;
    t->events.n = 0;
    memset(t->started, 0, t->plan->channels.n * sizeof *t->started);
}

/* Closes the part. What it lacks is no failure of the job. */
static void end_part(run_trace *t)
{
    run_trace_flush(t);
    const long at = ftell(t->part);
    fprintf(t->part, "{\"name\":\"end\",\"ph\":\"M\",\"pid\":%u,\"args\":{}}\n", t->rank);
    (void)settle(t, at, UINT64_MAX);
    if (fclose(t->part) && !t->error)
        t->error = errno;
    t->part = NULL;
    if (t->error)
        log_line(WEFT_LOG_WARN,
                 "the trace lacks %" PRIu64 " events of this rank: its folder did not take them: "
                 "%s",
                 t->left_out, strerror(t->error));
    else if (t->left_out)
        log_line(WEFT_LOG_WARN,
                 "the trace lacks %" PRIu64 " events of this rank, of kernels and plugins first: "
                 "trace fewer steps, or raise log.trace_mb",
                 t->left_out);
}

/* --- merging parts --- */

typedef struct clocks {
    uint64_t at[CLOCKS_MAX];
    int64_t offset[CLOCKS_MAX];
    uint32_t n;
    bool ended;
} clocks;

static clocks read_clocks(FILE *f)
{
    clocks c = {0};
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, f)) {
        if (c.n < CLOCKS_MAX &&
            sscanf(line,
                   "{\"name\":\"clock\",\"ph\":\"M\",\"pid\":%*u,\"args\":{\"at_ns\":"
                   "%" SCNu64 ",\"ahead_ns\":%" SCNd64,
                   &c.at[c.n], &c.offset[c.n]) == 2)
            c.n++;
        c.ended = !strncmp(line, "{\"name\":\"end\"", 13);
    }
    rewind(f);
    return c;
}

/* Nanoseconds of rank 0's clock. It never falls where `at` rises, so slices stay nested. */
static int64_t shifted(const clocks *c, uint64_t at)
{
    int64_t offset = c->n ? c->offset[0] : 0;
    if (c->n == 2 && c->at[1] > c->at[0])
        offset += (int64_t)((double)(c->offset[1] - c->offset[0]) *
                            ((double)at - (double)c->at[0]) / (double)(c->at[1] - c->at[0]));
    offset += (int64_t)at;
    return offset > 0 ? offset : 0;
}

/* True: it is an event of a step. */
static bool put_line(FILE *to, const clocks *c, const char *line)
{
    uint64_t at, took;
    int read = 0, more = 0;
    fprintf(to, ",\n");
    if (sscanf(line, "{\"ts\":%" SCNu64 "%n", &at, &read) == 1) {
        const int64_t ns = shifted(c, at);
        fprintf(to, "{\"ts\":%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
        if (sscanf(line + read, ",\"dur\":%" SCNu64 "%n", &took, &more) == 1) {
            const int64_t dur = shifted(c, at + took) - ns;
            fprintf(to, ",\"dur\":%" PRId64 ".%03" PRId64, dur / 1000, dur % 1000);
        }
    }
    fwrite(line + read + more, 1, strlen(line + read + more) - 1, to);
    return read;
}

/* False: there is no such part. Adds its events of steps to *events. */
static bool merge(const char *path, FILE *to, uint64_t *events)
{
    char line[LINE_BYTES];
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    const clocks c = read_clocks(f);
    while (fgets(line, sizeof line, f)) {
        const size_t n = strlen(line);
        if (n > 2 && *line == '{' && !strcmp(line + n - 2, "}\n"))
            *events += put_line(to, &c, line);
    }
    fclose(f);
    return true;
}

/* `whole`: a missing part is an error, else it is skipped. A run that began after the traced steps
 * has no events, and leaves the trace of the run before it. */
static weft_status join_parts(uint32_t ranks, const char *out_dir, bool whole)
{
    char path[4096], part[4096], temp[4200];
    snprintf(path, sizeof path, "%s/trace.json", out_dir);
    snprintf(temp, sizeof temp, "%s.tmp", path);
    FILE *f = write_anew(temp);
    if (!f)
        return err_fail_errno(WEFT_IO, "the trace %s cannot be written", temp);
    weft_status st = WEFT_OK;
    uint64_t events = 0;
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"1\"},\"traceEvents\":[\n"
               "{\"name\":\"begin\",\"ph\":\"M\",\"pid\":0,\"args\":{}}");
    for (uint32_t r = 0; st == WEFT_OK && r < ranks; r++) {
        part_path(out_dir, r, part);
        if (!merge(part, f, &events) && whole)
            st = err_fail_errno(WEFT_IO, "the trace %s of another rank cannot be read", part);
    }
    fprintf(f, "\n]}\n");
    int bad = ferror(f);
    if ((fclose(f) || bad) && st == WEFT_OK)
        st = err_fail_errno(WEFT_IO, "the trace %s could not be written completely", temp);
    if (st == WEFT_OK && events && rename(temp, path))
        st = err_fail_errno(WEFT_IO, "the trace %s cannot be put in place", path);
    if (st != WEFT_OK || !events)
        unlink(temp);
    for (uint32_t r = 0; st == WEFT_OK && r < ranks; r++) {
        part_path(out_dir, r, part);
        unlink(part);
    }
    return st;
}

weft_status run_trace_write(run_trace *t, job *j, uint32_t rank, uint32_t ranks,
                            const char *out_dir)
{
    if (!t->part)
        return WEFT_OK;
    weft_status st = note_clock(t, j, rank, ranks, 1);
    end_part(t);
    if (st == WEFT_OK) /* until all parts are closed */
        st = job_exchange(j, "trace parts", NULL, 0, NULL);
    if (st == WEFT_OK && !rank && join_parts(ranks, out_dir, true) != WEFT_OK) {
        log_line(WEFT_LOG_WARN, "%s", err_text());
        err_clear();
    }
    return st;
}

/* --- a job that failed --- */

static bool all_ended(uint32_t ranks, const char *out_dir)
{
    char path[4096];
    bool ended = true;
    for (uint32_t r = 0; ended && r < ranks; r++) {
        part_path(out_dir, r, path);
        FILE *f = fopen(path, "re");
        ended = f && read_clocks(f).ended;
        if (f)
            fclose(f);
    }
    return ended;
}

void run_trace_rescue(run_trace *t, uint32_t ranks, const char *out_dir)
{
    char path[4096];
    if (!t->part)
        return;
    end_part(t);
    snprintf(path, sizeof path, "%s/.trace.join", out_dir);
    const int lock = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (lock < 0)
        return; /* another rank merges */
    close(lock);
    const struct timespec moment = {0, 10000000};
    const uint64_t until = awake_ms() + JOIN_WAIT_MS;
    while (!all_ended(ranks, out_dir) && awake_ms() < until)
        nanosleep(&moment, NULL);
    if (join_parts(ranks, out_dir, false) != WEFT_OK)
        err_clear();
    unlink(path);
}
