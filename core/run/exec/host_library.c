/* run/exec/host_library.c: see host_library.h.
 *
 * A communicator completes its groups in start order, so a count identifies what is complete: the
 * collective that went into the third group is complete when test() has counted three. */
#define _GNU_SOURCE
#include "run/exec/host_library.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/time/awake.h"
#include "base/time/within.h"
#include "base/time/yield.h"
#include "comm/comm.h"
#include "host/call.h"
#include "host/watch.h"
#include "resolve/topology.h"

#define AWAKE_NS 200000u /* polling and yielding before the first nap */
#define NAP_NS 50000     /* between two polls */

typedef struct host_channel {
    const weft_coll_table *table; /* NULL: not a channel of such a library, or not ours */
    const char *plugin, *name;
    weft_comm *comm;
    uint32_t link;
    uint64_t started, done; /* groups */
} host_channel;

typedef struct host_collective {
    uint64_t group; /* of the communicator's groups, from 1 */
    uint64_t began, ended;
} host_collective;

struct run_host_library {
    const plan *plan;
    job *job;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    host_call_site *site; /* of its calls */
    bool running, stop;
    host_channel *channel;       /* [channels] */
    host_collective *collective; /* [collectives] */
    uint32_t *pending;           /* [n_pending] collectives, in start order */
    uint32_t n_pending;
    uint64_t no_yield_ns; /* of base/time/yield.h, for waits of the compute thread */
    err_record why;       /* the failure; its code is WEFT_OK while there is none */
};

static weft_status stored(const run_host_library *h)
{
    return h->why.code == WEFT_OK ? WEFT_OK : err_again(h->why.code, &h->why);
}

/* Store the record of this thread as the failure. */
static weft_status store(run_host_library *h, weft_status st)
{
    err_keep(&h->why);
    return h->why.code = st;
}

/* The job knows the root cause of a lost peer, but may learn it later than the library. */
static weft_status find_cause(run_host_library *h, weft_status st)
{
    err_record why;
    err_keep(&why);
    if ((st == WEFT_PEER || st == WEFT_IO) && comm_cause_known(h->job, NULL))
        return WEFT_PEER;
    return err_again(st, &why);
}

/* The oldest operation in flight on a channel, for messages. */
static const char *oldest(const run_host_library *h, uint32_t number)
{
    const plan *p = h->plan;
    for (uint32_t i = 0; i < h->n_pending; i++)
        if (p->collectives.at[h->pending[i]].channel == number)
            return p->collectives.at[h->pending[i]].name;
    return "a collective";
}

/* Put "NAME on channel C over PLUGIN: " before the record. */
static void put_name(const host_channel *l, const char *name)
{
    err_context("%s on channel %s over %s", name, l->name, l->plugin);
    err_set_name(ERR_ENTRY, name);
}

/* A call of the library on this channel has failed. */
static weft_status fail_channel(run_host_library *h, uint32_t number, weft_status st)
{
    st = find_cause(h, st);
    put_name(&h->channel[number], oldest(h, number));
    return store(h, st);
}

/* A count of test() that cannot be. */
static weft_status miscounted(const host_channel *l, uint64_t now)
{
    const unsigned long long counts = now, before = l->done, all = l->started;
    if (now < l->done)
        return err_fail_in(WEFT_INTERNAL, ERR_PLUGIN, l->plugin,
                           "its test() counts %llu complete groups; its last call counted %llu, "
                           "and a count never falls",
                           counts, before);
    return err_fail_in(WEFT_INTERNAL, ERR_PLUGIN, l->plugin,
                       "its test() counts %llu complete groups; only %llu were started on this "
                       "communicator",
                       counts, all);
}

static void retire(run_host_library *h, uint32_t number)
{
    const uint64_t now = clock_ns();
    uint32_t left = 0;
    for (uint32_t i = 0; i < h->n_pending; i++) {
        host_collective *of = &h->collective[h->pending[i]];
        if (h->plan->collectives.at[h->pending[i]].channel == number &&
            of->group <= h->channel[number].done)
            of->ended = now;
        else
            h->pending[left++] = h->pending[i];
    }
    h->n_pending = left;
}

static weft_status poll_channel(run_host_library *h, uint32_t number)
{
    host_channel *l = &h->channel[number];
    uint64_t done = l->done;
    weft_status st = PLUGIN_CALL(l->table, test, l->comm, 0, &done);
    if (st == WEFT_OK && (done < l->done || done > l->started))
        st = miscounted(l, done);
    if (st == WEFT_OK && done > l->done) {
        l->done = done;
        retire(h, number);
    }
    return st == WEFT_OK ? WEFT_OK : fail_channel(h, number, st);
}

/* Advance all communicators with groups in flight. */
static weft_status poll_all(run_host_library *h)
{
    weft_status st = stored(h);
    for (uint32_t i = 0; st == WEFT_OK && i < h->plan->channels.n; i++)
        if (h->channel[i].started > h->channel[i].done)
            st = poll_channel(h, i);
    return st;
}

static weft_status check_health(run_host_library *h)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < h->plan->channels.n; i++) {
        const host_channel *l = &h->channel[i];
        if (l->started > l->done)
            st = PLUGIN_CALL(l->table, health, l->comm);
        if (st != WEFT_OK)
            st = fail_channel(h, i, st);
    }
    return st;
}

