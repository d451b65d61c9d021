/* cli/bench/sweep/bench_sweep.c: weft bench SWEEP.ini: finds the fastest combination, and checks
 * that all compute the same losses.
 *
 * Every combination is planned first, so invalid ones cost no run. Then come the references on one
 * rank, then the rest in rounds, one run of each in turn, so that a slowdown of the machine affects
 * all alike. A failed one becomes a row, and is not retried. */
#include "cli/bench/sweep/bench_sweep.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/bench/sweep/sweep.h"
#include "cli/cli.h"
#include "run/state/outdir.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int asked_to_stop;

static void on_signal(int sig)
{
    (void)sig;
    asked_to_stop = 1;
}

/* --- a line for people --- */

typedef struct bar {
    uint64_t done, all, began_ms;
    const char *what;
    bool terminal;
} bar;

static void time_left(const bar *b, char out[32])
{
    if (!b->done) {
        snprintf(out, 32, "?");
        return;
    }
    uint64_t each = (clock_ms() - b->began_ms) / b->done, left = each * (b->all - b->done) / 1000;
    if (left >= 3600)
        snprintf(out, 32, "%u:%02u:%02u", (unsigned)(left / 3600), (unsigned)(left / 60 % 60),
                 (unsigned)(left % 60));
    else
        snprintf(out, 32, "%u:%02u", (unsigned)(left / 60), (unsigned)(left % 60));
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

static uint32_t plan_rows(sweep *s, bar *b)
{
    uint32_t valid = 0;
    b->what = "planning";
    b->all = s->rows.n;
    for (uint32_t i = 0; i < s->rows.n && !asked_to_stop; i++) {
        draw(b);
        cli_sweep_plan_row(s, &s->rows.at[i], false);
        valid += s->rows.at[i].status == SWEEP_WAITS;
        b->done++;
    }
    if (b->terminal)
        fprintf(stderr, "\r\033[K");
    return valid;
}

/* The job of a row on one rank, without run.out: rows with equal text share a reference. */
static weft_status find_reference(sweep *s, sweep_row *r)
{
    config *cfg;
    weft_status st = cli_sweep_job(s, r, true, NULL, &cfg);
    if (st != WEFT_OK)
        return st;
    char *text = config_written(cfg, "sweep");
    config_destroy(cfg);
    r->reference = s->references.n;
    for (uint32_t i = 0; i < s->references.n; i++)
        if (!strcmp(s->references.at[i].keys, text))
            r->reference = i;
    if (r->reference == s->references.n) {
        sweep_reference *one = vec_push(&s->references);
        *one = (sweep_reference){.keys = pool_text(&s->pool, text), .row = *r};
        one->row.worst = -1;
        cli_sweep_plan_row(s, &one->row, true);
    }
    free(text);
    return WEFT_OK;
}

static weft_status find_references(sweep *s)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; s->compare && st == WEFT_OK && i < s->rows.n && !asked_to_stop; i++)
        if (s->rows.at[i].status == SWEEP_WAITS)
            st = find_reference(s, &s->rows.at[i]);
    return st;
}

/* --- running --- */

static const char *result_of(sweep *s, const sweep_row *r, uint32_t repeat)
{
    if (r->status != SWEEP_DONE)
        return pool_printf(&s->pool, "%s: %s", cli_sweep_status(r), r->why);
    const sweep_sample *a = &r->sample[repeat];
    return pool_printf(&s->pool, " %.0f tokens/s", a->tokens / (a->step_ms * 1e-3));
}

static void run_references(sweep *s, bar *b)
{
    for (uint32_t i = 0; i < s->references.n && !asked_to_stop; i++) {
        sweep_row *r = &s->references.at[i].row;
        sweep_try t = {.folder = pool_printf(&s->pool, "%s/one-rank-%u", s->out, i + 1),
                       .alone = true,
                       .tick = draw,
                       .ctx = b,
                       .stop = &asked_to_stop};
        b->what = "reference on one rank";
        if (r->status == SWEEP_WAITS)
            cli_sweep_run(s, r, &t);
        note(b, b->what, result_of(s, r, 0));
    }
}

