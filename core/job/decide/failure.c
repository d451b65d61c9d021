/* job/decide/failure.c: from signs to one record that every rank agrees on.
 *
 * Rank 0's thread judges the others and tells everybody; the others judge rank 0 alone, and pass on
 * what the launcher says of another rank only if rank 0 has not said it first (it knows how far
 * that rank had come). The first record stands for good. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "job/launch/control.h"
#include "job/state.h"
#include "job/stop.h"

void job_wake(job *j)
{
    uint64_t one = 1;
    if (j->wake_fd >= 0 && write(j->wake_fd, &one, sizeof one) < 0)
        return; /* its counter is full: the thread is woken already */
}

void job_answer(job *j, uint32_t seq, weft_status status, const void *bytes, uint64_t n)
{
    mailbox *b = &j->box;
    if (!b->waits || b->done || b->seq != seq)
        return; /* the caller has given up on it */
    b->bytes = mem_alloc(n + 1);
    if (n)
        memcpy(b->bytes, bytes, n);
    b->n = n;
    b->status = status;
    b->done = true;
    pthread_cond_broadcast(&j->moved);
}

void job_place(uint64_t step, uint64_t place, char *out, uint32_t bytes)
{
    if (step || place)
        snprintf(out, bytes, "; last seen at step %llu, place %llu", (unsigned long long)step,
                 (unsigned long long)place);
    else
        snprintf(out, bytes, "; it had told of no step yet");
}

void job_note_failure(job *j, const char *text)
{
    snprintf(j->failure, sizeof j->failure, "%s", text);
    atomic_store_explicit(&j->failed, 1, memory_order_release);
    uint64_t one = 1;
    if (write(j->failure_fd, &one, sizeof one) < 0)
        log_line(WEFT_LOG_WARN, "a failure could not be signalled to waiting threads");
    pthread_cond_broadcast(&j->moved);
}

void job_declare(job *j, uint32_t rank, const char *text)
{
    if (atomic_load_explicit(&j->failed, memory_order_relaxed))
        return;
    job_note_failure(j, text);
    control_send(j->control_fd, CONTROL_BLAME, rank, BLAME_SURE, text);
    if (j->server)
        server_broadcast(j, rank, text);
}

void job_suspect(job *j, uint32_t rank, uint32_t weight, const char *text)
{
    if (atomic_load_explicit(&j->failed, memory_order_relaxed) || j->all_left)
        return;
    char full[BLAME_TEXT], place[96] = "";
    uint64_t step = 0, at = 0;
    if (weight != BLAME_SECOND) {
        bool met = j->server ? server_seen(j, rank, &step, &at) : client_seen(j, rank, &step, &at);
        if (met)
            job_place(step, at, place, sizeof place);
        else if (j->server || !rank)
            snprintf(place, sizeof place, ", before it joined");
    }
    snprintf(full, sizeof full, "rank %u %.900s%s", rank, text, place);
    /* A launcher of ours is about to say why: a process closes its connections before it is dead.
     */
    uint64_t more = weight == BLAME_GONE && j->control_fd >= 0 ? 300 : 0;
    blame_add(&j->suspect, rank, weight, clock_ms() + more, full);
    job_judge(j);
}

void job_judge(job *j)
{
    if (blame_due(&j->suspect, clock_ms()) && !j->all_left)
        job_declare(j, j->suspect.rank, j->suspect.text);
}

/* Does it tell anything new that `rank` ended by itself? The store knows who has said goodbye; the
 * others leave it to the store, unless it is rank 0 or the status is bad. */
static bool news(job *j, const control_record *r)
{
    return j->server ? !server_left(j, r->rank) : !r->rank || r->code;
}

static void hear(job *j, const control_record *r)
{
    if (r->rank >= j->who.ranks || r->rank == j->who.rank)
        return;
    if (r->kind == CONTROL_ENDED && !news(j, r))
        return;
    bool stopped = r->kind == CONTROL_ENDED && r->code == STOP_STATUS;
    if (stopped && j->halt.settled)
        return; /* as all ranks do */
    if (stopped && !atomic_load(&j->halt.begun)) {
        stop_alone(j, stop_asked()); /* it could not take part in an agreement */
        return;
    }
    char cause[128];
    control_cause(r, cause, sizeof cause);
    bool judge = j->server || !r->rank;
    job_suspect(j, r->rank, r->kind == CONTROL_KILLED && judge ? BLAME_SURE : BLAME_ENDED, cause);
}

void job_hear_launcher(job *j)
{
    control_record r;
    int got = 0;
    while (j->control_fd >= 0 && (got = control_receive(j->control_fd, &r)) > 0)
        if (r.kind == CONTROL_ENDED || r.kind == CONTROL_KILLED)
            hear(j, &r);
    if (got < 0) {
        j->control_fd = -1;
        job_declare(j, j->who.rank, "the launcher of this job has ended");
    }
}

weft_status job_fail_here(job *j)
{
    return fail(WEFT_PEER, "%s", j->failure);
}
