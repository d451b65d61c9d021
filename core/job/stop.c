/* job/stop.c: see stop.h. */
#define _GNU_SOURCE
#include "job/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "job/control/progress.h"
#include "job/mailbox.h"

/* timeout of the agreement, beyond the time to detect a death */
#define AGREE_MS 5000

static _Atomic int asked, interrupted, declared, wake = -1;
static atomic_bool at_once, has_launcher, is_later;

/* --- signals; async-signal-safe calls only --- */

static void end_by(int number)
{
    signal(number, SIG_DFL);
    raise(number); /* is delivered when the handler returns */
}

static _Noreturn void end_now(void)
{
    char line[256], *const text = line + strlen(log_time(line));
    const char *end =
        stpcpy(text, atomic_load(&is_later)
                         ? "weft warn: stopped by a signal before the first step of this attempt; "
                           "continue with --resume=auto\n"
                         : "weft warn: stopped by a signal before the first step; nothing is "
                           "lost: start it again with the same command\n");
    log_put(line, (size_t)(end - line));
    _exit(STOP_STATUS);
}

static void wake_thread(void)
{
    const uint64_t one = 1;
    const int fd = atomic_load(&wake), before = errno;
    if (fd >= 0)
        (void)!write(fd, &one, sizeof one);
    errno = before;
}

static void on_signal(int number)
{
    const int before = atomic_load(&asked);
    job_progress_ask(number);
    if (number == SIGINT) {
        const bool again = before || atomic_load(&interrupted);
        if (atomic_load(&at_once) || (again && !atomic_load(&has_launcher)))
            end_by(number);
        atomic_store(&interrupted, 1);
        return;
    }
    if (atomic_load(&at_once))
        end_now();
    if (before)
        return;
    atomic_store(&asked, number);
    wake_thread();
}

void job_stop_wake(int fd)
{
    atomic_store(&wake, fd);
}

/* nohup and shells start a program with signals ignored that it is not to end by */
static bool remains_ignored(int number)
{
    struct sigaction now;
    return (number == SIGHUP || number == SIGXCPU) && !sigaction(number, NULL, &now) &&
           now.sa_handler == SIG_IGN;
}

void job_stop_catch(bool launched)
{
    /* On a stack of its own (host/crash.c): a product of oneDNN may have the stack pointer in
     * memory of the heap, and the kernel would write the interrupted registers there. */
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&act.sa_mask);
    sigaddset(&act.sa_mask, SIGINT);
    job_agreement_add_signals(&act.sa_mask);
    atomic_store(&has_launcher, launched);
    if (job_attempt_number() > 1)
        job_stop_later_attempt();
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&act.sa_mask, number) == 1 && !remains_ignored(number))
            sigaction(number, &act, NULL);
    pthread_sigmask(SIG_UNBLOCK, &act.sa_mask, NULL);
}

void job_stop_later_attempt(void)
{
    atomic_store(&is_later, true);
}

const char *job_stop_advice(void)
{
    return atomic_load(&is_later) ? "this was not its first attempt: continue with --resume=auto"
                                  : "nothing is lost: start it again with the same command";
}

void job_stop_at_once(bool on)
{
    atomic_store(&at_once, on);
    if (on && atomic_load(&asked))
        end_now();
}

int job_stop_asked(void)
{
    return atomic_load_explicit(&asked, memory_order_relaxed);
}

bool job_stop_interrupted(void)
{
    return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

int job_stop_declared(void)
{
    return atomic_load(&declared);
}

const char *job_stop_name(int number)
{
    switch (number) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    case SIGHUP: return "SIGHUP";
    case SIGXCPU: return "SIGXCPU";
    default: return "a signal";
    }
}

/* --- acting on events --- */

static void end_waits(job *j, int number)
{
    char text[JOB_TEXT];
    j->halt.number = number;
    if (atomic_load(&j->failed))
        return;
    snprintf(text, sizeof text, "the job was stopped by %s before its first step; %s",
             job_stop_name(number), job_stop_advice());
    atomic_store(&declared, number ? number : SIGTERM);
    j->halt.since = awake_ms();
    job_record_failure(j, text);
}

void job_stop_unmet(job *j, int number, const char *why)
{
    char text[JOB_TEXT];
    snprintf(text, sizeof text,
             "%s asked the job to stop before it had begun, and %.800s; if one of them failed, its "
             "own message says why",
             job_stop_name(number), why);
    (void)job_record_cause(j, j->who.rank, text, NULL);
}

void job_stop_act(job *j, const job_event *e)
{
    if (e->kind == JOB_EVENT_END_WAITS)
        end_waits(j, e->number ? e->number : job_stop_asked());
    else if (e->kind == JOB_EVENT_LAST)
        job_notify(j);
}

void job_stop_end_overdue(const job *j)
{
    if (!j->halt.since || j->leaving || awake_ms() - j->halt.since <= STOP_GRACE_MS)
        return;
    log_line(WEFT_LOG_WARN, "%s", j->failure);
    _exit(STOP_STATUS);
}

/* --- the steps of this rank --- */

static weft_status wait_agreed(job *j, uint64_t step, int *number)
{
    weft_status st = WEFT_OK;
    uint64_t until = awake_ms() + j->silence_ms + AGREE_MS, last;
    pthread_mutex_lock(&j->lock);
    while (!(last = atomic_load(&j->halt.last)) && !atomic_load(&j->failed) &&
           job_wait_moved(j, until))
        continue;
    if (atomic_load(&j->failed))
        st = job_fail_here(j);
    else if (!last)
        st = err_fail(WEFT_PEER, "the ranks did not agree on the last step after %s",
                      job_stop_name(j->halt.number));
    else if (step > last)
        *number = j->halt.number;
    pthread_mutex_unlock(&j->lock);
    return st;
}

weft_status job_stop_before(job *j, uint64_t step, int *number)
{
    *number = 0;
    if (!j) {
        *number = job_stop_asked();
        return WEFT_OK;
    }
    atomic_exchange(&j->halt.begun, step); /* before the load, in the order that all threads see */
    if (step <= atomic_load(&j->halt.last))
        return WEFT_OK;
    return wait_agreed(j, step, number);
}
