/* bench/sweep/bench_sweep.c: weft bench SWEEP.ini: finds the fastest combination, and checks
 * that all compute the same losses.
 *
 * Every combination is planned first, so invalid ones cost no run, and one whose job is that of an
 * earlier one runs once. Then come the references on one rank, then the rest in rounds, one run of
 * each in turn, forwards and backwards, so that a slowdown of the machine affects all alike. A
 * failed one becomes a row, and is not retried. Every run that has ended is noted at once, and an
 * interrupted sweep goes on from there (ledger.c). */
#include "bench/sweep/bench_sweep.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "bench/sweep/sweep.h"
#include "cli/cli.h"
#include "run/state/outlock.h"
#include "run/view/progress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STOPPED 75    /* exit status of a sweep that can go on */
#define WRITE_MS 5000 /* between two writes of the files, at least */

static volatile int asked_to_stop;

static void on_signal(int sig)
{
    (void)sig;
    asked_to_stop = 1;
}

/* --- a line for people --- */

typedef struct bar {
    uint64_t done, all, began_ms, before; /* before: of `done`, by an interrupted sweep */
    uint64_t written_ms;                  /* when the files were written last */
    const char *what;
    bool terminal;
} bar;

static void time_left(const bar *b, char out[32])
{
    if (b->done == b->before) {
        snprintf(out, 32, "?");
        return;
    }
    const uint64_t each = (clock_ms() - b->began_ms) / (b->done - b->before);
    const uint64_t left = each * (b->all > b->done ? b->all - b->done : 0) / 1000;
    run_progress_duration(left, out);
}

static void draw(void *ctx)
{
    const bar *b = ctx;
    char left[32], picture[25];
    if (!b->terminal)
        return;
    const uint32_t full = b->all ? (uint32_t)(b->done * 24 / b->all) : 0;
    for (uint32_t i = 0; i < 24; i++)
        picture[i] = i < full ? '#' : '.';
    picture[24] = 0;
    time_left(b, left);
    fprintf(stderr, "\r\033[K[%s] %llu/%llu  ETA %s  %.80s", picture, (unsigned long long)b->done,
            (unsigned long long)b->all, left, b->what);
    fflush(stderr);
}

static void note(bar *b, const char *what, const char *result)
{
    char left[32];
    b->done++;
    time_left(b, left);
    if (b->terminal)
        fprintf(stderr, "\r\033[K");
    if (!b->terminal || result[0] != ' ') /* a bar needs no line for what went well */
        fprintf(stderr, "%llu/%llu  %s  %s  ETA %s\n", (unsigned long long)b->done,
                (unsigned long long)b->all, what, result + (result[0] == ' '), left);
    fflush(stderr);
}

/* --- planning --- */

/* A row whose job an earlier row has. */
static void find_same(bench_sweep *s, uint32_t i)
{
    bench_sweep_row *r = &s->rows.at[i];
    for (uint32_t k = 0; k < i && r->status == SWEEP_WAITS && r->plan.identity; k++) {
        const bench_sweep_row *x = &s->rows.at[k];
        if (x->status != SWEEP_WAITS || x->plan.identity != r->plan.identity)
            continue;
        r->status = SWEEP_SAME;
        r->same = k;
        r->why = pool_printf(&s->pool, "the job of combination %u", x->number);
    }
}

static uint32_t plan_rows(bench_sweep *s, bar *b)
{
    uint32_t valid = 0;
    b->what = "planning";
    b->all = s->rows.n;
    for (uint32_t i = 0; i < s->rows.n && !asked_to_stop; i++) {
        draw(b);
        bench_sweep_plan_row(s, &s->rows.at[i], false);
        s->former |= s->rows.at[i].plan.former;
        find_same(s, i);
        valid += s->rows.at[i].status == SWEEP_WAITS;
        b->done++;
    }
    if (b->terminal)
        fprintf(stderr, "\r\033[K");
    return valid;
}

/* The reference before this one with the same job on one rank; its own index: none. */
static uint32_t equal_reference(const bench_sweep *s, uint32_t of)
{
    const bench_sweep_plan *mine = &s->references.at[of].row.plan;
    for (uint32_t i = 0; i < of && s->compare && mine->identity; i++)
        if (s->references.at[i].row.plan.identity == mine->identity)
            return i;
    return of;
}

