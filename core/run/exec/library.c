/* run/exec/library.c: see library.h. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/time/awake.h"
#include "base/time/within.h"
#include "host/call.h"
#include "resolve/topology.h"
#include "run/exec/host_library.h"
#include "run/exec/library.h"

#define ID_CAPACITY 4096u
#define GIVE_UP_S 2 /* seconds that aborting may take before the thread is abandoned */

typedef struct coll_channel {
    const weft_coll_table *table; /* NULL: not a channel of a library, or not ours */
    void *module;
    weft_comm *comm;
    weft_stream *stream;
    uint32_t n, me;
} coll_channel;

typedef struct run_coll_state {
    const run_executor *e;
    const plan *plan;        /* also for a thread that is abandoned, when `e` is gone */
    double timeout;          /* limit of a wait until all ranks have arrived, in seconds */
    coll_channel *channel;   /* [channels] */
    weft_event **done;       /* [collectives] */
    weft_event *before;      /* on the compute stream, of the latest start */
    uint32_t *group, groups; /* collectives of the group that is open */
    run_host_library *host;  /* NULL: on streams of the device */
    uint64_t sent;
} run_coll_state;

bool run_library_has(const run_executor *e, uint32_t number)
{
    return e->library && e->library->channel[e->plan->collectives.at[number].channel].table;
}

static weft_status share_id(run_coll_state *c, const coll_channel *l, const char *name,
                            uint32_t first, void *id, uint64_t *bytes, const weft_conf *conf)
{
    char key[200];
    snprintf(key, sizeof key, "coll/%.120s/%u", name, first);
    if (l->me == 0) {
        weft_status st = PLUGIN_CALL(l->table, id, l->module, conf, id, bytes);
        return st != WEFT_OK ? st : job_put(c->e->job, key, id, *bytes);
    }
    void *value = NULL;
    uint64_t n = 0;
    weft_status st = job_get(c->e->job, key, c->timeout, &value, &n);
    if (st == WEFT_OK && n > *bytes)
        st = err_fail(WEFT_DATA, "channel %s: the identifier of the communicator is invalid", name);
    if (st == WEFT_OK) {
        memcpy(id, value, n);
        *bytes = n;
    }
    free(value);
    return st;
}

/* Poll until the communicator is ready. */
static weft_status until_ready(run_coll_state *c, const coll_channel *l, const char *what)
{
    uint64_t end = awake_ns() + (uint64_t)(c->timeout * 1e9);
    weft_status st;
    while ((st = PLUGIN_POLL(l->table, ready, l->comm)) == WEFT_BUSY) {
        st = job_failure(c->e->job);
        if (st == WEFT_OK && awake_ns() > end)
            st = err_fail(WEFT_PEER, "%s: not all ranks have arrived after %.3g seconds", what,
                          c->timeout);
        if (st != WEFT_OK)
            return st;
        call_tick();
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    return st;
}

static weft_status open_channel(run_coll_state *c, uint32_t number, const uint32_t *ranks)
{
    const plan *p = c->plan;
    const plan_channel *ch = &p->channels.at[number];
    const spec_link *link = &p->spec->links[ch->link];
    coll_channel *l = &c->channel[number];
    char id[ID_CAPACITY];
    uint64_t bytes = sizeof id;
    l->table = resolve_collective_library(link);
    l->module = link->c->module;
    weft_status st = share_id(c, l, ch->name, ranks[0], id, &bytes, link->conf);
    if (st == WEFT_OK && !c->host)
        st = PLUGIN_CALL(c->e->table, stream, c->e->device, 1, &l->stream);
    if (st != WEFT_OK)
        return st;
    weft_coll_args args = {.struct_size = sizeof args,
                           .rank = l->me,
                           .ranks = l->n,
                           .id = id,
                           .id_bytes = bytes,
                           .conf = link->conf,
                           .members = ranks};
    if (!c->host)
        args.stream = PLUGIN_GET(c->e->table, native_stream, l->stream);
    st = PLUGIN_CALL(l->table, open, l->module, &args, &l->comm);
    if (st == WEFT_OK)
        st = until_ready(c, l, ch->name);
    if (st == WEFT_OK && l->table->register_memory)
        st = PLUGIN_ASK(l->table, register_memory, l->comm, c->e->base, p->bytes.peak, 0);
    if (st == WEFT_UNSUPPORTED) {
        err_clear();
        st = WEFT_OK;
    }
    if (st == WEFT_OK)
        st = until_ready(c, l, ch->name);
    if (st == WEFT_OK && c->host)
        run_host_library_add(c->host, number, l->comm);
    if (st != WEFT_OK)
        err_context("channel %s over %s", ch->name, link->c->name);
    return st;
}

/* Whether the library has the kinds and types of this rank's collectives, where it can tell. */
static weft_status ask_supported(const run_coll_state *c, uint32_t number)
{
    const plan_collective *x = &c->plan->collectives.at[number];
    const coll_channel *l = &c->channel[x->channel];
    const char *library = c->plan->spec->links[c->plan->channels.at[x->channel].link].c->name;
    if (!l->table->supports)
        return WEFT_OK;
    const bool pair = x->kind == WEFT_SHIFT; /* a send and a receive */
    const uint32_t kinds[] = {pair ? WEFT_SEND : x->kind, WEFT_RECV}, n = pair ? 2 : 1;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < n && st == WEFT_OK; i++)
        st = PLUGIN_CALL(l->table, supports, l->module, kinds[i], x->redop, x->dtype);
    if (st != WEFT_OK)
        err_context("%s on channel %s over %s", x->name, c->plan->channels.at[x->channel].name,
                    library);
    return st;
}

