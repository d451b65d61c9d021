/* run/view/trace.c: see trace.h.
 *
 * A part is a text file with one record per line, which is validated when it is merged:
 *   c AT OFFSET                    at time AT, the clock of rank 0 was ahead by OFFSET ns
 *   e LANE STEP BEGAN ENDED NAME   an event, times in ns of the rank's own clock
 *   end                            the part is complete
 *
 * Clock offsets: a rank requests rank 0's time several times through the job's store and uses the
 * answer with the shortest round trip. The offset is exact to half of that time; a smaller offset
 * counts as 0, so ranks with a common clock are not shifted. It is measured at the start and at the
 * regular end, and interpolated linearly between them. */
#include "run/view/trace.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 6
#define CLOCK_SECONDS 60.0
#define JOIN_WAIT_MS 400 /* wait for parts of other ranks after a failure */
#define CLOCKS_MAX 2
#define NAME_MAX 200

static weft_status parse_steps(const char *text, uint64_t *first, uint64_t *last)
{
    char *end;
    errno = 0;
    *first = *last = strtoull(text, &end, 10);
    if (*end == '-')
        *last = strtoull(end + 1, &end, 10);
    if (errno || *end || end == text || *first < 1 || *last < *first || *last - *first > 100)
        return err_fail(WEFT_USAGE,
                        "log.trace_steps = %s: give steps as FIRST-LAST, at most 101 of "
                        "them, such as 10-12",
                        text);
    return WEFT_OK;
}

weft_status run_trace_setup(const char *steps, uint64_t entries, run_trace *out)
{
    *out = (run_trace){.first = 1, .last = 0};
    if (!*steps)
        return WEFT_OK;
    weft_status st = parse_steps(steps, &out->first, &out->last);
    if (st != WEFT_OK)
        return st;
    out->cap = (out->last - out->first + 1) * entries;
    out->events = mem_alloc(out->cap * sizeof *out->events);
    return WEFT_OK;
}

void run_trace_free(run_trace *t)
{
    if (t->part)
        fclose(t->part);
    free(t->events);
    *t = (run_trace){.first = 1, .last = 0};
}

void run_trace_note(run_trace *t, const char *name, uint32_t lane, uint64_t step, uint64_t began,
                    uint64_t ended)
{
    if (t->n < t->cap && began)
        t->events[t->n++] = (run_trace_event){name, began, ended, lane, (uint32_t)step};
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

static weft_status ask_time(job *j, uint32_t rank, uint32_t when, int64_t *offset)
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
    if (*offset <= (int64_t)(best / 2) && *offset >= -(int64_t)(best / 2))
        *offset = 0;
    return st;
}

/* `when` 0: at the start; 1: at the end. */
static weft_status note_clock(run_trace *t, job *j, uint32_t rank, uint32_t ranks, uint32_t when)
{
    int64_t offset = 0;
    weft_status st = !j     ? WEFT_OK
                     : rank ? ask_time(j, rank, when, &offset)
                            : tell_time(j, ranks, when);
    fprintf(t->part, "c %" PRIu64 " %" PRId64 "\n", clock_ns(), offset);
    fflush(t->part);
    return st;
}

/* --- a rank's part --- */

static void part_path(const char *out_dir, uint32_t rank, char path[4096])
{
    snprintf(path, 4096, "%s/.trace-%u.part", out_dir, rank);
}

static void lock_path(const char *out_dir, char path[4096])
{
    snprintf(path, 4096, "%s/.trace.join", out_dir);
}

/* A new file in place of what has the name, which may be a link to somebody else's. */
static FILE *write_anew(const char *path)
{
    unlink(path);
    return fopen(path, "wxe");
}

weft_status run_trace_begin(run_trace *t, run_spans *spans, job *j, const job_identity *who,
                            const char *out_dir)
{
    char path[4096];
    t->spans = spans;
    if (t->first > t->last)
        return WEFT_OK;
    lock_path(out_dir, path);
    if (!who->rank)
        unlink(path); /* of a run that was killed */
    part_path(out_dir, who->rank, path);
    t->part = write_anew(path);
    if (!t->part)
        return err_fail_errno(WEFT_IO, "the trace %s cannot be written", path);
    return note_clock(t, j, who->rank, who->ranks, 0);
}

/* The digits of `v` and a blank; returns their end. A step writes a hundred of them, and fprintf()
 * takes ten times as long. */
static char *put_number(char *to, uint64_t v)
{
    char digits[20];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        *to++ = digits[--n];
    *to++ = ' ';
    return to;
}

static void keep_event(FILE *part, const run_trace_event *e)
{
    char line[2 + 4 * 21] = "e ";
    char *to = put_number(line + 2, e->lane);
    to = put_number(to, e->step);
    to = put_number(to, e->began);
    to = put_number(to, e->ended);
    fwrite(line, 1, (size_t)(to - line), part);
    fputs(e->name, part);
    putc('\n', part);
}

void run_trace_flush(run_trace *t)
{
    if (!t->part)
        return;
    run_spans_flush(t->spans, t->part, TRACE_PLUGIN);
    if (!t->n)
        return;
    for (uint64_t i = 0; i < t->n; i++)
        keep_event(t->part, &t->events[i]);
    fflush(t->part); /* an error is kept by the stream and reported at the end */
    t->n = 0;
}