/* The job of a row on one rank, without run.out: rows with equal text, or jobs that are equal as
 * planned, share a reference. */
static weft_status find_reference(bench_sweep *s, bench_sweep_row *r)
{
    config *cfg;
    weft_status st = bench_sweep_job(s, r, true, NULL, &cfg);
    if (st != WEFT_OK)
        return st;
    char *text = config_written(cfg, "sweep");
    config_destroy(cfg);
    r->reference = s->references.n;
    for (uint32_t i = 0; i < s->references.n; i++)
        if (!strcmp(s->references.at[i].keys, text))
            r->reference = i;
    if (r->reference == s->references.n) {
        bench_sweep_reference *one = vec_push(&s->references);
        *one = (bench_sweep_reference){.keys = pool_text(&s->pool, text), .row = *r};
        one->row.worst = -1;
        if (s->compare)
            bench_sweep_plan_row(s, &one->row, true);
        r->reference = equal_reference(s, r->reference);
        s->references.n -= r->reference + 1 != s->references.n;
    }
    free(text);
    return WEFT_OK;
}

static weft_status find_references(bench_sweep *s)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < s->rows.n && !asked_to_stop; i++)
        if (s->rows.at[i].status == SWEEP_WAITS)
            st = find_reference(s, &s->rows.at[i]);
    return st;
}

/* --- running --- */

static const char *result_of(bench_sweep *s, const bench_sweep_row *r, uint32_t repeat)
{
    if (r->status != SWEEP_DONE)
        return pool_printf(&s->pool, "%s: %s", bench_sweep_status(r), r->why);
    const bench_sweep_sample *a = &r->sample[repeat];
    return pool_printf(&s->pool, " %.0f tokens/s", a->tokens / (a->step_ms * 1e-3));
}

/* After a run: it is noted, and the files have what is known, at most every few seconds. */
static weft_status keep(bench_sweep *s, bar *b, const bench_sweep_row *r, const bench_sweep_try *t)
{
    weft_status st = asked_to_stop ? WEFT_OK : bench_sweep_ledger_note(s, r, t);
    if (st != WEFT_OK || clock_ms() < b->written_ms + WRITE_MS)
        return st;
    b->written_ms = clock_ms();
    bench_sweep_rank_rows(s);
    return bench_sweep_write(s);
}

/* Of a run that a signal has ended nothing is known: it waits, as before. */
static void forget(bench_sweep_row *r, uint32_t repeat)
{
    r->status = repeat ? SWEEP_DONE : SWEEP_WAITS;
    r->samples = repeat;
}

static weft_status run_references(bench_sweep *s, bar *b)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; s->compare && st == WEFT_OK && i < s->references.n && !asked_to_stop;
         i++) {
        bench_sweep_row *r = &s->references.at[i].row;
        bench_sweep_try t = {.folder = bench_sweep_folder(s, i + 1, 0, true),
                             .alone = true,
                             .tick = draw,
                             .ctx = b,
                             .stop = &asked_to_stop};
        b->what = "reference on one rank";
        if (bench_sweep_has_run(s, r, 0))
            continue;
        bench_sweep_run(s, r, &t);
        if (asked_to_stop) {
            forget(r, 0);
            break;
        }
        st = keep(s, b, r, &t);
        note(b, b->what, result_of(s, r, 0));
    }
    return st;
}

static weft_status run_round(bench_sweep *s, bar *b, uint32_t repeat)
{
    weft_status st = WEFT_OK;
    for (uint32_t k = 0; st == WEFT_OK && k < s->rows.n && !asked_to_stop; k++) {
        bench_sweep_row *r = &s->rows.at[repeat % 2 ? s->rows.n - 1 - k : k];
        if (bench_sweep_has_run(s, r, repeat))
            continue;
        bench_sweep_try t = {.folder = bench_sweep_folder(s, r->number, repeat, false),
                             .repeat = repeat,
                             .tick = draw,
                             .ctx = b,
                             .stop = &asked_to_stop};
        b->what = bench_sweep_label(s, r);
        bench_sweep_run(s, r, &t);
        if (asked_to_stop) {
            forget(r, repeat);
            break;
        }
        if (r->status != SWEEP_DONE)
            b->all -= s->repeats - 1 - repeat;
        st = keep(s, b, r, &t);
        note(b, b->what, result_of(s, r, repeat));
    }
    return st;
}

