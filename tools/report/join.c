/* report/join.c: parts of a trace become one JSON file, on the clock of rank 0.
 *
 * A part has the time of its rank. Records say at the start and at the regular end how far the
 * clock of rank 0 is ahead; between them it is interpolated linearly. */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time/awake.h"
#include "data/file.h"
#include "report/record.h"
#include "run/view/trace_part.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 400 /* for parts of other ranks after a failure */
#define CLOCKS_MAX 2
#define AHEAD_MAX (INT64_C(1) << 60) /* ns: 36 years */
#define BASE_TID 100000u /* a thread with the number of its process would be its main one */

/* What is under way in a step: an operation on each lane. */
typedef struct in_flight {
    uint64_t ended[TRACE_COMM_LANES], sent[TRACE_COMM_LANES]; /* ended 0: the lane is free */
    uint64_t bytes;
} in_flight;

typedef struct subject {
    run_trace_subject of;
    char text[TRACE_TEXTS_MAX][TRACE_TEXT_BYTES];
} subject;

typedef struct reading {
    FILE *from, *to;
    uint32_t rank, clocks;
    struct {
        uint64_t at;
        run_trace_clock of;
    } clock[CLOCKS_MAX];
    VEC(subject) subjects;
    bool complete, clocks_known;
    uint64_t first;               /* traced step */
    VEC(run_trace_record) events; /* of the step that is read */
    uint64_t crowded;             /* operations without a lane */
    uint64_t named, live;         /* bit i: lane i has its name; memory, of the call before */
    in_flight flying;
} reading;

/* --- reading --- */

static bool take_subject(reading *p)
{
    char all[TRACE_TEXTS_MAX * TRACE_TEXT_BYTES + 1] = "";
    subject *s = vec_push(&p->subjects);
    if (fread(&s->of, sizeof s->of, 1, p->from) != 1 || s->of.texts > TRACE_TEXTS_MAX ||
        s->of.text_bytes >= sizeof all ||
        fread(all, 1, s->of.text_bytes, p->from) != s->of.text_bytes)
        return false;
    const char *from = all;
    for (uint32_t i = 0; i < s->of.texts && from < all + sizeof all; i++) {
        const size_t n = strnlen(from, TRACE_TEXT_BYTES - 1);
        memcpy(s->text[i], from, n);
        s->text[i][n] = 0;
        from += n + 1;
        for (char *c = s->text[i]; *c; c++)
            *c = *c == '"' || *c == '\\' || *c < ' ' || *c > '~' ? '?' : *c;
    }
    return true;
}

/* The next event. False: there is no further one. */
static bool next(reading *p, run_trace_record *r)
{
    while (fread(r, sizeof *r, 1, p->from) == 1) {
        run_trace_clock c;
        p->complete = r->kind == TRACE_END;
        if (r->kind == TRACE_EVENT)
            return r->subject < p->subjects.n && r->lane < TRACE_PLUGIN + SPANS_LANES;
        if (r->kind == TRACE_SUBJECT && !take_subject(p))
            return false;
        if (r->kind == TRACE_CLOCK && fread(&c, sizeof c, 1, p->from) != 1)
            return false;
        if (r->kind == TRACE_CLOCK && !p->clocks_known && p->clocks < CLOCKS_MAX &&
            c.ahead <= AHEAD_MAX && c.ahead >= -AHEAD_MAX) {
            p->clock[p->clocks].at = r->began;
            p->clock[p->clocks++].of = c;
        }
    }
    return false;
}

/* False: there is no such part. */
static bool open_part(reading *p, const char *out_dir, uint32_t rank)
{
    char path[4096];
    struct stat info;
    run_trace_record r;
    run_trace_part_path(out_dir, rank, path);
    const int fd = data_file_open_regular(AT_FDCWD, path, false, &info);
    *p = (reading){.from = fd < 0 ? NULL : fdopen(fd, "r"), .rank = rank};
    if (!p->from) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while (next(p, &r))
        continue;
    p->clocks_known = true;
    p->subjects.n = 0;
    rewind(p->from);
    return true;
}

static void close_part(reading *p)
{
    fclose(p->from);
    free(p->subjects.at);
    free(p->events.at);
}

static bool all_complete(const run_trace_parts *all)
{
    bool complete = true;
    for (uint32_t r = 0; complete && r < all->ranks; r++) {
        reading p;
        const bool there = open_part(&p, all->out, r);
        complete = there && p.complete;
        if (there)
            close_part(&p);
    }
    return complete;
}

/* --- writing --- */

/* Nanoseconds of rank 0's clock. It never falls where `at` rises, so slices stay nested. */
static uint64_t shifted(const reading *p, uint64_t at)
{
    int64_t ahead = p->clocks ? p->clock[0].of.ahead : 0;
    if (p->clocks == 2 && p->clock[1].at > p->clock[0].at) {
        const double more = (double)(p->clock[1].of.ahead - ahead) *
                            ((double)at - (double)p->clock[0].at) /
                            (double)(p->clock[1].at - p->clock[0].at);
        ahead += (int64_t)fmin(fmax(more, -(double)AHEAD_MAX), (double)AHEAD_MAX);
    }
    return ahead < 0 && (uint64_t)-ahead > at ? 0 : at + (uint64_t)ahead;
}