static void run_round(sweep *s, bar *b, uint32_t repeat)
{
    for (uint32_t i = 0; i < s->rows.n && !asked_to_stop; i++) {
        sweep_row *r = &s->rows.at[i];
        if (r->status != (repeat ? SWEEP_DONE : SWEEP_WAITS))
            continue;
        sweep_try t = {.folder = pool_printf(&s->pool, "%s/%03u-%u", s->out, r->number, repeat + 1),
                       .repeat = repeat,
                       .tick = draw,
                       .ctx = b,
                       .stop = &asked_to_stop};
        b->what = cli_sweep_label(s, r);
        cli_sweep_run(s, r, &t);
        if (r->status != SWEEP_DONE)
            b->all -= s->repeats - 1 - repeat;
        note(b, b->what, result_of(s, r, repeat));
    }
}

static weft_status run_all(sweep *s, uint32_t valid, bool terminal)
{
    bar b = {
        .all = s->references.n + s->repeats * valid, .began_ms = clock_ms(), .terminal = terminal};
    run_references(s, &b);
    for (uint32_t repeat = 0; repeat < s->repeats; repeat++)
        run_round(s, &b, repeat);
    for (uint32_t i = 0; i < s->rows.n; i++) {
        sweep_row *r = &s->rows.at[i];
        if (r->status == SWEEP_WAITS) {
            r->status = SWEEP_FAILED;
            r->why = "stopped before it began";
        }
        cli_sweep_compare(s, r, s->references.n ? &s->references.at[r->reference].row : NULL);
    }
    weft_status st = cli_sweep_write(s);
    cli_sweep_print(s);
    printf("runs, sweep.csv and sweep.json are in %s\n", s->out);
    if (st == WEFT_OK && asked_to_stop)
        st = err_fail(WEFT_IO, "the sweep was stopped by a signal");
    return st;
}

/* No combination is valid: the request itself is the error. */
static weft_status none_lawful(const sweep *s)
{
    for (uint32_t i = 0; i < s->rows.n; i++)
        log_line(WEFT_LOG_ERROR, "combination %u: %s", s->rows.at[i].number, s->rows.at[i].why);
    return err_fail(WEFT_USAGE, "none of the %u combinations of %s can run", s->rows.n, s->ini);
}

static void print_plan(sweep *s)
{
    for (uint32_t i = 0; i < s->rows.n; i++) {
        const sweep_row *r = &s->rows.at[i];
        if (r->status == SWEEP_WAITS)
            printf("%3u  %s: %u rank%s, %.1f MiB at most a rank, sends %llu bytes a step\n",
                   r->number, cli_sweep_label(s, r), r->plan.ranks, r->plan.ranks == 1 ? "" : "s",
                   (double)r->plan.peak / 1048576.0, (unsigned long long)r->plan.sent);
        else
            printf("%3u  %s: %s: %s\n", r->number, cli_sweep_label(s, r), cli_sweep_status(r),
                   r->why);
    }
}

static bool any_done(const sweep *s)
{
    for (uint32_t i = 0; i < s->rows.n; i++)
        if (s->rows.at[i].status == SWEEP_DONE)
            return true;
    return false;
}

static weft_status do_sweep(sweep *s, const cli_job *j, outlock *lock)
{
    bar b = {.terminal = isatty(STDERR_FILENO), .began_ms = clock_ms()};
    s->ranks = j->ranks;
    weft_status st = cli_sweep_read(s, j->ini, j->overrides, j->noverrides);
    if (st != WEFT_OK)
        return st;
    uint32_t valid = plan_rows(s, &b);
    if (!valid)
        return none_lawful(s);
    if (j->flag[0]) {
        print_plan(s);
        return WEFT_OK;
    }
    st = find_references(s);
    if (st == WEFT_OK)
        st = run_outdir_prepare(s->out, true, 0, lock);
    if (st == WEFT_OK)
        st = run_all(s, valid, b.terminal);
    if (st == WEFT_OK && !any_done(s))
        st = err_fail(WEFT_IO, "no combination of %s was completed", s->ini);
    return st;
}

int cli_sweep_main(const command *c, int argc, char **argv)
{
    static const char *const flags[] = {"--plan", NULL};
    sweep s = {0};
    outlock lock = {0};
    cli_job j;
    int status = 2;
    struct sigaction act = {.sa_handler = on_signal};
    if (!cli_parse_job(c, argc, argv, flags, NULL, &j, &status)) {
        free(j.overrides);
        return status;
    }
    if (!j.ini) {
        status = cli_usage(c, "name the INI file of a sweep, or comm for collectives");
    } else {
        sigaction(SIGTERM, &act, NULL);
        sigaction(SIGINT, &act, NULL);
        status = cli_fail(do_sweep(&s, &j, &lock));
        run_outlock_release(&lock, 0);
    }
    cli_sweep_free(&s);
    free(j.overrides);
    return status;
}