/* Runs that there are to do, of which `done` are: those of failed rows are not. */
static void count_runs(const bench_sweep *s, uint64_t done, bar *b)
{
    b->done = b->before = done;
    b->all = s->compare ? s->references.n : 0;
    for (uint32_t i = 0; i < s->rows.n; i++) {
        const bench_sweep_row *r = &s->rows.at[i];
        if (r->status == SWEEP_WAITS || r->status == SWEEP_DONE)
            b->all += s->repeats;
        else if (!r->plan.status && r->status != SWEEP_SAME)
            b->all += r->samples + 1; /* failed before the interruption */
    }
}

static void finish_rows(bench_sweep *s)
{
    if (s->baseline < 0)
        for (uint32_t i = s->rows.n; i-- > 0;)
            s->baseline = s->rows.at[i].status == SWEEP_DONE ? (int32_t)i : s->baseline;
    else if (s->rows.at[s->baseline].status == SWEEP_SAME)
        s->baseline = (int32_t)s->rows.at[s->baseline].same;
    for (uint32_t i = 0; i < s->rows.n; i++) {
        bench_sweep_row *r = &s->rows.at[i];
        bench_sweep_compare(s, r, s->compare ? &s->references.at[r->reference].row : NULL);
    }
    bench_sweep_rank_rows(s);
}

static weft_status run_all(bench_sweep *s, uint64_t done, bool terminal)
{
    bar b = {.began_ms = clock_ms(), .written_ms = clock_ms(), .terminal = terminal};
    count_runs(s, done, &b);
    weft_status st = bench_sweep_write(s);
    if (st == WEFT_OK)
        st = run_references(s, &b);
    for (uint32_t repeat = 0; repeat < s->repeats && st == WEFT_OK; repeat++)
        st = run_round(s, &b, repeat);
    if (st == WEFT_OK && !asked_to_stop)
        st = bench_sweep_ledger_complete(s);
    finish_rows(s);
    if (st == WEFT_OK)
        st = bench_sweep_write(s);
    bench_sweep_print(s);
    printf("runs, sweep.csv and sweep.json are in %s\n", s->out);
    s->stopped = st == WEFT_OK && asked_to_stop;
    if (s->stopped)
        log_line(WEFT_LOG_INFO,
                 "the sweep was stopped after %llu of %llu runs; the same command "
                 "goes on",
                 (unsigned long long)b.done, (unsigned long long)b.all);
    return st;
}

/* No earlier row has the same reason. */
static bool is_first_to_say(const bench_sweep *s, uint32_t row)
{
    for (uint32_t i = 0; i < row; i++)
        if (!strcmp(s->rows.at[i].why, s->rows.at[row].why))
            return false;
    return true;
}

/* No combination is valid: the request itself is the error. Each reason is said once. */
static weft_status none_lawful(const bench_sweep *s)
{
    uint32_t reasons = 0;
    for (uint32_t i = 0; i < s->rows.n; i++)
        reasons += is_first_to_say(s, i);
    if (reasons == 1)
        return err_fail(WEFT_USAGE, "%s (none of the %u combinations of %s can run)",
                        s->rows.at[0].why, s->rows.n, s->ini);
    for (uint32_t i = 0; i < s->rows.n; i++)
        if (is_first_to_say(s, i))
            log_line(WEFT_LOG_ERROR, "combination %u: %s", s->rows.at[i].number, s->rows.at[i].why);
    return err_fail(WEFT_USAGE, "none of the %u combinations of %s can run", s->rows.n, s->ini);
}

static bool any_done(const bench_sweep *s)
{
    for (uint32_t i = 0; i < s->rows.n; i++)
        if (s->rows.at[i].status == SWEEP_DONE)
            return true;
    return false;
}

