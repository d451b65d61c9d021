/* tcp.h: the objects of the tcp transport, and what its files call of each other.
 *
 *   plugin.c   manifest, options, probe
 *   link.c     the link: create, destroy, sleep
 *   connect.c  connections: begin, become ready, end
 *   move.c     messages over a connection that is up
 *
 * One socket carries one (peer, channel), both ways. plugins/comm/sockets opens, authenticates and
 * watches it. Its events are edge-triggered: `readable` and `writable` mean that a try may succeed,
 * and a call that moves less than it asked for clears them. So a step costs no epoll_ctl(), and a
 * connection without work costs no system call. */
#ifndef TCP_TCP_H
#define TCP_TCP_H

#include "sockets.h"

enum {
    QUEUE = 128,     /* posted messages that a connection holds each way */
    HEADER = 16,     /* bytes before each message */
    SLICE = 2 << 20, /* payload bytes that one call moves, so that connections share fairly */
    BATCH = 16,      /* messages that one call moves */
};

typedef struct tcp_module {
    const weft_host *host;
} tcp_module;

/* One direction of a connection. Messages done to posted are unfinished; `at` bytes of the first of
 * them have moved, header included. `head` is the header to send, or the one that is received. */
typedef struct message {
    uint8_t *at;
    uint64_t bytes;
    uint8_t head[HEADER];
} message;
typedef struct queue {
    uint64_t posted, done, at;
    message m[QUEUE];
} queue;

struct weft_conn {
    sockets_peer peer; /* first */
    uint64_t seen;     /* the link's event round when progress() last looked */
    queue out, in;
};

struct weft_link {
    sockets_link net;
};

static inline weft_conn *tcp_first(const weft_link *l)
{
    return (weft_conn *)l->net.peers;
}

static inline weft_conn *tcp_next(const weft_conn *c)
{
    return (weft_conn *)c->peer.next;
}

/* link.c */
weft_status tcp_create(void *module, const weft_link_args *args, weft_link **out);
void tcp_destroy(weft_link *l);
weft_status tcp_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us);
void tcp_wake(weft_link *l);
void tcp_abort(weft_link *l);

/* connect.c */
weft_status tcp_address(weft_link *l, void *out, uint64_t *bytes);
weft_status tcp_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                        uint64_t bytes, weft_conn **out);
weft_status tcp_ready(weft_conn *c);
void tcp_disconnect(weft_conn *c);

/* move.c */
weft_status tcp_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region);
weft_status tcp_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region);
weft_status tcp_progress(weft_conn *c, uint64_t *sent, uint64_t *received);
bool tcp_can_move(const weft_conn *c); /* progress() has something to do or to report */

#endif
