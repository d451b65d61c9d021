/* comm/connect.c: exchanges endpoint info, connects the pairs used, registers and maps memory.
 *
 * Each rank puts one link_info per link into the store: its endpoint info, the key of its arena and
 * two digests for each of its channels. A rank reads those of its peers and compares digests first
 * (startup consistency check): ranks with different operations on a channel would deadlock. */
#include "comm/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number/check.h"
#include "base/time/awake.h"
#include "comm/fd_passing.h"
#include "host/call.h"

#define INFO_MAGIC 0x63617264u
#define MOST_BLOB 4096u
#define WAIT_US 5000u /* longest sleep between two polls of connections in progress */

/* Followed by two digests per channel (who, what) and offsets for the device's operations. */
typedef struct link_info {
    uint32_t magic, channels, places, checked;
    uint64_t address_bytes, key_bytes, arena_bytes, device_bytes;
    comm_fd_passing_address pass; /* the socket that receives descriptors */
    char host[COMM_HOST];
    unsigned char address[MOST_BLOB], key[MOST_BLOB];
} link_info;

/* An operation executed by devices, identified by channel, kind, peer or root, and the number of
 * equal ones before it. */
typedef struct info_place {
    uint64_t who;
    uint32_t kind, root;
    sched_buffer_offsets at;
} info_place;

static bool uses_peer(const comm_link *l, const comm_channel *c, uint32_t peer)
{
    for (uint32_t i = 0; i < l->ops.n; i++) {
        const comm_op *op = l->ops.at[i];
        for (uint32_t k = 0; op->channel == c && k < op->program.lanes; k++)
            if (op->program.lane[k].peer == peer)
                return true;
    }
    return false;
}

static bool maps_any(const comm_link *l)
{
    for (uint32_t i = 0; i < l->ops.n; i++)
        if (sched_maps_peers(l->ops.at[i]->schedule) && !l->ops.at[i]->attached &&
            l->ops.at[i]->program.lanes)
            return true;
    return false;
}

static weft_status register_memory(comm_link *l)
{
    const comm_arena *a = &l->world->arena;
    if (maps_any(l) && (!a->base || a->fd < 0))
        return err_fail(
            WEFT_USAGE,
            "link %s: an operation maps its peers' memory, but the arena of this device "
            "cannot be mapped by others; use another algorithm",
            l->component->name);
    if (!a->base || !(maps_any(l) || (l->table->caps & WEFT_LINK_REGISTER)))
        return WEFT_OK;
    const weft_memory m = {sizeof m, 0, a->base, a->bytes, a->fd, 0};
    return PLUGIN_CALL(l->table, register_memory, l->link, &m, &l->region);
}

static void info_name(const comm_link *l, uint32_t rank, uint32_t meeting, char out[200])
{
    uint32_t number = 0; /* an axis with checksums and one without have links of one name */
    while (l->world->links.at[number] != l)
        number++;
    snprintf(out, 200, "comm/%u/%u/%.64s/%u", meeting, number, l->component->name, rank);
}

static info_place place_of(const comm_op *op)
{
    const sched_request *r = sched_request_of(op->schedule);
    return (info_place){op->channel->who, r->kind, r->root, op->where[op->channel->me]};
}

static uint64_t info_bytes(const link_info *c)
{
    return sizeof *c + (uint64_t)c->channels * 2 * sizeof(uint64_t) +
           c->places * sizeof(info_place);
}

static const info_place *info_places(const link_info *c)
{
    return (const info_place *)((const uint64_t *)(c + 1) + (size_t)c->channels * 2);
}

