/* job/launch/launch.c: see launch.h. It joins three parts: group.h has the processes, requests.h
 * the signals, outcome.h decides. */
#include "job/launch/launch.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "job/launch/group.h"
#include "job/launch/requests.h"

typedef struct launch {
    job_group *group;
    job_outcome *outcome;
    job_requests requests;
} launch;

bool job_launch_say(const char *text)
{
    return job_control_send(job_control_descriptor(), CONTROL_SAY, 0, 0, text);
}

static void heard(void *user, uint32_t rank, const job_control_record *r)
{
    job_outcome_hear(((launch *)user)->outcome, rank, r);
}

static void ended(void *user, uint32_t rank, const job_control_record *end)
{
    launch *l = user;
    if (job_outcome_end(l->outcome, rank, end))
        job_group_tell(l->group, end);
}

static void gone(void *user, uint32_t rank)
{
    job_outcome_gone(((launch *)user)->outcome, rank);
}

static void on_signal(launch *l)
{
    switch (job_requests_take(&l->requests)) {
    case REQUEST_PAUSE:
        job_group_signal(l->group, SIGSTOP);
        job_requests_pause();
        job_group_signal(l->group, SIGCONT);
        break;
    case REQUEST_KILL:
        job_outcome_killed(l->outcome, true);
        job_group_kill(l->group, true);
        break;
    case REQUEST_PASS: job_group_signal(l->group, l->requests.asked); break;
    case REQUEST_NONE: break;
    }
}

static void stand_by(launch *l)
{
    while (job_group_alive(l->group)) {
        if (job_group_wait(l->group, l->requests.fd, job_outcome_wait(l->outcome, clock_ms())))
            on_signal(l);
        if (job_outcome_due(l->outcome, clock_ms()))
            job_group_kill(l->group, false);
    }
}

static weft_status start(launch *l, const job_launch_args *args)
{
    spawn_job s = {.ranks = args->ranks,
                   .count = args->ranks,
                   .argv = args->argv,
                   .attempt = args->attempt,
                   .progress_fd = job_progress_fd(args->progress)};
    weft_status st = job_requests_open(&l->requests, args->stops);
    if (st == WEFT_OK)
        st = job_spawn_open(&s);
    if (st != WEFT_OK)
        return st;
    s.mask = &l->requests.of_ranks;
    return job_group_start(&s, &(job_group_events){l, heard, ended, gone}, &l->group);
}

void job_launch(const job_launch_args *args, job_launch_end *out)
{
    const uint32_t ranks = args->ranks;
    *out = (job_launch_end){.status = 2};
    if (!ranks || ranks > LAUNCH_MAX) {
        log_line(WEFT_LOG_ERROR, "cannot start %u ranks on one machine: 1 to %d can be", ranks,
                 LAUNCH_MAX);
        return;
    }
    launch l = {.outcome = job_outcome_new(ranks), .requests = {.fd = -1}};
    weft_status st = start(&l, args);
    if (st != WEFT_OK)
        log_line(WEFT_LOG_ERROR, "%s", err_text());
    if (st != WEFT_OK && l.group) {
        job_outcome_killed(l.outcome, false);
        job_group_kill(l.group, true);
    }
    if (l.group)
        stand_by(&l);
    if (st == WEFT_OK)
        job_outcome_conclude(l.outcome, l.requests.asked, out);
    else
        out->status = 1;
    job_group_free(l.group);
    job_outcome_free(l.outcome);
    job_requests_close(&l.requests);
}

int job_launch_ranks(uint32_t ranks, char *const argv[], bool stops)
{
    job_launch_end end;
    job_launch(&(job_launch_args){.ranks = ranks, .argv = argv, .stops = stops}, &end);
    return end.status;
}
