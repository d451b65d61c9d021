/* comm/progress.c: the progress thread, and how threads wait.
 *
 * The progress thread sleeps until it is woken, takes the progress lock, and moves bytes until
 * nothing is in flight or the compute thread wants the progress lock. The compute thread moves
 * bytes itself while it waits: a message then costs no thread switch.
 *
 * Without progress, the compute thread polls first, because most messages arrive soon; then it
 * sleeps in the link. Where ranks outnumber cores, it yields its core between polls, because the
 * rank that it waits for may need one (base/time/yield.h), and sleeps at once while that is costly.
 * The progress thread runs beside a computing thread and sleeps at once. */
#include "base/clock.h"
#include "base/err.h"
#include "base/time/awake.h"
#include "base/time/yield.h"
#include "comm/engine.h"
#include "host/watch.h"

#define AWAKE_NS 200000u /* polling and yielding before the first sleep */
#define LOOK_EVERY 64u   /* idle polls between two checks of the clock and of other ranks */
#define LOOK_US 50u      /* longest sleep while a device has work in flight */
#define SLEEP_US 10000u  /* longest sleep between two checks of other ranks */

static void sleep_in_link(comm_link *l, int walking, uint64_t deadline_ns, weft_status *st)
{
    uint64_t now = awake_ns(), us = SLEEP_US;
    for (uint32_t i = 0; i < l->actives; i++)
        if (l->active[i]->kind->on_device)
            us = LOOK_US;
    if (deadline_ns < now + us * 1000)
        us = deadline_ns > now ? (deadline_ns - now) / 1000 : 0;
    atomic_store(&l->asleep, 1);
    int wanted = !walking && (atomic_load(&l->claimed) || atomic_load(&l->stop));
    int handed = atomic_load(&l->handed_in) != atomic_load(&l->handed_out);
    if (!wanted && !handed)
        *st = PLUGIN_CALL(l->table, wait, l->link, 0, (uint32_t)us, 0);
    atomic_store(&l->asleep, 0);
}

static weft_status look_around(comm_link *l)
{
    comm_world *w = l->world;
    weft_status st = comm_world_failed(w);
    if (st == WEFT_OK && job_failure(w->job) != WEFT_OK) {
        comm_op *op = l->actives ? l->active[0] : NULL;
        if (op)
            comm_op_put_name(op);
        st = comm_world_fail(w, WEFT_PEER);
    }
    return st;
}

weft_status comm_link_idle(comm_link *l, comm_idle *state, int walking, uint64_t deadline_ns)
{
    state->spins++;
    bool stays = walking;
    if (walking && l->world->oversubscribed)
        stays = yield_core(&l->no_yield_ns);
    else if (walking)
        clock_pause();
    if (stays) {
        if (state->spins % LOOK_EVERY)
            return WEFT_OK;
        uint64_t now = clock_ns();
        if (state->since == 0)
            state->since = now;
        if (now - state->since < AWAKE_NS) {
            weft_status st = look_around(l);
            return st == WEFT_OK ? WEFT_BUSY : st;
        }
    }
    weft_status st = look_around(l), slept = WEFT_OK;
    if (st != WEFT_OK)
        return st;
    sleep_in_link(l, walking, deadline_ns, &slept);
    if (slept == WEFT_OK || slept == WEFT_BUSY)
        return WEFT_BUSY;
    return l->actives ? comm_op_fail(l->active[0], l->active[0]->program.lane[0].peer, slept)
                      : comm_world_fail(l->world, slept);
}

/* Failures of the progress thread are stored in the world's record, which the compute thread
 * reads. */
static void move(comm_link *l)
{
    comm_idle state = {0};
    pthread_mutex_lock(&l->progress_lock);
    call_site_enter(l->site);
    while (!atomic_load(&l->stop) && !atomic_load(&l->claimed) && comm_link_has_work(l) &&
           atomic_load(&l->world->failed) == WEFT_OK) {
        int moved;
        if (comm_link_advance(l, &moved) != WEFT_OK)
            break;
        if (moved)
            state = (comm_idle){0};
        else if (comm_link_has_work(l) && comm_link_idle(l, &state, 0, UINT64_MAX) > WEFT_BUSY)
            break;
    }
    pthread_mutex_unlock(&l->progress_lock);
    call_site_count(l->site);
}

static void *progress_main(void *arg)
{
    comm_link *l = arg;
    for (;;) {
        pthread_mutex_lock(&l->park);
        atomic_store(&l->parked, 1);
        while (!atomic_load(&l->kicked) && !atomic_load(&l->stop))
            pthread_cond_wait(&l->unpark, &l->park);
        atomic_store(&l->parked, 0);
        atomic_store(&l->kicked, 0);
        pthread_mutex_unlock(&l->park);
        if (atomic_load(&l->stop))
            return NULL;
        move(l);
    }
}

void comm_progress_kick(comm_link *l)
{
    atomic_store(&l->kicked, 1);
    if (atomic_load(&l->parked)) {
        pthread_mutex_lock(&l->park);
        pthread_cond_signal(&l->unpark);
        pthread_mutex_unlock(&l->park);
    } else if (atomic_load(&l->asleep)) {
        PLUGIN_DO(l->table, wake, l->link);
    }
}

weft_status comm_progress_begin(comm_link *l)
{
    l->site = host_sites_new(1);
    if (pthread_create(&l->progress_thread, NULL, progress_main, l) != 0)
        return err_fail_errno(WEFT_NO_MEMORY, "link %s: no thread for moving bytes",
                              l->component->name);
    l->has_progress_thread = 1;
    return WEFT_OK;
}

static void end_thread(comm_link *l)
{
    atomic_store(&l->stop, 1);
    pthread_mutex_lock(&l->park);
    pthread_cond_signal(&l->unpark);
    pthread_mutex_unlock(&l->park);
    if (atomic_load(&l->asleep))
        PLUGIN_DO(l->table, wake, l->link);
    pthread_join(l->progress_thread, NULL);
    l->has_progress_thread = 0;
}

void comm_progress_end(comm_link *l)
{
    if (l->has_progress_thread)
        end_thread(l);
    host_sites_free(l->site);
    l->site = NULL;
}

/* Usually the progress thread is idle and the progress lock is free. */
void comm_link_claim(comm_link *l)
{
    if (pthread_mutex_trylock(&l->progress_lock) == 0)
        return;
    atomic_store(&l->claimed, 1);
    if (atomic_load(&l->asleep))
        PLUGIN_DO(l->table, wake, l->link);
    pthread_mutex_lock(&l->progress_lock);
    atomic_store(&l->claimed, 0);
}

void comm_link_release(comm_link *l)
{
    int work = comm_link_has_work(l);
    pthread_mutex_unlock(&l->progress_lock);
    if (work)
        comm_progress_kick(l);
}
