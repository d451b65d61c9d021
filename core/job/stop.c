/* job/stop.c: see stop.h. All that takes a job is called under its lock, but for stop_before(). */
#define _GNU_SOURCE
#include "job/stop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "job/server.h"

#define AGREE_MS                                                                                   \
    5000 /* the agreement may take that much longer than it takes to notice a death                \
          */

static _Atomic int asked, interrupted, declared;
static atomic_bool at_once, has_launcher;
static _Atomic uint64_t asked_at;

/* --- signals; only what is safe in a handler --- */

static void end_by(int number)
{
    signal(number, SIG_DFL);
    raise(number); /* is delivered when the handler returns */
}

static _Noreturn void end_now(void)
{
    static const char text[] = "weft warn: stopped by a signal before the first step; nothing is "
                               "lost: start it again in the same way\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(STOP_STATUS);
}

static uint64_t handler_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void on_signal(int number)
{
    uint64_t now = handler_ms();
    int before = atomic_load(&asked);
    bool launched = atomic_load(&has_launcher);
    if (number == SIGINT) {
        if (atomic_load(&at_once) || (!launched && (before || atomic_load(&interrupted))))
            end_by(number);
        atomic_store(&interrupted, 1);
        return;
    }
    if (atomic_load(&at_once))
        end_now();
    if (before == SIGTERM && number == SIGTERM) {
        if (!launched && now - atomic_load(&asked_at) >= STOP_SAME_MS)
            end_by(number);
        return;
    }
    if (!before || number == SIGTERM) {
        atomic_store(&asked_at, now);
        atomic_store(&asked, number);
    }
}

void stop_catch(bool launched)
{
    static const int numbers[] = {SIGTERM, SIGUSR1, SIGINT};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&act.sa_mask, numbers[i]);
    atomic_store(&has_launcher, launched);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &act, NULL);
    pthread_sigmask(SIG_UNBLOCK, &act.sa_mask, NULL);
}

void stop_at_once(bool on)
{
    atomic_store(&at_once, on);
    if (on && atomic_load(&asked))
        end_now();
}

int stop_asked(void)
{
    return atomic_load_explicit(&asked, memory_order_relaxed);
}

