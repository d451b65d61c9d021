/* run/view/trace.c: see trace.h. A traced step notes its events; between steps they go to the part,
 * as records that cost little (trace_part.h).
 *
 * Clock offsets: a rank requests rank 0's time several times through the job's store and uses the
 * answer with the shortest round trip. The offset is exact to half of that time; a smaller offset
 * counts as 0, so ranks with a common clock are not shifted. It is measured at the start and at the
 * regular end. */
#include "run/view/trace.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/file.h"
#include "run/view/trace_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 10
#define CLOCK_SECONDS 60.0
#define EVENTS_MAX (1u << 20) /* of a step: 56 MiB */
#define ROOM_BYTES 65536u

/* Bytes of trace.json that an event takes at most, without its texts: where the clock has run for
 * 100 days, the steps have 7 digits and amounts of memory 13. */
#define SLICE_TEXT 112u
#define MICRO_BATCH_TEXT 20u
#define COUNTER_TEXT 96u
#define OPERATION_TEXT (SLICE_TEXT + 88u + 2 * COUNTER_TEXT + 2 * 112u)
#define RANK_TEXT 1024u /* names of the rank and of its lanes, and its clocks */

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
    if (t->room)
        close(t->part);
    free(t->room);
    free(t->subjects.at);
    free(t->place);
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

/* Write what is in the room. */
static void write_room(run_trace *t)
{
    if (!t->failed && data_file_write(t->part, t->room, t->used))
        t->failed = errno;
    t->in_part += t->used;
    t->used = 0;
}

/* Write what was put since the last call. False: the folder does not take it, and the part is as it
 * was. */
static bool settle(run_trace *t)
{
    write_room(t);
    if (!t->failed) {
        t->settled = t->in_part;
        return true;
    }
    t->error = t->error ? t->error : t->failed;
    t->failed = 0;
    t->in_part = t->settled;
    if (ftruncate(t->part, (off_t)t->settled) || lseek(t->part, (off_t)t->settled, SEEK_SET) < 0)
        t->failed = errno; /* nothing can follow */
    return false;
}

/* Room for `bytes` that are to be written. */
static void *put(run_trace *t, uint32_t bytes)
{
    if (ROOM_BYTES - t->used < bytes)
        write_room(t);
    t->used += bytes;
    return t->room + t->used - bytes;
}

static void put_record(run_trace *t, const run_trace_record *r)
{
    memcpy(put(t, sizeof *r), r, sizeof *r);
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
    put_record(t, &(run_trace_record){.kind = TRACE_CLOCK, .began = clock_ns()});
    memcpy(put(t, sizeof(run_trace_clock)), &(run_trace_clock){offset, error},
           sizeof(run_trace_clock));
    (void)settle(t);
    return st;
}

/* --- a rank's part --- */

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

weft_status run_trace_begin(run_trace *t, run_spans *spans, run_trace_join *join, job *j,
                            const job_identity *who, const char *out_dir)
{
    char path[4096];
    t->spans = spans;
    t->join = join;
    if (t->first > t->last)
        return WEFT_OK;
    run_trace_part_path(out_dir, who->rank, path);
    unlink(path); /* which may be a link to somebody else's */
    t->part = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (t->part < 0)
        return err_fail_errno(WEFT_IO, "the trace %s cannot be written", path);
    t->room = mem_alloc(ROOM_BYTES);
    t->rank = who->rank;
    t->bytes /= who->ranks;
    t->text = RANK_TEXT;
    return note_clock(t, j, who->rank, who->ranks, 0);
}

static bool is_operation(const run_span *s)
{
    return s->lane == TRACE_COMM;
}

/* A kernel or a span of a plugin. */
static bool is_detail(const run_span *s)
{
    return s->lane == TRACE_KERNEL || s->lane >= TRACE_PLUGIN;
}

/* --- subjects --- */

static void put_subject(run_trace *t, const run_trace_key *k)
{
    const char *texts[TRACE_TEXTS_MAX] = {k->name};
    run_trace_subject s = {.live = k->live, .texts = 1};
    if (k->collective != UINT32_MAX) {
        const plan_collective *c = &t->plan->collectives.at[k->collective];
        const bool rooted = c->kind >= WEFT_BROADCAST && c->kind <= WEFT_SCATTER;
        uint32_t me, n = plan_group(t->plan, c->channel, t->rank, t->group, &me);
        s.pair = plan_between_two(c);
        s.bytes = c->count * weft_dtype_size(c->dtype);
        s.sent = c->sent;
        s.ranks = n;
        s.before =
            t->group[s.pair ? c->root : (me + n - (c->kind == WEFT_SHIFT ? c->root : 1)) % n];
        s.out = !rooted && c->kind != WEFT_RECV;
        s.in = !rooted && c->kind != WEFT_SEND;
        s.texts = 3;
        texts[1] = c->algorithm;
        texts[2] = t->plan->channels.at[c->channel].name;
    }
    char all[TRACE_TEXTS_MAX * TRACE_TEXT_BYTES], *to = all;
    for (uint32_t i = 0; i < s.texts; i++) {
        to = stpncpy(to, texts[i], TRACE_TEXT_BYTES - 1);
        *to++ = 0;
    }
    s.text_bytes = (uint16_t)(to - all);
    put_record(t, &(run_trace_record){.kind = TRACE_SUBJECT});
    memcpy(put(t, sizeof s), &s, sizeof s);
    memcpy(put(t, s.text_bytes), all, s.text_bytes);
}

