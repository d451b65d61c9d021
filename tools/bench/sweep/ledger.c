/* bench/sweep/ledger.c: which runs of a sweep have ended, so that an interrupted one goes on
 * (see sweep.h).
 *
 * OUT/runs.jsonl begins with a line that identifies the sweep: program, host, and the jobs of all
 * rows. A line for each run that has ended follows, written at once, and a last one when all are
 * done. The numbers of a run are in its own folder. A line that was not written to its end is
 * dropped. Everything in it is checked, since anyone may have edited the file. */
#define _GNU_SOURCE
#include "bench/sweep/sweep.h"

#include "base/err.h"
#include "base/log.h"
#include "base/number/digest.h"
#include "run/state/outdir.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEDGER_VERSION 1
#define LINE_BYTES 16384
#define WHY_BYTES 2000

typedef struct ledger {
    bool same;         /* of this sweep */
    uint64_t complete; /* repeats after which all runs were done; 0: not yet */
    json_t *began;     /* environment of its first start */
    uint32_t goings;
    const char *other; /* what is not of this sweep; NULL: there is no ledger, or it is the same */
    long whole;        /* bytes up to the end of the last whole line */
} ledger;

const char *bench_sweep_folder(bench_sweep *s, uint32_t number, uint32_t repeat, bool alone)
{
    if (alone)
        return pool_printf(&s->pool, "%s/one-rank-%u", s->out, number);
    return pool_printf(&s->pool, "%s/%03u-%u", s->out, number, repeat + 1);
}

bool bench_sweep_has_run(const bench_sweep *s, const bench_sweep_row *r, uint32_t repeat)
{
    (void)s;
    return r->samples > repeat || (r->status != SWEEP_WAITS && r->status != SWEEP_DONE);
}

static void mix_text(uint64_t *h, const char *text)
{
    digest_mix(h, text, strlen(text) + 1);
}

/* Of everything that the numbers of a sweep depend on. */
static void identify(const bench_sweep *s, char out[17])
{
    uint64_t h = DIGEST_BEGIN;
    json_t *here = cli_environment();
    static const char *const keys[] = {"host", "weft", "commit", "processor", NULL};
    for (uint32_t i = 0; keys[i]; i++) {
        const char *text = json_string_value(json_object_get(here, keys[i]));
        mix_text(&h, text ? text : "");
    }
    json_decref(here);
    const uint64_t own[] = {s->warmup, s->steps, s->compare, s->rows.n, s->references.n};
    digest_mix(&h, own, sizeof own);
    for (uint32_t i = 0; i < s->rows.n; i++) {
        digest_mix(&h, &s->rows.at[i].plan.identity, sizeof h);
        for (uint32_t c = 0; c < s->ncolumns; c++) {
            mix_text(&h, s->column[c].key);
            mix_text(&h, s->rows.at[i].value[c] ? s->rows.at[i].value[c] : "");
        }
    }
    snprintf(out, 17, "%016" PRIx64, h);
}

static const char *ledger_path(bench_sweep *s)
{
    return pool_printf(&s->pool, "%s/runs.jsonl", s->out);
}

/* --- reading --- */

/* A whole line as an object; NULL: there is none, or it is damaged. */
static json_t *next_line(FILE *f)
{
    char text[LINE_BYTES];
    if (!fgets(text, sizeof text, f) || !strchr(text, '\n'))
        return NULL;
    json_t *x = json_loads(text, 0, NULL);
    if (!json_is_object(x)) {
        json_decref(x);
        return NULL;
    }
    return x;
}

static bool is_of(const bench_sweep *s, const json_t *head)
{
    char mine[17];
    identify(s, mine);
    const char *text = json_string_value(json_object_get(head, "sweep"));
    return json_integer_value(json_object_get(head, "version")) == LEDGER_VERSION && text &&
           !strcmp(text, mine);
}

/* In what the sweep that left the ledger differs from this one. */
static const char *what_differs(const json_t *head)
{
    static const char *const facts[][2] = {{"host", "ran on another machine"},
                                           {"processor", "ran on another processor"},
                                           {"weft", "is of another version of weft"},
                                           {"commit", "is of another build of weft"}};
    const json_t *was = json_object_get(head, "environment");
    json_t *here = cli_environment();
    const char *said = "has other jobs, plugins or settings";
    for (uint32_t i = sizeof facts / sizeof *facts; i-- > 0;)
        if (!json_equal(json_object_get(was, facts[i][0]), json_object_get(here, facts[i][0])))
            said = facts[i][1];
    json_decref(here);
    return head ? said : "has a runs.jsonl that cannot be read";
}