bool stop_interrupted(void)
{
    return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

int stop_declared(void)
{
    return atomic_load(&declared);
}

const char *stop_name(int number)
{
    return number == SIGTERM ? "SIGTERM" : number == SIGUSR1 ? "SIGUSR1" : "a signal";
}

/* --- the agreement --- */

static void stop_all_waits(job *j)
{
    char text[JOB_TEXT];
    if (atomic_load(&j->failed))
        return;
    snprintf(text, sizeof text,
             "the job was stopped by %s before its first step; nothing is lost: it can be started "
             "again in the same way",
             stop_name(j->halt.number));
    atomic_store(&declared, j->halt.number ? j->halt.number : SIGTERM);
    j->halt.since = clock_ms();
    job_note_failure(j, text);
}

/* All ranks know the last step. */
static void settle(job *j, uint64_t last)
{
    j->halt.settled = true;
    if (!last) {
        stop_all_waits(j);
        return;
    }
    atomic_store(&j->halt.last, last);
    pthread_cond_broadcast(&j->moved);
}

static void hold(job *j, int number)
{
    j->halt.number = number;
    j->halt.held = true;
    atomic_store(&j->halt.last, 0);
}

/* Rank 0: `number` asks for a stop, here or at another rank. */
static void begin(job *j, int number)
{
    if (j->halt.held || atomic_load(&j->failed))
        return;
    member *own = &j->server->members[0];
    hold(j, number == SIGUSR1 ? SIGUSR1 : SIGTERM);
    own->held = true;
    own->begun = atomic_load(&j->halt.begun);
    for (uint32_t r = 1; r < j->who.ranks; r++) {
        member *m = &j->server->members[r];
        if (m->p && !m->bye)
            wire_send(&m->p->w, WIRE_HOLD, (uint32_t)j->halt.number, 0, NULL, 0);
    }
    job_wake(j);
}

/* Rank 0: have all answered? One that has said goodbye had no step left: then nobody stops. */
static void conclude(job *j)
{
    uint64_t last = 0;
    for (uint32_t r = 0; r < j->who.ranks; r++) {
        const member *m = &j->server->members[r];
        if (!m->joined)
            continue; /* then no rank has begun a step */
        if (!m->bye && !m->held)
            return;
        uint64_t own = m->bye ? UINT64_MAX : m->begun;
        last = own > last ? own : last;
    }
    uint8_t body[8];
    wire_put64(body, last);
    for (uint32_t r = 1; r < j->who.ranks; r++)
        if (j->server->members[r].p)
            wire_send(&j->server->members[r].p->w, WIRE_LAST, (uint32_t)j->halt.number, 0, body,
                      sizeof body);
    settle(j, last);
    job_wake(j);
}

bool stop_from_rank(job *j, uint32_t rank, const wire_frame *f)
{
    member *m = &j->server->members[rank];
    if (f->type == WIRE_STOP) {
        begin(j, (int)f->arg);
        return f->bytes == 0;
    }
    if (f->bytes != 8 || !j->halt.held)
        return false;
    m->held = true;
    m->begun = wire_get64(f->body);
    return true;
}

bool stop_from_store(job *j, const wire_frame *f)
{
    if (f->type == WIRE_HOLD && f->bytes == 0) {
        uint8_t body[8];
        hold(j, f->arg == SIGUSR1 ? SIGUSR1 : SIGTERM);
        wire_put64(body, atomic_load(&j->halt.begun));
        client_send(j, WIRE_HELD, 0, body, sizeof body);
        return true;
    }
    if (f->type != WIRE_LAST || f->bytes != 8)
        return false;
    if (!j->halt.held)
        hold(j, f->arg == SIGUSR1 ? SIGUSR1 : SIGTERM);
    settle(j, wire_get64(f->body));
    return true;
}

void stop_tick(job *j)
{
    int number = stop_asked();
    if (number && !j->halt.told && !atomic_load(&j->failed)) {
        j->halt.told = true;
        if (j->server)
            begin(j, number);
        else
            client_send(j, WIRE_STOP, (uint32_t)number, NULL, 0);
    }
    if (j->server && j->halt.held && !j->halt.settled && !atomic_load(&j->failed))
        conclude(j);
    if (j->halt.since && !j->leaving && clock_ms() - j->halt.since > STOP_GRACE_MS) {
        log_line(WEFT_LOG_WARN, "%s", j->failure);
        _exit(STOP_STATUS);
    }
}

void stop_alone(job *j, int number)
{
    j->halt.number = number;
    stop_all_waits(j);
}

/* --- the rank's own steps --- */

static weft_status wait_settled(job *j, uint64_t step, int *number)
{
    weft_status status = WEFT_OK;
    uint64_t until = clock_ms() + j->silence_ms + AGREE_MS, last;
    pthread_mutex_lock(&j->lock);
    while (!(last = atomic_load(&j->halt.last)) && !atomic_load(&j->failed) &&
           job_wait_moved(j, until))
        continue;
    if (atomic_load(&j->failed))
        status = job_fail_here(j);
    else if (!last)
        status = fail(WEFT_PEER, "the ranks did not agree on the last step after %s",
                      stop_name(j->halt.number));
    else if (step > last)
        *number = j->halt.number;
    pthread_mutex_unlock(&j->lock);
    return status;
}

weft_status stop_before(job *j, uint64_t step, int *number)
{
    *number = 0;
    if (!j) {
        *number = stop_asked();
        return WEFT_OK;
    }
    atomic_exchange(&j->halt.begun, step); /* before the load, for every other thread */
    if (step <= atomic_load(&j->halt.last))
        return WEFT_OK;
    return wait_settled(j, step, number);
}