enum flag { PLAN, JSON, AFRESH };

static weft_status show_plan(bench_sweep *s, bool json)
{
    if (!json) {
        bench_sweep_print_plan(s);
        return WEFT_OK;
    }
    json_t *root = bench_sweep_json(s);
    const bool bad = json_dumpf(root, stdout, JSON_INDENT(1)) || fputc('\n', stdout) == EOF;
    json_decref(root);
    return bad ? err_fail_errno(WEFT_IO, "the plans could not be written as JSON") : WEFT_OK;
}

static weft_status stop_early(bench_sweep *s)
{
    s->stopped = true;
    log_line(WEFT_LOG_INFO, "the sweep was stopped before a run; the same command starts it");
    return WEFT_OK;
}

/* The folder has all runs of this sweep: the table again. The files stay as they are. */
static void print_finished(bench_sweep *s)
{
    finish_rows(s);
    bench_sweep_print(s);
    printf("runs, sweep.csv and sweep.json are in %s\n", s->out);
}

static weft_status do_sweep(bench_sweep *s, const cli_job *j, run_outlock *lock)
{
    bar b = {.terminal = isatty(STDERR_FILENO), .began_ms = clock_ms()};
    s->ranks = j->ranks;
    weft_status st = bench_sweep_read(s, j->ini, j->overrides, j->noverrides);
    if (st != WEFT_OK)
        return st;
    uint32_t valid = plan_rows(s, &b);
    if (asked_to_stop)
        return stop_early(s);
    if (!valid)
        return none_lawful(s);
    if (j->flag[PLAN])
        return show_plan(s, j->flag[JSON]);
    uint64_t done = 0;
    st = find_references(s);
    if (st == WEFT_OK && asked_to_stop)
        return stop_early(s);
    if (st == WEFT_OK)
        st = bench_sweep_ledger_open(s, j->flag[AFRESH], lock, &done);
    if (st == WEFT_OK && s->finished)
        print_finished(s);
    else if (st == WEFT_OK)
        st = run_all(s, done, b.terminal);
    if (st == WEFT_OK && !s->stopped && !any_done(s))
        st = err_fail(WEFT_IO, "no combination of %s was completed", s->ini);
    return st;
}

/* A row's job file has the keys of the command line, and a text with what looks like a
 * comment would not be read back. NULL: all are. */
static const char *lost_in_file(const cli_job *j)
{
    for (uint32_t i = 0; i < j->noverrides; i++) {
        const char *value = strchr(j->overrides[i], '=');
        if (value && (strstr(value, " #") || strstr(value, " ;")))
            return j->overrides[i];
    }
    return NULL;
}

int bench_sweep_main(const cli_command *c, int argc, char **argv)
{
    static const char *const flags[] = {"--plan", "--json", "--afresh", NULL};
    bench_sweep s = {0};
    run_outlock lock = {0};
    cli_job j;
    int status = 2;
    struct sigaction act = {.sa_handler = on_signal};
    if (!cli_parse_job(c, argc, argv, flags, NULL, &j, &status)) {
        free(j.overrides);
        return status;
    }
    const char *lost = lost_in_file(&j);
    if (lost) {
        status = cli_usage(
            c,
            "'%s': a sweep writes the keys of a run into a job file, where a value cannot have "
            "a blank before '#' or ';'; leave the blank out",
            lost);
    } else if (!j.ini) {
        status = cli_usage(c, "name the INI file of a sweep, or comm for collectives");
    } else if (j.flag[JSON] && !j.flag[PLAN]) {
        status = cli_usage(c, "--json prints plans: with --plan; a sweep that runs writes "
                              "OUT/sweep.json");
    } else {
        sigaction(SIGTERM, &act, NULL);
        sigaction(SIGINT, &act, NULL);
        status = cli_fail(do_sweep(&s, &j, &lock));
        status = s.stopped ? STOPPED : status;
        run_outlock_release(&lock, 0);
    }
    if (s.ledger)
        close(s.ledger);
    bench_sweep_free(&s);
    free(j.overrides);
    return status;
}
