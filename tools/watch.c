/* watch.c: weft watch. */
#define _GNU_SOURCE
#include "cli/cli.h"

#include "base/err.h"
#include "launch/policy.h"
#include "report/screen.h"
#include "report/serve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 1000
/* Looks may take a part in SHARE of a core's time, since the run needs it; but pauses are bounded.
 */
#define SHARE 20u
#define IDLE_MAX_MS 10000u
#define RUNS 64u
#define EMPTY_LOOKS 3u
/* A job that has failed may be started again, after a pause of RESTART_PAUSE_MAX at most. */
#define PATIENCE_S (RESTART_PAUSE_MAX + 5)

static bool is_utf8(void)
{
    const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (uint32_t i = 0; i < 3; i++) {
        const char *v = getenv(names[i]);
        if (v && *v)
            return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
    }
    return false;
}

/* Of no terminal: 80 columns, any number of rows. */
static struct winsize terminal(void)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
        size = (struct winsize){.ws_col = 80};
    return size;
}

/* Every run anew, over what was there before; returns how many lines that are. Runs that do not fit
 * into the terminal have a line each. */
static uint32_t redraw(const json_t *runs, uint32_t before)
{
    const json_t *run;
    size_t i;
    uint32_t lines = 0;
    const struct winsize size = terminal();
    const bool fits = !size.ws_row || json_array_size(runs) * REPORT_SCREEN_LINES < size.ws_row;
    if (before)
        printf("\033[%uA\033[J", before);
    json_array_foreach (runs, i, run)
        lines += fits ? report_screen(run, size.ws_col, is_utf8(), stdout)
                      : report_screen_line(run, size.ws_col, stdout);
    fflush(stdout);
    return lines;
}

static bool is(const json_t *run, const char *state)
{
    const char *now = json_string_value(json_object_get(run, "state"));
    return now && !strcmp(now, state);
}

/* A line for each run that has a new step, or has ended, since `seen`: twice the step, and 1 while
 * it goes on. It begins with UINT64_MAX. */
static void add_lines(const json_t *runs, uint64_t *seen)
{
    const json_t *run;
    size_t i;
    json_array_foreach (runs, i, run) {
        const uint64_t now = 2 * report_screen_step(run) + is(run, "running");
        if (now != seen[i])
            report_screen_line(run, UINT32_MAX, stdout);
        seen[i] = now;
    }
}

static bool any_is(const json_t *runs, const char *state)
{
    const json_t *run;
    size_t i;
    json_array_foreach (runs, i, run)
        if (is(run, state))
            return true;
    return false;
}

/* Do runs go on? One that has ended early may, if that was just now. */
static bool goes_on(const json_t *runs)
{
    const json_t *run;
    size_t i;
    json_array_foreach (runs, i, run) {
        const json_t *last = json_object_get(json_object_get(run, "last"), "time");
        if (is(run, "running") ||
            (is(run, "early") && time(NULL) - json_integer_value(last) < PATIENCE_S))
            return true;
    }
    return false;
}

/* Is a folder away, or without anything? It may be between two runs, so look some more times. */
static bool any_is_empty(const json_t *runs)
{
    const json_t *run;
    size_t i;
    json_array_foreach (runs, i, run)
        if (!json_is_object(json_object_get(run, "steps")))
            return true;
    return any_is(runs, "gone");
}

/* Of this thread's work; neither a stopped program nor a slow file system counts. */
static uint64_t spent_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Until no job trains any more; 1: one has ended early, or its folder is gone. */
static int watch(report *r, bool once)
{
    uint64_t seen[RUNS];
    uint32_t lines = 0, empty = 0;
    int status = 0;
    bool more = true;
    memset(seen, 0xff, sizeof seen);
    while (more && !status) {
        const uint64_t began = spent_ms();
        json_t *data = report_json(r, NULL);
        uint64_t ms = (SHARE - 1) * (spent_ms() - began);
        ms = ms < LOOK_MS ? LOOK_MS : ms < IDLE_MAX_MS ? ms : IDLE_MAX_MS;
        const json_t *runs = json_object_get(data, "runs");
        empty = any_is_empty(runs) ? empty + 1 : 0;
        more = !once && (goes_on(runs) || (empty && empty < EMPTY_LOOKS));
        if (!json_array_size(runs))
            status =
                cli_usage(&cli_cmd_watch, "sweeps are shown with --http; without it name runs");
        else if (isatty(STDOUT_FILENO) || once)
            lines = redraw(runs, lines);
        else
            add_lines(runs, seen);
        if (!more && !status)
            status = any_is(runs, "early") || any_is(runs, "gone");
        json_decref(data);
        if (ferror(stdout))
            status = cli_fail(err_fail_errno(WEFT_IO, "standard output cannot be written"));
        if (more && !status)
            nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000L}, NULL);
    }
    return status;
}

static int run(int argc, char **argv)
{
    const char *address = NULL;
    bool serves = false, once = false;
    uint32_t n = 0;
    weft_status st = WEFT_OK;
    report *r = report_create();
    for (int i = 1; st == WEFT_OK && i < argc; i++) {
        if (!strcmp(argv[i], "--http")) {
            serves = true;
        } else if (!strncmp(argv[i], "--http=", 7)) {
            serves = true;
            address = argv[i] + 7;
        } else if (!strcmp(argv[i], "--once")) {
            once = true;
        } else if (*argv[i] == '-') {
            report_free(r);
            return cli_refuse(&cli_cmd_watch, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        } else if (++n > RUNS) {
            st = err_fail(WEFT_USAGE, "at most %u runs at a time", RUNS);
        } else {
            st = report_add(r, argv[i]);
        }
    }
    int status;
    if (st != WEFT_OK)
        status = cli_fail(st);
    else if (!n)
        status = cli_usage(&cli_cmd_watch, "name the folder of a run");
    else if (serves)
        status = cli_fail(report_serve(r, address));
    else
        status = watch(r, once);
    report_free(r);
    return status;
}

const cli_command cli_cmd_watch = {
    "watch", "RUN ... [--once | --http[=ADDRESS:PORT]]",
    "Show how a run goes on: its loss, speed, times and memory, every second until it ends.\n"
    "A run that has ended early is looked at for 35 s more: --restarts may start it again.\n\n"
    "  RUN        a run's folder (run.out), also on another machine that shares it. What is no\n"
    "             terminal gets a line for each look that finds a new step\n"
    "  --once     show it as it is now, and end\n"
    "  --http     serve the page of weft report instead, which renews itself, until Ctrl-C; then\n"
    "             sweeps can be named, too. Only this machine can open it, with the address that\n"
    "             is printed, and nothing can be changed by it\n"
    "  --http=ADDRESS:PORT   the same at another address or port, such as 0.0.0.0:8080; what it\n"
    "             shows goes over the network without encryption\n\n"
    "Exit status: 1 if a run has ended before run.steps: it was stopped, or has failed.",
    run, NULL};
