/* comm/connect.c: connects the pairs of ranks that schedules use, and gives each access to the
 * memory of the other where an operation needs it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/awake.h"
#include "comm/info.h"

#define WAIT_US 5000u /* longest sleep between two polls of connections in progress */

/* Whether the two exchange messages in this operation. */
static bool op_uses_peer(const comm_op *op, uint32_t peer)
{
    for (uint32_t i = 0; i < op->program.lanes; i++)
        if (op->program.lane[i].peer == peer)
            return true;
    return false;
}

static bool uses_peer(const comm_link *l, const comm_channel *c, uint32_t peer)
{
    for (uint32_t i = 0; i < l->ops.n; i++)
        if (l->ops.at[i]->channel == c && op_uses_peer(l->ops.at[i], peer))
            return true;
    return false;
}

static bool has_kind(const comm_link *l, const comm_op_kind *k)
{
    for (uint32_t i = 0; i < l->ops.n; i++)
        if (l->ops.at[i]->kind == k)
            return true;
    return false;
}

static weft_status register_memory(comm_link *l)
{
    const comm_arena *a = &l->world->arena;
    const bool maps = has_kind(l, &comm_kind_mapped);
    if (maps && (!a->base || a->fd < 0))
        return err_fail(
            WEFT_USAGE,
            "link %s: an operation maps its peers' memory, but the arena of this device "
            "cannot be mapped by others; use another algorithm",
            l->component->name);
    if (!a->base || !(maps || (l->table->caps & WEFT_LINK_REGISTER)))
        return WEFT_OK;
    const weft_memory m = {sizeof m, 0, a->base, a->bytes, a->fd, 0};
    return PLUGIN_CALL(l->table, register_memory, l->link, &m, &l->region);
}

static weft_status map_peer(comm_link *l, const comm_channel *c, uint32_t peer,
                            const comm_info *theirs)
{
    uint32_t rank = c->ranks[peer];
    bool needed = false;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < l->ops.n && st == WEFT_OK; i++) {
        comm_op *op = l->ops.at[i];
        if (op->channel != c || !op_uses_peer(op, peer))
            continue;
        needed |= op->kind == &comm_kind_mapped;
        if (op->kind == &comm_kind_imported) {
            l->imports[rank] = 1;
            st = comm_info_find_offsets(op, peer, theirs);
        }
    }
    if (st != WEFT_OK || !needed || l->mapped[rank])
        return st;
    if (theirs->key_bytes == 0)
        return err_fail(WEFT_PEER, "channel %s: rank %u offers no memory to map", c->name, rank);
    void *base = NULL;
    st = PLUGIN_CALL(l->table, map, l->link, rank, theirs->key, theirs->key_bytes, 0, &base);
    if (st != WEFT_OK)
        return st;
    l->mapped[rank] = base;
    l->mapped_bytes[rank] = theirs->arena_bytes;
    return WEFT_OK;
}

/* The number of a connection: the index of the channel among those that both ranks share, in the
 * order in which both added them. */
static uint32_t number_for(const comm_link *l, const comm_channel *c, uint32_t rank)
{
    uint32_t number = 0;
    for (uint32_t i = 0; l->channels.at[i] != c; i++)
        for (uint32_t k = 0; k < l->channels.at[i]->n; k++)
            number += l->channels.at[i]->ranks[k] == rank;
    return number;
}

/* Gets the info of all peers before the first connection begins: a rank that waits for one does not
 * answer peers that connect to it. */
static weft_status get_infos(comm_link *l, comm_info **infos, uint32_t meeting,
                             uint64_t deadline_ns)
{
    for (uint32_t i = 0; i < l->channels.n; i++) {
        const comm_channel *c = l->channels.at[i];
        for (uint32_t k = 0; k < c->n; k++) {
            uint32_t rank = c->ranks[k];
            if (k == c->me || infos[rank] || !uses_peer(l, c, k))
                continue;
            uint64_t now = awake_ns();
            double seconds = deadline_ns > now ? (double)(deadline_ns - now) * 1e-9 : 0;
            weft_status st = comm_info_get(l, rank, meeting, seconds, &infos[rank]);
            if (st != WEFT_OK) {
                err_context("channel %s", c->name);
                return st;
            }
        }
    }
    return WEFT_OK;
}

static weft_status begin_channel(comm_link *l, comm_channel *c, comm_info **infos)
{
    for (uint32_t k = 0; k < c->n; k++) {
        uint32_t rank = c->ranks[k];
        if (k == c->me || !uses_peer(l, c, k))
            continue;
        weft_status st = comm_info_compare(c, k, infos[rank]);
        if (l->checked)
            snprintf(l->host[rank], COMM_HOST, "%.63s", infos[rank]->host);
        if (st == WEFT_OK)
            st = map_peer(l, c, k, infos[rank]);
        weft_conn_args a = {sizeof a, 0, rank, number_for(l, c, rank), infos[rank]->address, 0};
        a.bytes = infos[rank]->address_bytes;
        if (st == WEFT_OK)
            st = PLUGIN_CALL(l->table, connect, l->link, &a, &c->wire[k].conn);
        if (st != WEFT_OK) {
            err_context("channel %s, connecting to rank %u over %s", c->name, rank,
                        l->component->name);
            return comm_peer_status(st);
        }
    }
    return WEFT_OK;
}