/* The place in the hash table of a subject, or the free one that it would get. */
static uint32_t *place_of(const run_trace *t, const run_trace_key *k)
{
    const uint64_t mixed = ((uintptr_t)k->name ^ k->live << 20 ^ (uint64_t)k->collective << 40) *
                           UINT64_C(0x9E3779B97F4A7C15);
    for (uint64_t i = mixed >> 32;; i++) {
        uint32_t *place = &t->place[i & (t->places - 1)];
        const run_trace_key *s = *place ? &t->subjects.at[*place - 1] : NULL;
        if (!s || (s->name == k->name && s->live == k->live && s->collective == k->collective))
            return place;
    }
}

/* Make the hash table anew, with so many places. */
static void place_all(run_trace *t, uint32_t places)
{
    free(t->place);
    t->places = places;
    t->place = mem_alloc(places * sizeof *t->place + 1);
    for (uint32_t i = 0; i < t->subjects.n; i++)
        *place_of(t, &t->subjects.at[i]) = i + 1;
}

/* The number of the subject of an event; a new one is put before it. */
static uint32_t subject_of(run_trace *t, const run_trace_event *e)
{
    const run_trace_key k = {e->span.name, e->live,
                             is_operation(&e->span) ? e->collective : UINT32_MAX};
    if (2 * t->subjects.n >= t->places)
        place_all(t, t->places ? 2 * t->places : 256);
    uint32_t *place = place_of(t, &k);
    if (!*place) {
        put_subject(t, &k);
        *vec_push(&t->subjects) = k;
        *place = t->subjects.n;
    }
    return *place - 1;
}

static void put_event(run_trace *t, const run_trace_event *e)
{
    const run_span *s = &e->span;
    const uint32_t subject = subject_of(t, e);
    put_record(t, &(run_trace_record){.kind = TRACE_EVENT,
                                      .lane = (uint8_t)s->lane,
                                      .numbered = !is_operation(s) && e->collective,
                                      .subject = subject,
                                      .step = (uint32_t)(s->step - t->first),
                                      .nth = e->nth,
                                      .began = s->began,
                                      .ended = s->ended});
}

/* --- a step --- */

static void note_span(void *t, const run_span *s)
{
    run_trace_event e = {.span = *s};
    e.span.lane += TRACE_PLUGIN;
    run_trace_note(t, e);
}

/* Bytes of trace.json that an event takes. *live: of the call before. */
static uint64_t text_bytes(const run_trace *t, const run_trace_event *e, uint64_t *live)
{
    const uint64_t name = strnlen(e->span.name, TRACE_TEXT_BYTES);
    if (is_operation(&e->span)) {
        const plan_collective *c = &t->plan->collectives.at[e->collective];
        return OPERATION_TEXT + name + strlen(c->algorithm) +
               3 * strlen(t->plan->channels.at[c->channel].name);
    }
    const bool counted = e->span.lane == TRACE_COMPUTE && e->live != *live;
    *live = counted ? e->live : *live;
    return SLICE_TEXT + name + (e->collective ? MICRO_BATCH_TEXT : 0) +
           (counted ? COUNTER_TEXT : 0);
}

/* Kernels and plugins get half of the file, so that many steps without them fit. */
void run_trace_flush(run_trace *t)
{
    if (!t->room)
        return;
    t->left_out += run_spans_take(t->spans, note_span, t);
    if (!t->events.n)
        return;
    uint64_t steps = 0, details = 0, live = 0;
    for (uint32_t i = 0; i < t->events.n; i++)
        *(is_detail(&t->events.at[i].span) ? &details : &steps) +=
            text_bytes(t, &t->events.at[i], &live);
    const bool all = t->text + steps + details <= t->bytes / 2;
    const bool fits = all || t->text + steps <= t->bytes;
    const uint32_t known = t->subjects.n;
    uint32_t written = 0;
    for (uint32_t i = 0; fits && i < t->events.n; i++)
        if (all || !is_detail(&t->events.at[i].span)) {
            put_event(t, &t->events.at[i]);
            written++;
        }
    if (settle(t)) {
        t->text += (fits ? steps : 0) + (all ? details : 0);
    } else {
        written = 0;
        t->subjects.n = known; /* the part lacks the others */
        place_all(t, t->places);
    }
    t->left_out += t->events.n - written;
    t->events.n = 0;
    memset(t->started, 0, t->plan->channels.n * sizeof *t->started);
}

/* Closes the part. What it lacks is no failure of the job. */
static void end_part(run_trace *t)
{
    run_trace_flush(t);
    put_record(t, &(run_trace_record){.kind = TRACE_END});
    (void)settle(t);
    if (close(t->part) && !t->error)
        t->error = errno;
    free(t->room);
    t->room = NULL;
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

static weft_status join(const run_trace *t, uint32_t ranks, const char *out_dir, bool whole)
{
    const run_trace_parts p = {out_dir, ranks, &t->plan->spec->mesh, t->first, whole};
    return t->join ? t->join(&p) : WEFT_OK;
}

weft_status run_trace_write(run_trace *t, job *j, uint32_t rank, uint32_t ranks,
                            const char *out_dir)
{
    if (!t->room)
        return WEFT_OK;
    weft_status st = note_clock(t, j, rank, ranks, 1);
    end_part(t);
    if (st == WEFT_OK) /* until all parts are closed */
        st = job_exchange(j, "trace parts", NULL, 0, NULL);
    if (st == WEFT_OK && !rank && join(t, ranks, out_dir, true) != WEFT_OK) {
        log_line(WEFT_LOG_WARN, "%s", err_text());
        err_clear();
    }
    return st;
}

void run_trace_rescue(run_trace *t, uint32_t ranks, const char *out_dir)
{
    if (!t->room)
        return;
    end_part(t);
    if (join(t, ranks, out_dir, false) != WEFT_OK)
        err_clear();
}