static link_info *make_info(const comm_link *l, const comm_fd_passing_socket *box)
{
    link_info head = {.magic = INFO_MAGIC,
                      .channels = l->channels.n,
                      .checked = l->checked,
                      .address_bytes = MOST_BLOB,
                      .key_bytes = MOST_BLOB,
                      .arena_bytes = l->world->arena.bytes,
                      .device_bytes = l->world->arena.stage.bytes,
                      .pass = box->at};
    (void)!gethostname(head.host, sizeof head.host - 1);
    for (uint32_t i = 0; i < l->ops.n; i++)
        head.places += l->ops.at[i]->attached;
    link_info *mine = mem_alloc(info_bytes(&head));
    *mine = head;
    uint64_t *digest = (uint64_t *)(mine + 1);
    for (uint32_t i = 0; i < l->channels.n; i++) {
        *digest++ = l->channels.at[i]->who;
        *digest++ = l->channels.at[i]->what;
    }
    info_place *place = (info_place *)digest;
    for (uint32_t i = 0; i < l->ops.n; i++)
        if (l->ops.at[i]->attached)
            *place++ = place_of(l->ops.at[i]);
    return mine;
}

static weft_status put_info(comm_link *l, uint32_t meeting, const comm_fd_passing_socket *box)
{
    link_info *mine = make_info(l, box);
    weft_status st = PLUGIN_CALL(l->table, address, l->link, mine->address, &mine->address_bytes);
    if (!l->region || !(l->table->caps & WEFT_LINK_MAP))
        mine->key_bytes = 0;
    else if (st == WEFT_OK)
        st = PLUGIN_CALL(l->table, key, l->region, mine->key, &mine->key_bytes);
    if (st == WEFT_OK && (mine->address_bytes > MOST_BLOB || mine->key_bytes > MOST_BLOB))
        st = err_fail(WEFT_INTERNAL, "link %s: its address or key is longer than 4096 bytes",
                      l->component->name);
    char name[200];
    info_name(l, l->world->who.rank, meeting, name);
    if (st == WEFT_OK)
        st = job_put(l->world->job, name, mine, info_bytes(mine));
    free(mine);
    return st;
}

static weft_status get_info(comm_link *l, uint32_t rank, uint32_t meeting, double seconds,
                            link_info **out)
{
    char name[200];
    void *value = NULL;
    uint64_t bytes = 0;
    info_name(l, rank, meeting, name);
    weft_status st = job_get(l->world->job, name, seconds, &value, &bytes);
    if (st != WEFT_OK) {
        err_context("waiting for the address of rank %u on %s", rank, l->component->name);
        return st;
    }
    link_info *c = value;
    if (bytes < sizeof *c || c->magic != INFO_MAGIC || c->address_bytes > MOST_BLOB ||
        c->key_bytes > MOST_BLOB || bytes != info_bytes(c)) {
        free(value);
        return err_fail(WEFT_DATA, "link %s: the address of rank %u is malformed",
                        l->component->name, rank);
    }
    *out = c;
    return WEFT_OK;
}

/* Checks that the peer has this channel, with the same operations. */
static weft_status compare(const comm_channel *c, uint32_t peer, const link_info *theirs)
{
    const uint64_t *digest = (const uint64_t *)(theirs + 1);
    uint32_t rank = c->ranks[peer];
    if (theirs->checked != c->link->checked)
        return err_fail(WEFT_USAGE,
                        "channel %s: rank %u sends %s checksums and this rank %s: give [comm] "
                        "checksum and that of the mesh axis the same value on all ranks",
                        c->name, rank, theirs->checked ? "with" : "without",
                        c->link->checked ? "with" : "without");
    for (uint32_t i = 0; i < theirs->channels; i++, digest += 2) {
        if (digest[0] != c->who)
            continue;
        if (digest[1] == c->what)
            return WEFT_OK;
        return err_fail(WEFT_PEER,
                        "channel %s: rank %u has other operations on it (kinds, counts, types or "
                        "algorithms differ); all ranks must run the same configuration and program",
                        c->name, rank);
    }
    return err_fail(WEFT_PEER,
                    "channel %s: rank %u has no channel of this name over the same ranks", c->name,
                    rank);
}