static bench_sweep_row *row_of(bench_sweep *s, const json_t *x, bool *alone)
{
    const json_int_t n = json_integer_value(json_object_get(x, "number"));
    *alone = json_is_true(json_object_get(x, "one_rank"));
    if (n < 1 || n > (*alone ? s->references.n : s->rows.n))
        return NULL;
    return *alone ? &s->references.at[n - 1].row : &s->rows.at[n - 1];
}

/* One run that has ended: what it measured is read from its folder again. A run whose folder is
 * gone runs once more. */
static bool take_run(bench_sweep *s, const json_t *x)
{
    bool alone;
    bench_sweep_row *r = row_of(s, x, &alone);
    const json_int_t repeat = json_integer_value(json_object_get(x, "repeat")) - 1;
    const char *status = json_string_value(json_object_get(x, "status"));
    const char *why = json_string_value(json_object_get(x, "why"));
    if (!r || !status || repeat < 0 || repeat != r->samples || repeat >= (json_int_t)s->repeats ||
        (r->status != SWEEP_WAITS && r->status != SWEEP_DONE))
        return false;
    bench_sweep_try t = {
        .folder = bench_sweep_folder(s, (uint32_t)json_integer_value(json_object_get(x, "number")),
                                     (uint32_t)repeat, alone),
        .repeat = (uint32_t)repeat,
        .alone = alone};
    const double others = json_number_value(json_object_get(x, "other_cores"));
    const json_int_t resident = json_integer_value(json_object_get(x, "resident_bytes"));
    r->other_cores = others > r->other_cores ? others : r->other_cores;
    const json_int_t pinned = json_integer_value(json_object_get(x, "pinned"));
    r->pinned = pinned > 0 && pinned <= UINT32_MAX ? (uint32_t)pinned : 0;
    r->looked = json_is_integer(json_object_get(x, "pinned"));
    if (resident > 0 && (uint64_t)resident > r->resident)
        r->resident = (uint64_t)resident;
    if (!strcmp(status, "done")) {
        if (bench_sweep_measure(s, r, &t))
            r->status = SWEEP_DONE;
        return r->status == SWEEP_DONE && r->samples == repeat + 1;
    }
    r->status = !strcmp(status, "skipped") ? SWEEP_SKIPPED : SWEEP_FAILED;
    r->why = pool_text(&s->pool, why ? why : "failed before the sweep was interrupted");
    return true;
}

/* Reads the file; with `done` also the runs, which are counted. */
static void read_ledger(bench_sweep *s, ledger *l, uint64_t *done)
{
    FILE *f = fopen(ledger_path(s), "re");
    *l = (ledger){0};
    if (!f)
        return;
    json_t *head = next_line(f), *x;
    l->same = head && is_of(s, head);
    l->other = l->same ? NULL : what_differs(head);
    l->began = json_incref(json_object_get(head, "environment"));
    while (l->same && (l->whole = ftell(f)) >= 0 && (x = next_line(f))) {
        const json_t *complete = json_object_get(x, "complete");
        if (json_is_integer(complete))
            l->complete = (uint64_t)json_integer_value(complete);
        else if (json_object_get(x, "continued"))
            l->goings++;
        else if (done)
            *done += take_run(s, x);
        json_decref(x);
    }
    json_decref(head);
    fclose(f);
}

/* --- writing --- */

/* The object becomes a line; it is released. */
static weft_status append(bench_sweep *s, json_t *x)
{
    char *text = json_dumps(x, JSON_COMPACT);
    json_decref(x);
    if (!text)
        return err_fail(WEFT_NO_MEMORY, "no memory for a line of runs.jsonl");
    const char *line = pool_printf(&s->pool, "%s\n", text);
    const size_t n = strlen(line);
    free(text);
    if (write(s->ledger, line, n) != (ssize_t)n || fdatasync(s->ledger))
        return err_fail_errno(WEFT_IO, "%s cannot be written", ledger_path(s));
    return WEFT_OK;
}

