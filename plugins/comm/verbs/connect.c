/* connect.c: connections, from the core's request to their end. The lower rank of a pair listens,
 * the higher dials. A connection that failed stays failed, with the sentence that says why. */
#include "verbs.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

weft_status verbs_address(weft_link *l, void *out, uint64_t *bytes)
{
    if (*bytes < ADDRESS)
        return verbs_fail(l->host, WEFT_USAGE, "an address of verbs takes %d bytes", ADDRESS);
    verbs_pack(&l->bound, out);
    *bytes = ADDRESS;
    return WEFT_OK;
}

weft_status verbs_usable(weft_conn *c)
{
    weft_link *l = c->link;
    if (atomic_load_explicit(&l->aborted, memory_order_relaxed))
        return verbs_fail(l->host, WEFT_PEER, "this rank has given its verbs connections up");
    if (c->broken != WEFT_OK)
        return l->host->fail(l->host->ctx, c->broken, c->why);
    return WEFT_OK;
}

weft_status verbs_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                          uint64_t bytes, weft_conn **out)
{
    endpoint to;
    if (peer == l->rank || peer >= l->ranks)
        return verbs_fail(l->host, WEFT_USAGE, "verbs was to connect rank %u with rank %u of %u",
                          l->rank, peer, l->ranks);
    weft_status st = verbs_unpack(l, peer, address, bytes, &to);
    if (st != WEFT_OK)
        return st;
    weft_conn *c = l->host->alloc(l->host->ctx, sizeof *c, 64);
    if (!c)
        return verbs_fail(l->host, WEFT_NO_MEMORY, "no memory for a connection");
    c->line = (source){.kind = SOURCE_LINE, .fd = -1};
    c->link = l;
    c->peer = peer;
    c->channel = channel;
    c->to = to;
    st = verbs_make_pairs(c);
    if (st != WEFT_OK) {
        verbs_free_pairs(c);
        l->host->free(l->host->ctx, c);
        return st;
    }
    pthread_mutex_lock(&l->lock);
    c->next = l->conns;
    l->conns = c;
    pthread_mutex_unlock(&l->lock);
    l->settled = false;
    st = peer < l->rank ? verbs_dial(c) : verbs_listen(l);
    if (st != WEFT_OK) {
        verbs_disconnect(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

weft_status verbs_ready(weft_conn *c)
{
    weft_link *l = c->link;
    weft_status st = verbs_usable(c);
    if (st != WEFT_OK || c->up)
        return st;
    verbs_events(l, 0);
    verbs_handshake_step(l);
    if (l->listener.readable || l->strangers == PLACES) {
        verbs_accept(l);
        verbs_handshake_step(l);
    }
    verbs_settle(l);
    st = verbs_usable(c);
    if (st != WEFT_OK || c->up)
        return st;
    return c->why[0] != '\0' ? l->host->fail(l->host->ctx, WEFT_BUSY, c->why) : WEFT_BUSY;
}

/* The socket has proved itself and is the connection's side channel from here on. */
void verbs_adopt(weft_conn *c, int fd)
{
    pthread_mutex_lock(&c->link->lock);
    c->line = (source){.kind = SOURCE_LINE, .fd = fd, .readable = true};
    if (atomic_load(&c->link->aborted))
        shutdown(fd, SHUT_RDWR);
    pthread_mutex_unlock(&c->link->lock);
    c->up = true;
    c->why[0] = '\0';
    if (verbs_watch(c->link, &c->line, EPOLL_CTL_MOD) != WEFT_OK)
        (void)!verbs_break(c, WEFT_IO, "the side channel to rank %u cannot be watched", c->peer);
}

static bool drained(const weft_conn *c)
{
    for (uint32_t i = 0; i < c->pairs; i++)
        if (c->pair[i].done < c->pair[i].posted)
            return false;
    return true;
}

/* Short messages count as sent once they are posted; a queue pair that is destroyed would take them
 * along. So whatever may not have arrived is waited for, by a request with a word behind it. */
static void drain(weft_conn *c)
{
    uint64_t until = verbs_now_us() + DRAIN_US;
    bool alive = c->up && c->broken == WEFT_OK && !atomic_load(&c->link->aborted);
    for (uint32_t i = 0; alive && i < c->pairs; i++) {
        struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
        wr.wr.rdma.remote_addr = c->theirs.slots_at;
        wr.wr.rdma.rkey = c->theirs.slots_key;
        if (c->pair[i].spoke < c->pair[i].posted && verbs_room(&c->pair[i]))
            (void)!verbs_post(c, i, OP_LAST, &wr, true);
    }
    while (alive && !drained(c) && c->broken == WEFT_OK && c->gone == GONE_NOT &&
           verbs_now_us() < until)
        if (!verbs_poll(c))
            verbs_events(c->link, 100);
    if (alive && c->broken == WEFT_OK)
        (void)!send(c->line.fd, "B", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void verbs_disconnect(weft_conn *c)
{
    if (!c)
        return;
    weft_link *l = c->link;
    drain(c);
    pthread_mutex_lock(&l->lock);
    weft_conn **at = &l->conns;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (c->line.fd >= 0)
        close(c->line.fd);
    pthread_mutex_unlock(&l->lock);
    if (c->greeting)
        verbs_drop_handshake(l, c->greeting);
    verbs_free_pairs(c);
    verbs_settle(l);
    l->host->free(l->host->ctx, c);
}