/* The begin of an event, up to its name; its time in us. `took` is for slices alone. */
static void put_begin(reading *p, char phase, const char *name, uint64_t ns, uint64_t took)
{
    fprintf(p->to, ",\n{\"ts\":%" PRIu64 ".%03" PRIu64, ns / 1000, ns % 1000);
    if (phase == 'X')
        fprintf(p->to, ",\"dur\":%" PRIu64 ".%03" PRIu64, took / 1000, took % 1000);
    fprintf(p->to, ",\"ph\":\"%c\",\"pid\":%u,\"name\":\"%s\"", phase, p->rank, name);
}

static void put_counter(reading *p, const char *name, uint64_t at, uint64_t bytes)
{
    put_begin(p, 'C', name, shifted(p, at), 0);
    fprintf(p->to, ",\"args\":{\"bytes\":%" PRIu64 "}}", bytes);
}

/* Begin a slice, up to its args without the end of these. */
static void put_slice(reading *p, const run_trace_record *r, const subject *s)
{
    const char *name = r->lane < TRACE_COMM     ? r->lane ? "kernels" : "compute"
                       : r->lane < TRACE_PLUGIN ? "communication"
                                                : "plugins";
    if (!(p->named >> r->lane & 1))
        fprintf(p->to,
                ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"thread_name\",\"tid\":%u,"
                "\"args\":{\"name\":\"%s\"}}",
                p->rank, BASE_TID + r->lane, name);
    p->named |= 1ull << r->lane;
    const uint64_t began = shifted(p, r->began);
    put_begin(p, 'X', s->text[0], began, shifted(p, r->ended) - began);
    fprintf(p->to, ",\"tid\":%u,\"args\":{\"step\":%" PRIu64, BASE_TID + r->lane,
            p->first + r->step);
}

/* An end of the arrow from this operation on rank `from`. Channel, step, number and source are what
 * both ranks know of it. */
static void put_flow(reading *p, const run_trace_record *r, const char *channel, uint32_t from)
{
    const bool source = from == p->rank;
    put_begin(p, source ? 's' : 'f', channel, shifted(p, source ? r->began : r->ended - 1), 0);
    fprintf(p->to, ",\"tid\":%u,\"cat\":\"flow\",\"id\":%" PRIu64 "%s}", BASE_TID + r->lane,
            (uint64_t)r->step << 40 | (uint64_t)r->nth << 20 | from, source ? "" : ",\"bp\":\"e\"");
}

/* Operations that end by `now` leave their lanes, in the order of their ends. */
static void leave(reading *p, uint64_t now)
{
    in_flight *f = &p->flying;
    for (;;) {
        uint32_t first = TRACE_COMM_LANES;
        for (uint32_t i = 0; i < TRACE_COMM_LANES; i++)
            if (f->ended[i] && f->ended[i] <= now &&
                (first == TRACE_COMM_LANES || f->ended[i] < f->ended[first]))
                first = i;
        if (first == TRACE_COMM_LANES)
            return;
        put_counter(p, "in flight", f->ended[first], f->bytes -= f->sent[first]);
        f->ended[first] = 0;
    }
}

/* An operation takes a lane that is free, since slices of one must not overlap. False: none is. */
static bool take_lane(reading *p, run_trace_record *r)
{
    in_flight *f = &p->flying;
    uint32_t i = 0;
    leave(p, r->began);
    while (i < TRACE_COMM_LANES && f->ended[i])
        i++;
    if (i == TRACE_COMM_LANES) {
        p->crowded++;
        return false;
    }
    r->lane = (uint8_t)(TRACE_COMM + i);
    f->ended[i] = r->ended += r->ended == r->began; /* its arrows begin and end within it */
    return true;
}

/* An arrow goes from a send to its receive. Where no rank ends before all have begun, one goes from
 * the beginning on each rank to the end on the next. */
static void put_operation(reading *p, run_trace_record *r, const subject *s)
{
    const run_trace_subject *o = &s->of;
    in_flight *f = &p->flying;
    if (!take_lane(p, r))
        return;
    const uint32_t i = r->lane - TRACE_COMM;
    f->sent[i] = o->sent;
    put_counter(p, "in flight", r->began, f->bytes += f->sent[i]);
    put_slice(p, r, s);
    fprintf(p->to,
            ",\"bytes\":%" PRIu64 ",\"sent\":%" PRIu64
            ",\"algorithm\":\"%s\",\"channel\":\"%s\",\"%s\":%u}}",
            o->bytes, o->sent, s->text[1], s->text[2], o->pair ? "peer" : "ranks",
            o->pair ? o->before : o->ranks);
    if (o->out)
        put_flow(p, r, s->text[2], p->rank);
    if (o->in)
        put_flow(p, r, s->text[2], o->before);
}