static weft_status open_lines(run_coll_state *c)
{
    const plan *p = c->plan;
    uint32_t *ranks = mem_alloc(p->spec->ranks * sizeof *ranks);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < p->channels.n && st == WEFT_OK; i++) {
        if (!resolve_collective_library(&p->spec->links[p->channels.at[i].link]))
            continue;
        c->channel[i].n = plan_group(p, i, c->e->rank, ranks, &c->channel[i].me);
        if (c->channel[i].n)
            st = open_channel(c, i, ranks);
    }
    for (uint32_t i = 0; i < p->collectives.n && st == WEFT_OK; i++)
        st = run_library_has(c->e, i) ? ask_supported(c, i) : WEFT_OK;
    for (uint32_t i = 0; i < p->collectives.n && st == WEFT_OK && !c->host; i++)
        if (run_library_has(c->e, i))
            st = PLUGIN_CALL(c->e->table, event, c->e->device, &c->done[i]);
    free(ranks);
    return st != WEFT_OK || c->host ? st
                                    : PLUGIN_CALL(c->e->table, event, c->e->device, &c->before);
}

weft_status run_library_create(run_executor *e, double timeout)
{
    const plan *p = e->plan;
    bool any = false;
    for (uint32_t i = 0; i < p->channels.n; i++)
        any |= resolve_collective_library(&p->spec->links[p->channels.at[i].link]) != NULL;
    if (!any)
        return WEFT_OK;
    run_coll_state *c = e->library = mem_alloc(sizeof *c);
    c->e = e;
    c->plan = p;
    c->timeout = timeout;
    c->channel = mem_alloc(p->channels.n * sizeof *c->channel);
    c->done = mem_alloc(p->collectives.n * sizeof(weft_event *) + 1);
    c->group = mem_alloc(p->collectives.n * sizeof *c->group + 1);
    weft_status st = WEFT_OK;
    if (resolve_is_on_host(p->spec))
        st = run_host_library_create(p, e->job, &c->host);
    return st != WEFT_OK ? st : open_lines(c);
}

static void close_all(run_coll_state *c)
{
    for (uint32_t i = 0; i < c->plan->channels.n; i++)
        if (c->channel[i].comm)
            PLUGIN_DO(c->channel[i].table, close, c->channel[i].comm);
}

static void *give_up(void *arg)
{
    run_coll_state *c = arg;
    for (uint32_t i = 0; i < c->plan->channels.n; i++)
        if (c->channel[i].comm)
            PLUGIN_DO(c->channel[i].table, abort, c->channel[i].comm);
    if (c->host && run_host_library_stop(c->host, GIVE_UP_S))
        close_all(c);
    return NULL;
}