/* The number of connections in progress, and the rank of the last of them. If that is not zero, the
 * error record has the link's reason. */
static weft_status not_ready(comm_link *l, uint32_t *count, uint32_t *rank)
{
    *count = 0;
    err_clear();
    for (uint32_t i = 0; i < l->channels.n; i++)
        for (uint32_t k = 0; k < l->channels.at[i]->n; k++) {
            comm_channel *c = l->channels.at[i];
            weft_status st =
                c->wire[k].conn ? PLUGIN_POLL(l->table, ready, c->wire[k].conn) : WEFT_OK;
            if (st == WEFT_OK)
                continue;
            if (st != WEFT_BUSY) {
                err_context("channel %s, connecting to rank %u over %s", c->name, c->ranks[k],
                            l->component->name);
                return comm_peer_status(st);
            }
            ++*count;
            *rank = c->ranks[k];
        }
    return WEFT_OK;
}

/* The link's reason follows, and its plugin's name stays known. */
static weft_status late(const comm_link *l, uint32_t count, uint32_t rank)
{
    err_record why;
    err_keep(&why);
    (void)!err_fail(WEFT_PEER, "link %s: %u connections are not up in time, one to rank %u%s%s",
                    l->component->name, count, rank, why.text[0] ? ": " : "", why.text);
    err_set_name(ERR_PLUGIN, why.name[ERR_PLUGIN]);
    return WEFT_PEER;
}

static weft_status await_ready(comm_link *l, uint64_t deadline_ns)
{
    for (;;) {
        uint32_t count, rank = 0;
        weft_status st = not_ready(l, &count, &rank);
        if (st != WEFT_OK || count == 0)
            return st;
        if (job_failure(l->world->job) != WEFT_OK)
            return WEFT_PEER;
        if (awake_ns() > deadline_ns)
            return late(l, count, rank);
        st = PLUGIN_CALL(l->table, wait, l->link, 0, WAIT_US, 0);
        if (st != WEFT_OK && st != WEFT_BUSY)
            return st;
    }
}

/* Frees a link that this rank does not use: no listening, no thread. Another link's thread may be
 * aborting all links, which it does under the same lock. */
static void give_back(comm_link *l)
{
    pthread_mutex_lock(&l->world->failing);
    if (l->region)
        PLUGIN_DO(l->table, deregister_memory, l->region);
    comm_checked_free(l);
    PLUGIN_DO(l->table, destroy, l->link);
    l->link = NULL;
    l->region = NULL;
    pthread_mutex_unlock(&l->world->failing);
}

static weft_status connect_link(comm_link *l, uint32_t meeting, double seconds)
{
    uint64_t deadline = awake_ns() + (uint64_t)(seconds * 1e9);
    uint32_t ranks = l->world->who.ranks;
    comm_fd_passing_socket box = {.fd = -1};
    comm_link_prepare(l);
    weft_status st = has_kind(l, &comm_kind_imported) ? comm_fd_passing_open(&box) : WEFT_OK;
    if (l->world->job) {
        if (st == WEFT_OK)
            st = register_memory(l);
        if (st == WEFT_OK && l->checked)
            st = comm_checked_prepare(l);
        if (st == WEFT_OK)
            st = comm_info_put(l, meeting, &box);
    }
    comm_info **infos = mem_alloc(ranks * sizeof *infos);
    if (st == WEFT_OK)
        st = get_infos(l, infos, meeting, deadline);
    for (uint32_t i = 0; i < l->channels.n && st == WEFT_OK; i++)
        st = begin_channel(l, l->channels.at[i], infos);
    if (st == WEFT_OK && box.fd >= 0)
        st = comm_import_peer_prepare(l, &box, infos, deadline);
    if (st == WEFT_OK)
        st = await_ready(l, deadline);
    comm_fd_passing_close(&box);
    for (uint32_t i = 0; i < ranks; i++)
        free(infos[i]);
    free(infos);
    if (st == WEFT_OK && l->ops.n == 0)
        give_back(l);
    else if (st == WEFT_OK)
        st = comm_progress_begin(l);
    return st;
}

weft_status comm_connect(comm_world *w, const comm_arena *arena, double deadline)
{
    static _Thread_local uint32_t meetings; /* equal on all ranks; in tests a rank is a thread */
    uint32_t meeting = meetings++;
    if (w->connected)
        return err_fail(WEFT_USAGE, "comm_connect() was called before");
    w->arena = arena ? *arena : (comm_arena){.fd = -1};
    weft_status st = comm_staging_prepare(w);
    for (uint32_t i = 0; i < w->links.n && st == WEFT_OK; i++)
        st = connect_link(w->links.at[i], meeting, deadline);
    w->connected = st == WEFT_OK;
    return st;
}