static void put_event(reading *p, run_trace_record *r)
{
    const subject *s = &p->subjects.at[r->subject];
    if (r->lane == TRACE_COMM) {
        put_operation(p, r, s);
        return;
    }
    put_slice(p, r, s);
    if (r->numbered)
        fprintf(p->to, ",\"micro_batch\":%u", r->nth);
    fprintf(p->to, "}}");
    if (r->lane == TRACE_COMPUTE && s->of.live != p->live)
        put_counter(p, "memory", r->began, p->live = s->of.live);
}

/* The one that encloses others before these. */
static int by_begin(const void *x, const void *y)
{
    const run_trace_record *a = x, *b = y;
    return a->began != b->began ? (a->began > b->began) - (a->began < b->began)
                                : (a->ended < b->ended) - (a->ended > b->ended);
}

static void put_step(reading *p)
{
    qsort(p->events.at, p->events.n, sizeof *p->events.at, by_begin);
    p->live = 0;
    for (uint32_t i = 0; i < p->events.n; i++)
        put_event(p, &p->events.at[i]);
    leave(p, UINT64_MAX);
    p->events.n = 0;
}

static void put_clocks(reading *p)
{
    for (uint32_t i = 0; i < p->clocks; i++)
        fprintf(p->to,
                ",\n{\"name\":\"clock\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"at_ns\":%" PRIu64
                ",\"ahead_ns\":%" PRId64 ",\"error_ns\":%" PRIu64 "}}",
                p->rank, p->clock[i].at, p->clock[i].of.ahead, p->clock[i].of.error);
}

/* "rank 3 (tp 1, pp 1)": with its coordinates on axes that have several ranks. */
static void put_rank(FILE *to, const graph_mesh *m, uint32_t rank)
{
    bool any = false;
    fprintf(to,
            ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"rank %u",
            rank, rank);
    for (uint32_t a = 0; a < m->n; a++)
        if (m->size[a] > 1) {
            fprintf(to, "%s%s %u", any ? ", " : " (", m->name[a], graph_mesh_coord(m, rank, a));
            any = true;
        }
    fprintf(to, "%s\"}}", any ? ")" : "");
}

/* False: there is no such part. Adds its events to *events. */
static bool put_part(const run_trace_parts *all, FILE *to, uint32_t rank, uint64_t *events)
{
    reading p;
    if (!open_part(&p, all->out, rank))
        return false;
    p.to = to;
    p.first = all->first;
    put_rank(to, all->mesh, rank);
    put_clocks(&p);
    for (run_trace_record r; next(&p, &r);) {
        if (p.events.n && r.step != p.events.at[0].step)
            put_step(&p);
        *vec_push(&p.events) = r;
        ++*events;
    }
    if (p.events.n)
        put_step(&p);
    if (p.crowded)
        log_line(WEFT_LOG_WARN,
                 "the trace lacks %" PRIu64 " operations of rank %u: more than %u at once",
                 p.crowded, rank, TRACE_COMM_LANES);
    close_part(&p);
    return true;
}

static weft_status join(const run_trace_parts *all)
{
    char path[4096], of_rank[4096], temp[4200];
    snprintf(path, sizeof path, "%s/trace.json", all->out);
    snprintf(temp, sizeof temp, "%s.tmp", path);
    unlink(temp); /* which may be a link to somebody else's */
    FILE *f = fopen(temp, "wxe");
    if (!f)
        return err_fail_errno(WEFT_IO, "the trace %s cannot be written", temp);
    weft_status st = WEFT_OK;
    uint64_t events = 0;
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"1\"},\"traceEvents\":[\n"
               "{\"name\":\"begin\",\"ph\":\"M\",\"pid\":0,\"args\":{}}");
    for (uint32_t r = 0; st == WEFT_OK && r < all->ranks; r++)
        if (!put_part(all, f, r, &events) && all->whole) {
            run_trace_part_path(all->out, r, of_rank);
            st = err_fail_errno(WEFT_IO, "the trace %s of another rank cannot be read", of_rank);
        }
    fprintf(f, "\n]}\n");
    const int bad = ferror(f);
    if ((fclose(f) || bad) && st == WEFT_OK)
        st = err_fail_errno(WEFT_IO, "the trace %s could not be written completely", temp);
    if (st == WEFT_OK && events && rename(temp, path))
        st = err_fail_errno(WEFT_IO, "the trace %s cannot be put in place", path);
    if (st != WEFT_OK || !events)
        unlink(temp);
    for (uint32_t r = 0; st == WEFT_OK && r < all->ranks; r++) {
        run_trace_part_path(all->out, r, of_rank);
        unlink(of_rank);
    }
    return st;
}

weft_status report_join_trace(const run_trace_parts *all)
{
    if (all->whole)
        return join(all);
    char path[4096];
    snprintf(path, sizeof path, "%s/.trace.join", all->out);
    const int lock = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (lock < 0)
        return WEFT_OK; /* another rank merges */
    close(lock);
    const struct timespec moment = {0, 10000000};
    const uint64_t until = awake_ms() + WAIT_MS;
    while (!all_complete(all) && awake_ms() < until)
        nanosleep(&moment, NULL);
    const weft_status st = join(all);
    unlink(path);
    return st;
}
