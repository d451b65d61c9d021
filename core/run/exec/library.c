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

#define ID_ROOM 4096u
#define GIVE_UP_S 2 /* seconds that aborting may take before the thread is abandoned */

typedef struct coll_channel {
    const weft_coll_table *table; /* NULL: not a channel of a library, or not ours */
    void *module;
    weft_comm *comm;
    weft_stream *stream;
    uint32_t n, me;
} coll_channel;

struct run_coll_state {
    const plan *plan;
    job *job;
    uint32_t rank;
    run_library_device d;
    double deadline;
    coll_channel *channel;   /* [channels] */
    weft_event **done;       /* [collectives] */
    weft_event *before;      /* on the compute stream, of the latest start */
    uint32_t *group, groups; /* collectives of the group that is open */
    run_host_library *host;  /* NULL: on streams of the device */
    uint64_t sent;
};

int run_library_has(const run_coll_state *c, uint32_t number)
{
    return c && c->channel[c->plan->collectives.at[number].channel].table;
}

static weft_status share_id(run_coll_state *c, const coll_channel *l, const char *name,
                            uint32_t first, void *id, uint64_t *bytes, const weft_conf *conf)
{
    char key[200];
    snprintf(key, sizeof key, "coll/%.120s/%u", name, first);
    if (l->me == 0) {
        weft_status st = PLUGIN_CALL(l->table, id, l->module, conf, id, bytes);
        return st != WEFT_OK ? st : job_put(c->job, key, id, *bytes);
    }
    void *value = NULL;
    uint64_t n = 0;
    weft_status st = job_get(c->job, key, c->deadline, &value, &n);
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
    uint64_t end = awake_ns() + (uint64_t)(c->deadline * 1e9);
    weft_status st;
    while ((st = PLUGIN_POLL(l->table, ready, l->comm)) == WEFT_BUSY) {
        st = job_failure(c->job);
        if (st == WEFT_OK && awake_ns() > end)
            st = err_fail(WEFT_PEER, "%s: not all ranks have arrived after %.3g seconds", what,
                          c->deadline);
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
    char id[ID_ROOM];
    uint64_t bytes = sizeof id;
    l->table = resolve_collective_library(link);
    l->module = link->c->module;
    weft_status st = share_id(c, l, ch->name, ranks[0], id, &bytes, link->conf);
    if (st == WEFT_OK && !c->host)
        st = PLUGIN_CALL(c->d.table, stream, c->d.device, 1, &l->stream);
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
        args.stream = PLUGIN_GET(c->d.table, native_stream, l->stream);
    st = PLUGIN_CALL(l->table, open, l->module, &args, &l->comm);
    if (st == WEFT_OK)
        st = until_ready(c, l, ch->name);
    if (st == WEFT_OK && l->table->register_memory)
        st = PLUGIN_ASK(l->table, register_memory, l->comm, c->d.base, p->bytes.peak, 0);
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
        c->channel[i].n = plan_group(p, i, c->rank, ranks, &c->channel[i].me);
        if (c->channel[i].n)
            st = open_channel(c, i, ranks);
    }
    for (uint32_t i = 0; i < p->collectives.n && st == WEFT_OK; i++)
        st = run_library_has(c, i) ? ask_supported(c, i) : WEFT_OK;
    for (uint32_t i = 0; i < p->collectives.n && st == WEFT_OK && !c->host; i++)
        if (run_library_has(c, i))
            st = PLUGIN_CALL(c->d.table, event, c->d.device, &c->done[i]);
    free(ranks);
    return st != WEFT_OK || c->host ? st : PLUGIN_CALL(c->d.table, event, c->d.device, &c->before);
}

