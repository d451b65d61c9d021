/* launch/launch.c: see launch.h. It joins three parts: group.h has the processes, requests.h
 * the signals, outcome.h decides. */
#include "launch/launch.h"

#include "base/err.h"
#include "base/log.h"
#include "base/time/pressure.h"
#include "launch/group.h"
#include "launch/requests.h"
#include "launch/vigil.h"

typedef struct launch {
    launch_group *group;
    launch_outcome *outcome;
    launch_requests requests;
    const launch_progress *progress; /* of several ranks; NULL: none */
    launch_vigil vigil;
} launch;

static void on_record(void *user, uint32_t rank, const job_control_record *r)
{
    launch_outcome_receive(((launch *)user)->outcome, rank, r);
}

static void ended(void *user, uint32_t rank, const job_control_record *end)
{
    launch *l = user;
    if (launch_outcome_end(l->outcome, rank, end))
        launch_group_tell(l->group, end);
}

static void gone(void *user, uint32_t rank)
{
    launch_outcome_gone(((launch *)user)->outcome, rank);
}

static void on_signal(launch *l)
{
    switch (launch_requests_take(&l->requests)) {
    case REQUEST_PAUSE:
        launch_group_signal(l->group, SIGSTOP);
        launch_requests_pause();
        launch_group_signal(l->group, SIGCONT);
        break;
    case REQUEST_KILL:
        launch_outcome_killed(l->outcome, true);
        launch_group_kill(l->group, true);
        break;
    case REQUEST_PASS: launch_group_signal(l->group, l->requests.asked); break;
    case REQUEST_NONE: break;
    }
}

/* Who is frozen is what the others see; all together are frozen for nobody but this process. */
static void end_if_frozen(launch *l)
{
    char text[200];
    if (launch_vigil_frozen(&l->vigil, l->progress, text, sizeof text))
        launch_outcome_frozen(l->outcome, text);
}

static void stand_by(launch *l)
{
    while (launch_group_alive(l->group)) {
        int ms = launch_outcome_wait(l->outcome, pressure_ms());
        if (l->progress && (ms < 0 || ms > LAUNCH_VIGIL_MS))
            ms = LAUNCH_VIGIL_MS;
        if (launch_group_wait(l->group, l->requests.fd, ms))
            on_signal(l);
        if (l->progress)
            end_if_frozen(l);
        if (launch_outcome_due(l->outcome, pressure_ms()))
            launch_group_kill(l->group, false);
    }
}

static weft_status start(launch *l, const launch_args *args)
{
    launch_spawn s = {.ranks = args->ranks,
                      .count = args->ranks,
                      .argv = args->argv,
                      .attempt = args->attempt,
                      .progress_fd = launch_progress_fd(args->progress)};
    weft_status st = launch_requests_open(&l->requests, args->stops);
    if (st == WEFT_OK)
        st = launch_spawn_open(&s);
    if (st != WEFT_OK)
        return st;
    s.mask = &l->requests.of_ranks;
    return launch_group_start(&s, &(launch_group_events){l, on_record, ended, gone}, &l->group);
}

void launch_job(const launch_args *args, launch_end *out)
{
    const uint32_t ranks = args->ranks;
    *out = (launch_end){.status = 2};
    if (!ranks || ranks > LAUNCH_MAX) {
        log_line(WEFT_LOG_ERROR, "cannot start %u ranks on one machine: 1 to %d can be", ranks,
                 LAUNCH_MAX);
        return;
    }
    launch l = {.outcome = launch_outcome_new(ranks),
                .requests = {.fd = -1},
                .progress = ranks > 1 ? args->progress : NULL,
                .vigil = {.margin_ms = LAUNCH_VIGIL_MARGIN_MS}};
    weft_status st = start(&l, args);
    if (st != WEFT_OK)
        log_line(WEFT_LOG_ERROR, "%s", err_text());
    if (st != WEFT_OK && l.group) {
        launch_outcome_killed(l.outcome, false);
        launch_group_kill(l.group, true);
    }
    if (l.group)
        stand_by(&l);
    if (st == WEFT_OK)
        launch_outcome_conclude(l.outcome, l.requests.asked, launch_progress_asked(args->progress),
                                out);
    else
        out->status = 1;
    launch_group_free(l.group);
    launch_outcome_free(l.outcome);
    launch_requests_close(&l.requests);
}

int launch_ranks(uint32_t ranks, char *const argv[], bool stops)
{
    launch_end end;
    launch_job(&(launch_args){.ranks = ranks, .argv = argv, .stops = stops}, &end);
    return end.status;
}
