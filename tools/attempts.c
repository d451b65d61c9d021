/* attempts.c: see attempts.h. */
#include "attempts.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "job/decide/agreement.h"
#include "job/stop.h"
#include "launch/hosts/hosts.h"
#include "launch/launch.h"
#include "launch/policy.h"
#include "launch/requests.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct restarting {
    const cli_attempts *a;
    launch_restarts by;
    uint32_t ranks, number; /* of the next attempt */
    int asked;              /* the signal that ended a pause between attempts; 0: none */
} restarting;

/* --- one attempt --- */

static weft_status run_here(const restarting *r, char *const *argv, launch_end *end,
                            launch_attempt *a)
{
    launch_progress *p = NULL;
    weft_status st = launch_progress_open(r->ranks, &p);
    if (st != WEFT_OK)
        return st;
    launch_job(&(launch_args){.ranks = r->ranks,
                              .argv = argv,
                              .stops = r->a->stops,
                              .attempt = r->a->max ? r->number : 0,
                              .progress = p},
               end);
    a->step = launch_progress_furthest(p);
    a->at = end->rank == LAUNCH_ALL ? a->step : launch_progress_of(p, end->rank);
    launch_progress_keep_folder(p);
    launch_progress_close(p);
    return WEFT_OK;
}

/* *lost: hosts. */
static void run_on_hosts(const restarting *r, char *const *argv, launch_end *end, launch_attempt *a,
                         uint32_t *lost)
{
    uint64_t *steps = mem_alloc(r->ranks * sizeof *steps);
    launch_hosts_end e;
    launch_on_hosts(&(launch_hosts_args){.hosts = r->a->hosts,
                                         .ssh = r->a->ssh,
                                         .ranks = r->ranks,
                                         .argv = argv,
                                         .stops = r->a->stops,
                                         .attempt = r->number,
                                         .steps = steps},
                    &e);
    for (uint32_t rank = 0; rank < r->ranks; rank++)
        a->step = steps[rank] > a->step ? steps[rank] : a->step;
    *end = e.launch;
    *lost = e.lost;
    a->at = end->rank == LAUNCH_ALL ? a->step : steps[end->rank];
    free(steps);
}

/* Start one attempt, and note how it ended. */
static int attempt(restarting *r, launch_end *end, launch_attempt *a, uint32_t *lost)
{
    const uint64_t began = clock_ms();
    char **argv = r->a->arguments(r->a->job, r->by.furthest);
    weft_status st = WEFT_OK;
    *end = (launch_end){0};
    *a = (launch_attempt){.number = r->number, .ranks = r->ranks};
    *lost = 0;
    if (r->a->hosts)
        run_on_hosts(r, argv, end, a, lost);
    else
        st = run_here(r, argv, end, a);
    free(argv);
    if (st != WEFT_OK)
        return cli_fail(st);
    a->rank = end->rank;
    a->said = end->said;
    a->seconds = (double)(clock_ms() - began) * 1e-3;
    memcpy(a->why, end->why, sizeof a->why);
    return end->status;
}

/* --- what follows it --- */

/* The largest number of ranks up to `max` that the job allows; 0: none, and the error record says
 * what stands in the way of the largest. */
static uint32_t fewer(const restarting *r, uint32_t max)
{
    char why[2048] = "";
    weft_status first = WEFT_OK;
    for (uint32_t n = max; n >= r->by.least && n; n--) {
        const weft_status st = r->a->check(r->a->job, n);
        if (st == WEFT_OK)
            return n;
        if (!*why)
            snprintf(why, sizeof why, "with %u ranks: %s", n, err_text());
        first = first == WEFT_OK ? st : first;
    }
    (void)err_fail(first == WEFT_OK ? WEFT_USAGE : first,
                   "no layout of %u to %u ranks is possible%s%s", r->by.least, max,
                   *why ? "; " : "", why);
    return 0;
}

/* A rank that fails twice in a row in the same step counts as lost. */
static launch_restart leave_rank_out(restarting *r, const launch_attempt *a)
{
    const uint32_t before = r->ranks, n = fewer(r, before - 1);
    if (!n) {
        log_line(WEFT_LOG_WARN, "the job cannot continue with fewer ranks: %s", err_text());
        return r->by.in_a_row > r->by.max ? RESTART_END : RESTART_SAME;
    }
    launch_restarts_fewer(&r->by);
    log_line(WEFT_LOG_WARN,
             "rank %u failed twice in a row in the same step and counts as lost: %u of %u ranks "
             "continue, the largest number that the job allows; spare: %u",
             a->rank, n, before, before - 1 - n);
    r->ranks = n;
    return RESTART_FEWER;
}