weft_status run_library_create(const plan *p, job *j, uint32_t rank, const run_library_device *d,
                               double deadline, run_coll_state **out)
{
    int any = 0;
    for (uint32_t i = 0; i < p->channels.n && p->spec->ranks > 1; i++)
        any |= resolve_collective_library(&p->spec->links[p->channels.at[i].link]) != NULL;
    if (!any)
        return WEFT_OK;
    run_coll_state *c = mem_alloc(sizeof *c);
    *out = c;
    c->plan = p;
    c->job = j;
    c->rank = rank;
    c->d = *d;
    c->deadline = deadline;
    c->channel = mem_alloc(p->channels.n * sizeof *c->channel);
    c->done = mem_alloc(p->collectives.n * sizeof(weft_event *) + 1);
    c->group = mem_alloc(p->collectives.n * sizeof *c->group + 1);
    weft_status st = WEFT_OK;
    if (resolve_is_on_host(p->spec))
        st = run_host_library_create(p, j, &c->host);
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

bool run_library_destroy(run_coll_state *c, bool failed)
{
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
static weft_status call(const coll_channel *l, const plan_collective *x, const void *in, void *out,
                        void *native)
{
    const weft_coll_call whole = {.kind = x->kind,
                                  .redop = x->redop,
                                  .root = x->root,
                                  .in = in,
                                  .out = out,
                                  .stream = native};
    if (x->kind != WEFT_SHIFT)
        return call_one(l, x, whole);
    const uint32_t to = (l->me + x->root) % l->n, from = (l->me + l->n - x->root) % l->n;
    weft_status st =
        call_one(l, x, (weft_coll_call){.kind = WEFT_SEND, .root = to, .in = in, .stream = native});
    return st != WEFT_OK
               ? st
               : call_one(l, x,
                          (weft_coll_call){
                              .kind = WEFT_RECV, .root = from, .out = out, .stream = native});
}

static weft_status launch(run_coll_state *c, const coll_channel *l)
{
    weft_status st = PLUGIN_POLL(l->table, end, l->module, 0);
    if (st == WEFT_BUSY)
        st = WEFT_OK;
    for (uint32_t i = 0; i < c->groups && st == WEFT_OK; i++) {
        uint32_t number = c->group[i];
        const coll_channel *one = &c->channel[c->plan->collectives.at[number].channel];
        st = until_ready(c, one, c->plan->collectives.at[number].name);
        if (st == WEFT_OK)
            st = PLUGIN_CALL(c->d.table, record, c->done[number], one->stream, 0);
    }
    c->groups = 0;
    return st;
}

/* --- on host memory --- */

/* Start the group that is open, and leave. */
static weft_status launch_on_host(run_coll_state *c, const coll_channel *l, bool overlap)
{
    weft_status st = PLUGIN_POLL(l->table, end, l->module, 0);
    st = st == WEFT_BUSY ? WEFT_OK : st;
    for (uint32_t i = 0; i < c->groups && st == WEFT_OK; i++) {
        const plan_collective *x = &c->plan->collectives.at[c->group[i]];
        st = until_ready(c, &c->channel[x->channel], x->name);
    }
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
        st = run_host_library_wait_room(c->host, on, c->d.deadline);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(l->table, begin, l->module, 0);
    if (st != WEFT_OK)
        run_host_library_leave(c->host, false);
    return st;
}

static weft_status start_on_host(run_coll_state *c, uint32_t number, const run_library_request *s)
{
    const plan_collective *x = &c->plan->collectives.at[number];
    const coll_channel *l = &c->channel[x->channel];
    weft_status st = WEFT_OK;
    if (c->groups && !may_join(c, x->channel))
        st = launch_on_host(c, l, false);
    if (st == WEFT_OK && !c->groups)
        st = open_group(c, x->channel);
    if (st != WEFT_OK)
        return st;
    c->group[c->groups++] = number;
    c->sent += x->sent;
    st = call(l, x, c->d.base + s->from, c->d.base + s->to, NULL);
    if (st == WEFT_OK)
        return s->last ? launch_on_host(c, l, s->overlap) : WEFT_OK;
    (void)!PLUGIN_POLL(l->table, end, l->module, 0);
    c->groups = 0;
    run_host_library_leave(c->host, false);
    return st;
}

/* --- both --- */

weft_status run_library_start(run_coll_state *c, uint32_t number, const run_library_request *s)
{
    const plan_collective *x = &c->plan->collectives.at[number];
    const coll_channel *l = &c->channel[x->channel];
    if (c->host)
        return start_on_host(c, number, s);
    weft_status st = PLUGIN_CALL(c->d.table, record, c->before, c->d.compute, 0);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(c->d.table, stream_wait, l->stream, c->before, 0);
    if (st == WEFT_OK && s->first)
        st = PLUGIN_CALL(l->table, begin, l->module, 0);
    if (st != WEFT_OK)
        return st;
    c->group[c->groups++] = number;
    c->sent += x->sent;
    st = call(l, x, c->d.base + s->from, c->d.base + s->to,
              PLUGIN_GET(c->d.table, native_stream, l->stream));
    if (st != WEFT_OK) /* end the open group also after a failure */
        (void)!PLUGIN_POLL(l->table, end, l->module, 0);
    else if (s->last)
        st = launch(c, l);
    return st;
}

weft_status run_library_wait(run_coll_state *c, uint32_t number)
{
    if (c->host)
        return run_host_library_wait(c->host, number, c->d.deadline);
    return PLUGIN_CALL(c->d.table, stream_wait, c->d.compute, c->done[number], 0);
}

bool run_library_on_host(const run_coll_state *c)
{
    return c && c->host;
}

void run_library_times(const run_coll_state *c, uint32_t number, uint64_t *began, uint64_t *ended)
{
    run_host_library_times(c->host, number, began, ended);
}

uint64_t run_library_sent(const run_coll_state *c)
{
    return c ? c->sent : 0;
}

weft_status run_library_health(run_coll_state *c)
{
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