/* Finds the peer's buffer offsets of an operation executed by devices. Its k-th send to this rank
 * is this rank's k-th receive from it; collectives are equal on all ranks. */
static weft_status find_place(comm_op *op, uint32_t peer, const link_info *theirs)
{
    const comm_channel *c = op->channel;
    const info_place mine = place_of(op), *at = info_places(theirs);
    const int sends = mine.kind == WEFT_SEND, pair = sends || mine.kind == WEFT_RECV;
    uint32_t before = 0, seen = 0;
    for (uint32_t i = 0; c->link->ops.at[i] != op; i++) {
        const comm_op *o = c->link->ops.at[i];
        const info_place p = place_of(o);
        before += o->attached && o->channel == c && p.kind == mine.kind && p.root == mine.root;
    }
    const uint32_t kind = !pair ? mine.kind : sends ? WEFT_RECV : WEFT_SEND;
    const uint32_t root = pair ? c->me : mine.root;
    for (uint32_t i = 0; i < theirs->places; i++)
        if (at[i].who == c->who && at[i].kind == kind && at[i].root == root && seen++ == before) {
            op->where[peer] = at[i].at;
            return WEFT_OK;
        }
    return err_fail(WEFT_PEER, "%s: rank %u has no such operation on channel %s", op->name,
                    c->ranks[peer], c->name);
}

/* Whether the operation accesses the memory of this peer; then the two exchange messages. */
static bool maps_peer(const comm_op *op, uint32_t peer)
{
    if (!sched_maps_peers(op->schedule))
        return false;
    for (uint32_t i = 0; i < op->program.lanes; i++)
        if (op->program.lane[i].peer == peer)
            return true;
    return false;
}

static weft_status map_peer(comm_link *l, const comm_channel *c, uint32_t peer,
                            const link_info *theirs)
{
    uint32_t rank = c->ranks[peer];
    int needed = 0;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < l->ops.n && st == WEFT_OK; i++) {
        comm_op *op = l->ops.at[i];
        if (op->channel != c || !maps_peer(op, peer))
            continue;
        needed |= !op->attached;
        l->attaches[rank] |= op->attached != 0;
        if (op->attached)
            st = find_place(op, peer, theirs);
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

/* Gets the link_info of all peers before the first connection begins: a rank that waits for one
 * does not answer peers that connect to it. */
static weft_status get_infos(comm_link *l, link_info **infos, uint32_t meeting,
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
            weft_status st = get_info(l, rank, meeting, seconds, &infos[rank]);
            if (st != WEFT_OK) {
                err_context("channel %s", c->name);
                return st;
            }
        }
    }
    return WEFT_OK;
}