static weft_status begin_ledger(bench_sweep *s)
{
    char mine[17];
    const int fd = open(ledger_path(s), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_fail_errno(WEFT_IO, "%s cannot be written", ledger_path(s));
    s->ledger = fd;
    s->began = cli_environment();
    identify(s, mine);
    return append(s, json_pack("{s:i, s:s, s:O}", "version", LEDGER_VERSION, "sweep", mine,
                               "environment", s->began));
}

/* Nothing is left to run. */
static bool has_all(const bench_sweep *s)
{
    bool all = true;
    for (uint32_t i = 0; i < s->rows.n; i++)
        all = all && bench_sweep_has_run(s, &s->rows.at[i], (uint32_t)s->repeats - 1);
    for (uint32_t i = 0; s->compare && i < s->references.n; i++)
        all = all && bench_sweep_has_run(s, &s->references.at[i].row, 0);
    return all;
}

static weft_status go_on(bench_sweep *s, uint64_t *done)
{
    ledger l;
    read_ledger(s, &l, done);
    s->began = l.began ? l.began : json_object();
    s->finished = l.complete >= s->repeats && has_all(s);
    s->goings = l.goings + !s->finished;
    if (!l.same)
        return err_fail(WEFT_IO, "another sweep has changed %s meanwhile: start again", s->out);
    if (s->finished) {
        log_line(WEFT_LOG_INFO,
                 "%s holds this sweep, finished: its table follows (--afresh runs "
                 "it again)",
                 s->out);
        return WEFT_OK;
    }
    const int fd = open(ledger_path(s), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, l.whole)) {
        weft_status st = err_fail_errno(WEFT_IO, "%s cannot be written", ledger_path(s));
        if (fd >= 0)
            close(fd);
        return st;
    }
    s->ledger = fd;
    log_line(WEFT_LOG_INFO,
             "%s holds this sweep, interrupted after %llu runs: it goes on (--afresh "
             "begins anew)",
             s->out, (unsigned long long)*done);
    return append(s, json_pack("{s:o}", "continued", cli_environment()));
}

/* Runs are written into a folder of its own: files of somebody else would lie among them. */
static weft_status not_foreign(bench_sweep *s)
{
    DIR *d = opendir(s->out);
    const char *other = NULL;
    bool swept = !d; /* a new folder, or an error that making it tells */
    for (struct dirent *e; d && !swept && (e = readdir(d));) {
        swept = !strcmp(e->d_name, "runs.jsonl") || !strcmp(e->d_name, "sweep.json");
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, ".lock"))
            other = other ? other : pool_text(&s->pool, e->d_name);
    }
    if (d)
        closedir(d);
    if (swept || !other)
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "sweep.out: the folder %s has files, such as %s, and no runs.jsonl of a sweep; "
                    "name a new folder, or an empty one",
                    s->out, other);
}

weft_status bench_sweep_ledger_open(bench_sweep *s, bool fresh, struct run_outlock *lock,
                                    uint64_t *done)
{
    ledger l;
    *done = 0;
    weft_status st = not_foreign(s);
    if (st != WEFT_OK)
        return st;
    read_ledger(s, &l, NULL);
    json_decref(l.began);
    const bool on = !fresh && l.same;
    if (!on && (l.same || l.other))
        log_line(WEFT_LOG_INFO, "the sweep begins anew: %s%s%s",
                 l.other ? "that in " : "--afresh asks for it", l.other ? s->out : "",
                 l.other ? pool_printf(&s->pool, " %s", l.other) : "");
    st = run_outdir_prepare(s->out, !on, 0, lock);
    if (st != WEFT_OK)
        return st;
    return on ? go_on(s, done) : begin_ledger(s);
}

weft_status bench_sweep_ledger_note(bench_sweep *s, const bench_sweep_row *r,
                                    const bench_sweep_try *t)
{
    uint32_t number = r->number;
    for (uint32_t i = 0; t->alone && i < s->references.n; i++)
        if (r == &s->references.at[i].row)
            number = i + 1;
    json_t *x = json_pack("{s:I, s:I, s:s, s:f, s:I}", "number", (json_int_t)number, "repeat",
                          (json_int_t)t->repeat + 1, "status", bench_sweep_status(r), "other_cores",
                          r->other_cores, "resident_bytes", (json_int_t)r->resident);
    json_object_set_new(x, "pinned", json_integer(r->pinned));
    if (t->alone)
        json_object_set_new(x, "one_rank", json_true());
    if (r->status != SWEEP_DONE)
        json_object_set_new(x, "why", json_stringn_nocheck(r->why, strnlen(r->why, WHY_BYTES)));
    return append(s, x);
}

weft_status bench_sweep_ledger_complete(bench_sweep *s)
{
    return append(s, json_pack("{s:I}", "complete", (json_int_t)s->repeats));
}
