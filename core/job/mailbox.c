/* job/mailbox.c: see mailbox.h. */
#define _GNU_SOURCE
#include "job/mailbox.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "job/control/alive.h"
#include "job/control/progress.h"

#define TURN_NS 100000

/* --- waking and waiting --- */

void job_notify(job *j)
{
    pthread_cond_broadcast(&j->moved);
}

bool job_wait_moved(job *j, uint64_t until)
{
    uint64_t now = awake_ms();
    if (now >= until)
        return false;
    uint64_t ns = clock_ns() + (until - now) * 1000000;
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    pthread_cond_timedwait(&j->moved, &j->lock, &t);
    return true;
}

void job_wake(job *j)
{
    uint64_t one = 1;
    if (j->wake_fd >= 0 && write(j->wake_fd, &one, sizeof one) < 0)
        return; /* its counter is full: the thread is already woken */
}

void job_answer(job *j, uint32_t seq, weft_status st, const void *bytes, uint64_t n)
{
    job_mailbox *b = &j->box;
    if (!b->waits || b->done || b->seq != seq)
        return; /* the caller has stopped waiting for it */
    b->bytes = mem_alloc(n + 1);
    if (n)
        memcpy(b->bytes, bytes, n);
    b->n = n;
    b->status = st;
    b->done = true;
    job_notify(j);
}

/* --- failure --- */

void job_record_failure(job *j, const char *text)
{
    snprintf(j->failure, sizeof j->failure, "%s", text);
    atomic_store_explicit(&j->failed, 1, memory_order_release);
    job_notify(j);
}

bool job_record_cause(job *j, uint32_t rank, const char *text, const char *own)
{
    if (atomic_load_explicit(&j->failed, memory_order_relaxed))
        return false;
    job_record_failure(j, text);
    job_progress_fail(text, own);
    job_control_send(j->control_fd, CONTROL_CAUSE, rank, JOB_CAUSE_SURE, text);
    return true;
}

weft_status job_fail_here(job *j)
{
    return err_fail(WEFT_PEER, "%s", j->failure);
}

job_view job_view_now(job *j)
{
    return (job_view){.rank = j->who.rank,
                      .ranks = j->who.ranks,
                      .rank0 = j->server,
                      .launched = j->control_fd >= 0,
                      .failed = atomic_load_explicit(&j->failed, memory_order_relaxed) != 0,
                      .all_left = j->all_left,
                      .stop_agreed = j->halt.agreed,
                      .begun = atomic_load(&j->halt.begun) != 0,
                      .now = awake_ms()};
}

void job_add_sign(job *j, uint32_t rank, uint32_t weight, const char *text)
{
    const job_view v = job_view_now(j);
    job_sign s = j->sign_of(j, rank);
    s.weight = weight;
    s.text = text;
    const job_event e = job_failure_sign(&j->candidate, &v, &s);
    j->act(j, &e);
}

void job_check_due(job *j)
{
    const job_view v = job_view_now(j);
    const job_event e = job_failure_due(&j->candidate, &v);
    j->act(j, &e);
}

void job_request_stop(job *j, int number)
{
    const job_view v = job_view_now(j);
    const job_event e = job_agreement_request(&j->halt, &v, number);
    j->act(j, &e);
}

void job_read_launcher(job *j)
{
    job_control_record r;
    int got = 0;
    while (j->control_fd >= 0 && (got = job_control_receive(j->control_fd, &r)) > 0) {
        const job_view v = job_view_now(j);
        const job_sign s = j->sign_of(j, r.rank);
        const job_event e = job_failure_ended(&j->candidate, &v, &r, &s);
        j->act(j, &e);
    }
    if (got >= 0)
        return;
    j->control_fd = -1;
    j->act(j, &(job_event){.kind = JOB_EVENT_FAILURE,
                           .rank = j->who.rank,
                           .text = "the launcher of this job has ended"});
}

/* --- the thread --- */

/* Where hundreds of threads wait for a core, this one must not wait for its turn among them: it
 * would seem frozen, and rank 0's serves all ranks. It mostly sleeps. So it goes before others as
 * far as the system permits (root, or RLIMIT_NICE), and asks for short turns, which kernels
 * before 6.12 ignore. */
static void take_precedence(bool rank0)
{
    struct { /* struct sched_attr; its header and the C library's do not go together */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } a = {.size = sizeof a};
    struct rlimit limit;
    const id_t self = (id_t)gettid();
    const int want = rank0 ? -20 : -10;
    if (setpriority(PRIO_PROCESS, self, want) && !getrlimit(RLIMIT_NICE, &limit) && limit.rlim_cur)
        (void)setpriority(PRIO_PROCESS, self, 20 - (int)limit.rlim_cur);
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || a.policy != SCHED_OTHER)
        return;
    a.flags = 0;
    a.runtime = TURN_NS;
    (void)!syscall(SYS_sched_setattr, 0, &a, 0);
}

/* The thread holds this rank's futex word while it runs: that is how the launcher detects a death
 * first (control/alive.h). */
static void *keep_in_touch(void *arg)
{
    job *j = arg;
    job_alive_hold hold;
    take_precedence(j->server != NULL);
    job_alive_take_hold(&hold, j->who.rank, j->who.ranks);
    void *result = j->body(j);
    job_progress_sign(0, true);
    job_alive_release(&hold);
    return result;
}

weft_status job_start_thread(job *j, void *(*body)(void *))
{
    j->body = body;
    const int error = thread_start(&j->thread, "weft-job", keep_in_touch, j);
    if (error)
        return err_fail(WEFT_IO, "rank %u cannot start the thread that keeps in touch: %s",
                        j->who.rank, strerror(error));
    j->running = true;
    return WEFT_OK;
}

/* --- the ranks of this host --- */

void job_set_locality(job *j, const job_identity *who)
{
    pthread_mutex_lock(&j->lock);
    memcpy(j->who.address, who->address, sizeof j->who.address);
    pthread_mutex_unlock(&j->lock);
    j->who.local_rank = who->local_rank;
    j->who.local_ranks = who->local_ranks;
    j->who.one_machine = who->one_machine;
}

void job_get_address(job *j, job_identity *who)
{
    pthread_mutex_lock(&j->lock);
    memcpy(who->address, j->who.address, sizeof who->address);
    who->address_said = j->who.address_said;
    pthread_mutex_unlock(&j->lock);
}