static void *progress(void *arg)
{
    run_host_library *h = arg;
    call_site_enter(h->site);
    pthread_mutex_lock(&h->lock);
    while (!h->stop) {
        if (!h->n_pending || h->why.code != WEFT_OK || poll_all(h) != WEFT_OK) {
            pthread_cond_wait(&h->wake, &h->lock);
            continue;
        }
        pthread_mutex_unlock(&h->lock);
        call_site_count(h->site);
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        pthread_mutex_lock(&h->lock);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* --- waiting --- */

static weft_status too_late(run_host_library *h, uint32_t number, const char *name, double seconds)
{
    const host_channel *l = &h->channel[number];
    const weft_status st =
        err_fail(WEFT_PEER,
                 "not finished after %g s; test() of the plugin %s counts %llu of the %llu groups "
                 "started on this communicator: a rank has not started its part, or the library "
                 "hangs",
                 seconds, l->plugin, (unsigned long long)l->done, (unsigned long long)l->started);
    put_name(l, name);
    return store(h, st);
}

/* One idle moment: yield first, since most operations are short, then nap. */
static weft_status idle(run_host_library *h, uint64_t began)
{
    weft_status st = job_failure(h->job);
    call_tick();
    if (st != WEFT_OK)
        return st;
    if (clock_ns() - began < AWAKE_NS && yield_core(&h->no_yield_ns))
        return WEFT_OK;
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    return check_health(h);
}

static bool has_capacity(const run_host_library *h, uint32_t number)
{
    const host_channel *l = &h->channel[number];
    uint32_t active = 0;
    for (uint32_t i = 0; i < h->plan->channels.n; i++)
        active += h->channel[i].link == l->link && h->channel[i].started > h->channel[i].done;
    return !l->table->channels || l->started > l->done || active < l->table->channels;
}

weft_status run_host_library_wait_capacity(run_host_library *h, uint32_t number, double deadline)
{
    const uint64_t began = clock_ns(), end = awake_ns() + (uint64_t)(deadline * 1e9);
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && !has_capacity(h, number)) {
        st = poll_all(h);
        if (st != WEFT_OK || has_capacity(h, number))
            break;
        st = idle(h, began);
        if (st == WEFT_OK && awake_ns() > end)
            for (uint32_t i = 0; st == WEFT_OK && i < h->plan->channels.n; i++)
                if (h->channel[i].started > h->channel[i].done)
                    st = too_late(h, i, oldest(h, i), deadline);
    }
    return st;
}

weft_status run_host_library_wait(run_host_library *h, uint32_t number, double deadline)
{
    const plan_collective *x = &h->plan->collectives.at[number];
    const uint64_t began = clock_ns(), end = awake_ns() + (uint64_t)(deadline * 1e9);
    weft_status st = run_host_library_enter(h);
    while (st == WEFT_OK && h->channel[x->channel].done < h->collective[number].group) {
        st = poll_all(h);
        if (st != WEFT_OK || h->channel[x->channel].done >= h->collective[number].group)
            break;
        st = idle(h, began);
        if (st == WEFT_OK && awake_ns() > end)
            st = too_late(h, x->channel, x->name, deadline);
    }
    run_host_library_leave(h, true);
    return st;
}

/* --- the lock, and what is in flight --- */

weft_status run_host_library_enter(run_host_library *h)
{
    pthread_mutex_lock(&h->lock);
    return stored(h);
}

void run_host_library_leave(run_host_library *h, bool overlap)
{
    if (overlap && h->n_pending)
        pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

void run_host_library_started(run_host_library *h, const uint32_t *collectives, uint32_t n)
{
    const uint64_t now = clock_ns();
    for (uint32_t i = 0; i < n; i++) {
        host_channel *l = &h->channel[h->plan->collectives.at[collectives[i]].channel];
        bool first = true; /* of its channel in this group */
        for (uint32_t k = 0; k < i; k++)
            first &= &h->channel[h->plan->collectives.at[collectives[k]].channel] != l;
        l->started += first;
        h->collective[collectives[i]] = (host_collective){l->started, now, 0};
        h->pending[h->n_pending++] = collectives[i];
    }
}

void run_host_library_times(const run_host_library *h, uint32_t number, uint64_t *began,
                            uint64_t *ended)
{
    *began = h->collective[number].began;
    *ended = h->collective[number].ended;
}

/* --- set-up --- */

void run_host_library_add(run_host_library *h, uint32_t number, weft_comm *comm)
{
    const uint32_t link = h->plan->channels.at[number].link;
    const spec_link *l = &h->plan->spec->links[link];
    h->channel[number] = (host_channel){.table = resolve_collective_library(l),
                                        .plugin = l->c->name,
                                        .name = h->plan->channels.at[number].name,
                                        .comm = comm,
                                        .link = link};
}

weft_status run_host_library_create(const plan *p, job *j, run_host_library **out)
{
    run_host_library *h = mem_alloc(sizeof *h);
    h->plan = p;
    h->job = j;
    h->channel = mem_alloc(p->channels.n * sizeof *h->channel + 1);
    h->collective = mem_alloc(p->collectives.n * sizeof *h->collective + 1);
    h->pending = mem_alloc(p->collectives.n * sizeof *h->pending + 1);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->wake, NULL);
    h->site = host_sites_new(1);
    *out = h;
    if (pthread_create(&h->thread, NULL, progress, h) != 0)
        return err_fail_errno(WEFT_NO_MEMORY, "no thread to advance collectives");
    h->running = true;
    return WEFT_OK;
}

bool run_host_library_stop(run_host_library *h, double seconds)
{
    const uint64_t ms = (uint64_t)(seconds * 1000), until = awake_ms() + ms;
    if (!h->running)
        return true;
    if (!within_lock(&h->lock, ms))
        return false;
    h->stop = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
    const uint64_t now = awake_ms();
    h->running = !within_join(h->thread, now < until ? until - now : 0);
    return !h->running;
}

void run_host_library_free(run_host_library *h)
{
    if (!h)
        return;
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->wake);
    host_sites_free(h->site);
    free(h->channel);
    free(h->collective);
    free(h->pending);
    free(h);
}