static weft_status begin_channel(comm_link *l, comm_channel *c, link_info **infos)
{
    for (uint32_t k = 0; k < c->n; k++) {
        uint32_t rank = c->ranks[k];
        if (k == c->me || !uses_peer(l, c, k))
            continue;
        weft_status st = compare(c, k, infos[rank]);
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

static weft_status await_ready(comm_link *l, uint64_t deadline_ns)
{
    for (;;) {
        uint32_t count, rank = 0;
        weft_status st = not_ready(l, &count, &rank);
        if (st != WEFT_OK || count == 0)
            return st;
        if (job_failure(l->world->job) != WEFT_OK)
            return WEFT_PEER;
        if (awake_ns() > deadline_ns) {
            char why[512];
            snprintf(why, sizeof why, "%s", err_text());
            return err_fail(WEFT_PEER,
                            "link %s: %u connections are not up in time, one to rank %u%s%s",
                            l->component->name, count, rank, why[0] ? ": " : "", why);
        }
        st = PLUGIN_CALL(l->table, wait, l->link, 0, WAIT_US, 0);
        if (st != WEFT_OK && st != WEFT_BUSY)
            return st;
    }
}

/* Maps the arena received from a rank. */
static weft_status attach_arena(comm_link *l, const comm_fd_passing_socket *box,
                                link_info *const *infos)
{
    const comm_staging *s = &l->world->arena.stage;
    uint32_t rank;
    void *base;
    int fd;
    weft_status st = comm_fd_passing_receive(box, &rank, &fd);
    if (st != WEFT_OK)
        return st;
    if (rank < l->world->who.ranks && l->attaches[rank] && !l->mapped[rank]) {
        st = PLUGIN_CALL(s->table, import_peer, s->device, fd, infos[rank]->device_bytes, &base);
        l->mapped[rank] = st == WEFT_OK ? base : NULL;
        l->mapped_bytes[rank] = infos[rank]->device_bytes;
    }
    close(fd);
    if (st != WEFT_OK)
        err_context("mapping the device memory of rank %u, without which 'mapped' is not possible "
                    "([comm] algorithm = pairwise goes through host memory)",
                    rank);
    return st;
}

/* Sends this rank's arena to every rank that maps it, and receives theirs. */
static weft_status attach_arenas(comm_link *l, const comm_fd_passing_socket *box,
                                 link_info *const *infos, uint64_t deadline_ns)
{
    const uint32_t ranks = l->world->who.ranks, me = l->world->who.rank;
    unsigned char *given = pool_array(&l->world->pool, ranks, 1);
    for (;;) {
        uint32_t left = 0, late = 0;
        weft_status st = WEFT_OK;
        for (uint32_t r = 0; r < ranks && st == WEFT_OK; r++) {
            if (l->attaches[r] && !given[r]) {
                st = comm_fd_passing_send(box, me, &infos[r]->pass, l->world->arena.stage.fd);
                given[r] = st == WEFT_OK;
                st = st == WEFT_BUSY ? WEFT_OK : st;
            }
            const int waits = l->attaches[r] && (!given[r] || !l->mapped[r]);
            late = waits ? r : late;
            left += (uint32_t)waits;
        }
        if (st == WEFT_OK && left)
            st = attach_arena(l, box, infos);
        if (st > WEFT_BUSY || !left)
            return job_failure(l->world->job) != WEFT_OK ? WEFT_PEER : st;
        if (st == WEFT_OK)
            continue;
        if (job_failure(l->world->job) != WEFT_OK)
            return WEFT_PEER;
        if (awake_ns() > deadline_ns)
            return err_fail(WEFT_PEER,
                            "link %s: %u arenas of devices have not come in time, one of "
                            "rank %u",
                            l->component->name, left, late);
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
}

static bool attaches_any(const comm_link *l)
{
    for (uint32_t i = 0; i < l->ops.n; i++)
        if (l->ops.at[i]->attached && l->ops.at[i]->program.lanes)
            return true;
    return false;
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
    weft_status st = attaches_any(l) ? comm_fd_passing_open(&box) : WEFT_OK;
    if (l->world->job) {
        if (st == WEFT_OK)
            st = register_memory(l);
        if (st == WEFT_OK && l->checked)
            st = comm_checked_prepare(l);
        if (st == WEFT_OK)
            st = put_info(l, meeting, &box);
    }
    link_info **infos = mem_alloc(ranks * sizeof *infos);
    if (st == WEFT_OK)
        st = get_infos(l, infos, meeting, deadline);
    for (uint32_t i = 0; i < l->channels.n && st == WEFT_OK; i++)
        st = begin_channel(l, l->channels.at[i], infos);
    if (st == WEFT_OK && attaches_any(l))
        st = attach_arenas(l, &box, infos, deadline);
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
    weft_status prepared = comm_staging_prepare(w);
    if (prepared != WEFT_OK)
        return prepared;
    for (uint32_t i = 0; i < w->links.n; i++) {
        weft_status st = connect_link(w->links.at[i], meeting, deadline);
        if (st != WEFT_OK)
            return st;
    }
    w->connected = 1;
    return WEFT_OK;
}