/* The hosts that are left have room for the ranks, or for fewer. False: the job ends. */
static bool fit_hosts(restarting *r)
{
    const uint32_t slots = launch_host_list_slots(r->a->hosts);
    uint32_t n = 0;
    if (slots >= r->ranks) {
        log_line(WEFT_LOG_WARN, "the hosts that are left have %u slots for the %u ranks", slots,
                 r->ranks);
        return true;
    }
    if (!r->by.least)
        log_line(WEFT_LOG_ERROR,
                 "the hosts that are left have %u slots, and the job has %u ranks: name spare "
                 "hosts in the file of %s, or allow fewer ranks with --restarts-min",
                 slots, r->ranks, "--hosts");
    else if (!(n = fewer(r, slots)))
        log_line(WEFT_LOG_ERROR, "the job cannot continue on the hosts that are left: %s",
                 err_text());
    else
        log_line(WEFT_LOG_WARN,
                 "the hosts that are left have %u slots: %u of %u ranks continue, the largest "
                 "number that the job allows",
                 slots, n, r->ranks);
    if (n) {
        launch_restarts_fewer(&r->by);
        r->ranks = n;
    }
    return n > 0;
}

/* False: a signal ends the pause, and the job. */
static bool pause_for(restarting *r, launch_requests *q, uint32_t seconds)
{
    struct pollfd p = {.fd = q->fd, .events = POLLIN};
    const uint64_t until = clock_ms() + 1000ull * seconds;
    for (uint64_t now = clock_ms(); !q->asked; now = clock_ms()) {
        const int n = poll(&p, 1, now < until ? (int)(until - now) : 0);
        if (n > 0 && launch_requests_take(q) == REQUEST_PAUSE)
            launch_requests_pause();
        else if (n <= 0 && now >= until)
            return true;
    }
    launch_restarts_say_stopped(q->asked, r->number);
    r->asked = q->asked;
    return false;
}

/* What follows a failed attempt. False: the job ends. */
static bool decide(restarting *r, const launch_attempt *a, uint32_t lost, uint32_t *pause)
{
    launch_restart next = launch_restarts_next(&r->by, a, pause);
    if (lost && next != RESTART_END && !fit_hosts(r))
        return false;
    if (!lost && next == RESTART_FEWER)
        next = leave_rank_out(r, a);
    if (next == RESTART_END) {
        launch_restarts_say_end(&r->by);
        return false;
    }
    r->number++;
    log_line(WEFT_LOG_WARN, "attempt %u begins%s, %s", r->number, *pause ? " after a pause" : "",
             r->by.furthest ? "from the newest checkpoint" : "as the first did");
    return true;
}

/* From a failed attempt to the next one; signals wait until it is decided. False: the job ends. */
static bool go_on(restarting *r, const launch_attempt *a, uint32_t lost)
{
    launch_requests q;
    uint32_t pause = 0;
    const weft_status st = launch_requests_open(&q, r->a->stops);
    const bool again = st == WEFT_OK && decide(r, a, lost, &pause) && pause_for(r, &q, pause);
    if (st != WEFT_OK)
        log_line(WEFT_LOG_ERROR, "%s", err_text());
    launch_requests_close(&q);
    return again;
}

/* A signal has asked the job to end, and a rank has failed. */
static void say_asked(restarting *r, const launch_attempt *a, int number)
{
    uint32_t pause;
    (void)launch_restarts_next(&r->by, a, &pause);
    log_line(WEFT_LOG_WARN, "the job is not started again: %s has asked it to end",
             job_stop_name(number));
}

int cli_attempts_run(const cli_attempts *args)
{
    restarting r = {.a = args, .ranks = args->ranks, .number = 1};
    r.by.max = args->max;
    r.by.least = args->least;
    int status = 1;
    for (bool again = true; again;) {
        launch_end end;
        launch_attempt a;
        uint32_t lost;
        status = attempt(&r, &end, &a, &lost);
        if (r.by.furthest || a.step)
            job_stop_later_attempt();
        again = end.failed && args->max && go_on(&r, &a, lost);
        if (args->max && end.status == 1 && end.asked)
            say_asked(&r, &a, end.asked);
    }
    if (args->max && status == 1)
        launch_restarts_print(&r.by);
    if (job_agreement_asks(r.asked))
        status = STOP_STATUS;
    launch_restarts_free(&r.by);
    return status;
}