/* False: the library hangs, and the process exits without freeing it. */
static bool abort_all(run_coll_state *c)
{
    pthread_t helper;
    if (pthread_create(&helper, NULL, give_up, c) != 0)
        return false;
    return within_join(helper, GIVE_UP_S * 1000);
}

bool run_library_destroy(run_executor *e, bool failed)
{
    run_coll_state *c = e->library;
    if (!c)
        return true;
    if (failed && !abort_all(c))
        return false;
    if (c->host && !run_host_library_stop(c->host, GIVE_UP_S))
        return false;
    if (!c->host || !failed)
        close_all(c);
    run_host_library_free(c->host);
    free(c->channel);
    free(c->done);
    free(c->group);
    free(c);
    return true;
}

static weft_status call_one(const coll_channel *l, const plan_collective *x, weft_coll_call like)
{
    like.struct_size = sizeof like;
    like.dtype = x->dtype;
    like.count = x->count;
    return PLUGIN_CALL(l->table, call, l->comm, &like);
}

/* A shift is a send to one neighbour and a receive from the other. */
static weft_status call_both(const coll_channel *l, const plan_collective *x, weft_coll_call like)
{
    const uint32_t to = (l->me + x->root) % l->n, from = (l->me + l->n - x->root) % l->n;
    weft_coll_call send = {.kind = WEFT_SEND, .root = to, .in = like.in, .stream = like.stream};
    weft_coll_call recv = {.kind = WEFT_RECV, .root = from, .out = like.out, .stream = like.stream};
    weft_status st = call_one(l, x, send);
    return st != WEFT_OK ? st : call_one(l, x, recv);
}

/* Calls the collective in the open group, which ends also where that fails. */
static weft_status call(run_coll_state *c, uint32_t number, void *native)
{
    const run_exec_collective *at = &c->e->collectives[number];
    const plan_collective *x = &c->plan->collectives.at[number];
    const coll_channel *l = &c->channel[x->channel];
    const weft_coll_call whole = {.kind = x->kind,
                                  .redop = x->redop,
                                  .root = x->root,
                                  .in = c->e->base + at->from,
                                  .out = c->e->base + at->to,
                                  .stream = native};
    c->group[c->groups++] = number;
    c->sent += x->sent;
    weft_status st = x->kind == WEFT_SHIFT ? call_both(l, x, whole) : call_one(l, x, whole);
    if (st != WEFT_OK) {
        (void)!PLUGIN_POLL(l->table, end, l->module, 0);
        c->groups = 0;
    }
    return st;
}

/* Whether the collective of entry `i` is the last of its group: the next entry starts none on the
 * same link. */
static bool is_last(const run_executor *e, const plan_list *l, uint32_t i)
{
    const plan *p = e->plan;
    const plan_entry *x = &l->entries.at[i], *next = x + 1;
    if (i + 1 == l->entries.n || !plan_runs(p, next, e->step) || next->kind != ENTRY_START ||
        !run_library_has(e, next->what))
        return true;
    return p->channels.at[p->collectives.at[next->what].channel].link !=
           p->channels.at[p->collectives.at[x->what].channel].link;
}

static weft_status end_group(run_coll_state *c, const coll_channel *l)
{
    weft_status st = PLUGIN_POLL(l->table, end, l->module, 0);
    st = st == WEFT_BUSY ? WEFT_OK : st;
    for (uint32_t i = 0; i < c->groups && st == WEFT_OK; i++) {
        const plan_collective *x = &c->plan->collectives.at[c->group[i]];
        st = until_ready(c, &c->channel[x->channel], x->name);
    }
    return st;
}

/* --- on streams of the device --- */

static weft_status launch(run_coll_state *c, const coll_channel *l)
{
    weft_status st = end_group(c, l);
    for (uint32_t i = 0; i < c->groups && st == WEFT_OK; i++) {
        const uint32_t number = c->group[i], on = c->plan->collectives.at[number].channel;
        st = PLUGIN_CALL(c->e->table, record, c->done[number], c->channel[on].stream, 0);
    }
    c->groups = 0;
    return st;
}

