/* job/leave.c: the end of a rank: job_leave(), and the end from a thread of another module. */
#define _GNU_SOURCE
#include "job/job.h"

#include <stdio.h>

#include "base/err.h"
#include "base/time/within.h"
#include "host/watch.h"
#include "job/control/control.h"
#include "job/mailbox.h"
#include "job/roles.h"

#define TELL_MS 2000
#define LOCK_MS 1000 /* the job's lock is held for moments only */

void job_part(job *j)
{
    if (j->running) {
        pthread_mutex_lock(&j->lock);
        j->stop = true;
        pthread_mutex_unlock(&j->lock);
        job_wake(j);
        pthread_join(j->thread, NULL);
        j->running = false;
    }
    if (j->server)
        job_server_free(j);
    if (j->client)
        job_client_free(j);
}

/* Rank 0 knows that the job cannot begin, and its ranks connect one by one: those that connect
 * within this time get the reason, instead of a timeout. Under our launcher, the launcher tells
 * them. */
static void wait_notified(job *j)
{
    uint64_t until = awake_ms() + TELL_MS;
    while (j->server && j->running && !j->joined && j->control_fd < 0 &&
           !job_server_all_notified(j) && job_wait_moved(j, until))
        continue;
}

static void wait_parted(job *j)
{
    uint64_t until = awake_ms() + 2000;
    while (j->server && j->running && !j->parted && job_wait_moved(j, until))
        continue;
}

/* Say what failed here and see it off. A rank that gave up because of another one leaves room for
 * the better explanation when it is the judge itself. */
static void leave_badly(job *j, weft_status st, const char *text)
{
    char full[JOB_CAUSE_TEXT];
    snprintf(full, sizeof full, "rank %u failed: %.900s", j->who.rank, text);
    if (!atomic_load(&j->failed)) {
        job_control_send(j->control_fd, CONTROL_STATUS, j->who.rank, (uint32_t)err_exit_code(st),
                         "");
        job_control_send(j->control_fd, CONTROL_CAUSE, j->who.rank,
                         st == WEFT_PEER ? JOB_CAUSE_SECOND : JOB_CAUSE_SURE, full);
    }
    if (j->server && j->running)
        job_server_bye(j, 0, st, text);
    else if (j->client)
        job_client_bye(j, st, text);
    uint64_t until = awake_ms() + 500;
    while (j->server && j->running && !atomic_load(&j->failed) && job_wait_moved(j, until))
        continue;
    until = awake_ms() + 250;
    while (j->running && !j->drained && job_wait_moved(j, until))
        continue;
}

static bool leave_well(job *j)
{
    if (j->server)
        job_server_bye(j, 0, WEFT_OK, "");
    else
        job_client_bye(j, WEFT_OK, "");
    uint64_t until = awake_ms() + (uint64_t)(LEAVE_SECONDS * 1000);
    while (!j->all_left && !atomic_load(&j->failed) && job_wait_moved(j, until))
        continue;
    if (j->all_left)
        wait_parted(j);
    else if (atomic_load(&j->failed))
        (void)job_fail_here(j);
    else
        (void)err_fail(WEFT_PEER, "not all ranks have finished %.0f s after this one",
                       LEAVE_SECONDS);
    return j->all_left;
}

bool job_leave(job *j, weft_status st, const char *text)
{
    if (!j)
        return st == WEFT_OK;
    pthread_mutex_lock(&j->lock);
    const bool failed = atomic_load(&j->failed);
    bool good = st == WEFT_OK && !failed;
    j->leaving = true;
    if (good)
        good = leave_well(j);
    else if (st != WEFT_OK)
        leave_badly(j, st, text ? text : "");
    else
        (void)job_fail_here(j);
    if (failed)
        wait_notified(j);
    pthread_mutex_unlock(&j->lock);
    job_part(j);
    return good;
}

/* --- a plugin that does not return (host/watch.h) --- */

static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static job *current; /* that the process is a rank of */

/* The thread that would report this rank's failure is inside the plugin: the watchdog's thread does
 * so instead. It keeps current_lock, so that no other one frees the job before the process ends. */
static bool report_for(const char *text)
{
    pthread_mutex_lock(&current_lock);
    if (current && within_lock(&current->lock, LOCK_MS)) {
        if (!current->leaving && !atomic_load(&current->failed)) {
            current->leaving = true;
            leave_badly(current, WEFT_INTERNAL, text);
        }
        pthread_mutex_unlock(&current->lock);
    }
    return job_control_send(job_control_descriptor(), CONTROL_SAY, 0, 0, text);
}

void job_remember(job *j)
{
    pthread_mutex_lock(&current_lock);
    current = j;
    pthread_mutex_unlock(&current_lock);
    host_watch_report_to(report_for);
}

void job_forget(job *j)
{
    pthread_mutex_lock(&current_lock);
    if (current == j)
        current = NULL;
    pthread_mutex_unlock(&current_lock);
}