/* Closes the part. */
static weft_status end_part(run_trace *t)
{
    run_trace_flush(t);
    fprintf(t->part, "end\n");
    const int bad = ferror(t->part), closed = fclose(t->part);
    t->part = NULL;
    return bad || closed ? err_fail_errno(WEFT_IO, "the trace could not be written completely")
                         : WEFT_OK;
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
    char line[512];
    while (fgets(line, sizeof line, f)) {
        if (c.n < CLOCKS_MAX &&
            sscanf(line, "c %" SCNu64 " %" SCNd64, &c.at[c.n], &c.offset[c.n]) == 2)
            c.n++;
        c.ended = !strcmp(line, "end\n");
    }
    rewind(f);
    return c;
}

/* Microseconds of rank 0's clock. */
static double shifted(const clocks *c, uint64_t at)
{
    double offset = c->n ? (double)c->offset[0] : 0;
    if (c->n == 2 && c->at[1] > c->at[0])
        offset += (double)(c->offset[1] - c->offset[0]) * ((double)at - (double)c->at[0]) /
                  (double)(c->at[1] - c->at[0]);
    return ((double)at + offset) * 1e-3;
}

static void put_lane(FILE *to, uint32_t rank, uint32_t lane, const char *name)
{
    fprintf(to,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,"
            "\"args\":{\"name\":\"%s\"}}",
            rank, lane, name);
}

static void put_names(FILE *to, uint32_t rank)
{
    static const char *const lanes[] = {"compute", "communication", "kernels"};
    fprintf(to,
            "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"rank "
            "%u\"}}",
            rank, rank);
    for (uint32_t i = 0; i < TRACE_PLUGIN; i++)
        put_lane(to, rank, i, lanes[i]);
}

/* `named` has a bit for each lane of plugins that has its name in the trace. */
static void put_event(FILE *to, uint32_t rank, const clocks *c, char *line, uint32_t *named)
{
    uint32_t lane, step;
    uint64_t began, ended;
    int at = 0;
    char *name = line;
    if (sscanf(line, "e %u %u %" SCNu64 " %" SCNu64 " %n", &lane, &step, &began, &ended, &at) < 4 ||
        !at || lane >= TRACE_PLUGIN + SPANS_LANES || ended < began)
        return;
    name += at;
    name[strcspn(name, "\n")] = 0;
    for (char *x = name; *x; x++)
        if (*x == '"' || *x == '\\' || (unsigned char)*x < ' ')
            *x = '?';
    if (lane >= TRACE_PLUGIN && !(*named >> lane & 1)) {
        char lane_name[32];
        snprintf(lane_name, sizeof lane_name, "plugins, thread %u", lane - TRACE_PLUGIN);
        put_lane(to, rank, lane, lane_name);
        *named |= 1u << lane;
    }
    fprintf(to,
            ",\n{\"name\":\"%.*s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,"
            "\"dur\":%.3f,\"args\":{\"step\":%u}}",
            NAME_MAX, name, rank, lane, shifted(c, began), (double)(ended - began) * 1e-3, step);
}

/* False: there is no such part. */
static bool append(const char *path, uint32_t rank, bool first, FILE *to)
{
    char line[512];
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    const clocks c = read_clocks(f);
    uint32_t named = 0;
    fprintf(to, "%s", first ? "" : ",\n");
    put_names(to, rank);
    while (fgets(line, sizeof line, f))
        put_event(to, rank, &c, line, &named);
    fclose(f);
    return true;
}

/* `whole`: a missing part is an error, else it is skipped. */
static weft_status join_parts(uint32_t ranks, const char *out_dir, bool whole)
{
    char path[4096], part[4096], temp[4200];
    snprintf(path, sizeof path, "%s/trace.json", out_dir);
    snprintf(temp, sizeof temp, "%s.tmp", path);
    FILE *f = write_anew(temp);
    if (!f)
        return err_fail_errno(WEFT_IO, "the trace %s cannot be written", temp);
    weft_status st = WEFT_OK;
    uint32_t found = 0;
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"1\"},\"traceEvents\":[\n");
    for (uint32_t r = 0; st == WEFT_OK && r < ranks; r++) {
        part_path(out_dir, r, part);
        const bool there = append(part, r, !found, f);
        found += there;
        if (!there && whole)
            st = err_fail_errno(WEFT_IO, "the trace %s of another rank cannot be read", part);
    }
    fprintf(f, "\n]}\n");
    int bad = ferror(f);
    if ((fclose(f) || bad) && st == WEFT_OK)
        st = err_fail_errno(WEFT_IO, "the trace %s could not be written completely", temp);
    if (st == WEFT_OK && rename(temp, path))
        st = err_fail_errno(WEFT_IO, "the trace %s cannot be put in place", path);
    if (st != WEFT_OK)
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
    weft_status st = note_clock(t, j, rank, ranks, 1), ended = end_part(t);
    uint32_t mine = st != WEFT_OK ? st : ended, *all = mem_alloc(ranks * sizeof *all);
    if (j && st == WEFT_OK) {
        weft_status x = job_exchange(j, "trace parts", &mine, sizeof mine, all);
        st = ended != WEFT_OK ? ended : x;
    }
    free(all);
    return st != WEFT_OK || rank ? st : join_parts(ranks, out_dir, true);
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
    if (end_part(t) != WEFT_OK)
        err_clear();
    lock_path(out_dir, path);
    const int lock = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (lock < 0)
        return; /* another rank merges */
    close(lock);
    const struct timespec moment = {0, 10000000};
    const uint64_t until = clock_ms() + JOIN_WAIT_MS;
    while (!all_ended(ranks, out_dir) && clock_ms() < until)
        nanosleep(&moment, NULL);
    if (join_parts(ranks, out_dir, false) != WEFT_OK)
        err_clear();
    unlink(path);
}