weft_status run_library_start(run_executor *e, const plan_list *l, uint32_t i)
{
    run_coll_state *c = e->library;
    const uint32_t number = l->entries.at[i].what;
    const plan_collective *x = &e->plan->collectives.at[number];
    const coll_channel *on = &c->channel[x->channel];
    weft_status st = PLUGIN_CALL(e->table, record, c->before, e->stream, 0);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(e->table, stream_wait, on->stream, c->before, 0);
    if (st == WEFT_OK && !c->groups)
        st = PLUGIN_CALL(on->table, begin, on->module, 0);
    if (st == WEFT_OK)
        st = call(c, number, PLUGIN_GET(e->table, native_stream, on->stream));
    return st == WEFT_OK && is_last(e, l, i) ? launch(c, on) : st;
}

weft_status run_library_wait(run_executor *e, uint32_t number)
{
    return PLUGIN_CALL(e->table, stream_wait, e->stream, e->library->done[number], 0);
}

/* --- on host memory --- */

/* Start the group that is open, and leave. `overlap`: computation follows. */
static weft_status launch_on_host(run_coll_state *c, const coll_channel *l, bool overlap)
{
    weft_status st = end_group(c, l);
    if (st == WEFT_OK)
        run_host_library_started(c->host, c->group, c->groups);
    c->groups = 0;
    run_host_library_leave(c->host, overlap && st == WEFT_OK);
    return st;
}

/* Whether a collective of the channel may join the open group. With a limit on channels, a group
 * has one channel, so that waiting for room is enough. */
static bool may_join(const run_coll_state *c, uint32_t on)
{
    return !c->channel[on].table->channels || c->plan->collectives.at[c->group[0]].channel == on;
}

static weft_status open_group(run_coll_state *c, uint32_t on)
{
    const coll_channel *l = &c->channel[on];
    weft_status st = run_host_library_enter(c->host);
    if (st == WEFT_OK)
        st = run_host_library_wait_capacity(c->host, on, c->e->deadline);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(l->table, begin, l->module, 0);
    if (st != WEFT_OK)
        run_host_library_leave(c->host, false);
    return st;
}

weft_status run_library_start_on_host(run_executor *e, const plan_list *l, uint32_t i)
{
    run_coll_state *c = e->library;
    const uint32_t number = l->entries.at[i].what, on = e->plan->collectives.at[number].channel;
    weft_status st = WEFT_OK;
    if (c->groups && !may_join(c, on))
        st = launch_on_host(c, &c->channel[on], false);
    if (st == WEFT_OK && !c->groups)
        st = open_group(c, on);
    if (st != WEFT_OK)
        return st;
    st = call(c, number, NULL);
    if (st != WEFT_OK)
        run_host_library_leave(c->host, false);
    if (st != WEFT_OK || !is_last(e, l, i))
        return st;
    const bool overlap = i + 1 < l->entries.n && l->entries.at[i + 1].kind != ENTRY_WAIT;
    return launch_on_host(c, &c->channel[on], overlap);
}

weft_status run_library_wait_on_host(run_executor *e, uint32_t number)
{
    return run_host_library_wait(e->library->host, number, e->deadline);
}

/* --- both --- */

bool run_library_is_open(const run_executor *e)
{
    return e->library->groups;
}

bool run_library_on_host(const run_executor *e)
{
    return e->library && e->library->host;
}

void run_library_times(const run_executor *e, uint32_t number, uint64_t *began, uint64_t *ended)
{
    run_host_library_times(e->library->host, number, began, ended);
}

uint64_t run_library_sent(const run_executor *e)
{
    return e->library ? e->library->sent : 0;
}

weft_status run_library_health(run_executor *e)
{
    run_coll_state *c = e->library;
    if (!c)
        return WEFT_OK;
    weft_status st = c->host ? run_host_library_enter(c->host) : WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < c->plan->channels.n; i++) {
        const coll_channel *l = &c->channel[i];
        st = l->comm ? PLUGIN_CALL(l->table, health, l->comm) : WEFT_OK;
        if (st != WEFT_OK)
            err_context("channel %s", c->plan->channels.at[i].name);
    }
    if (c->host)
        run_host_library_leave(c->host, false);
    return st;
}
