/* tcp.h: the objects of the tcp transport, and what its files call of each other.
 *
 *   plugin.c     manifest, options, probe
 *   link.c       the link: listening socket, epoll, sleeping, abort
 *   listener.c   the socket that peers dial, and who is let wait at it
 *   address.c    where a rank listens, as bytes
 *   handshake.c  a new socket until it has proved itself: TLS, who is it, which connection
 *   connect.c    connections: begin, become ready, end
 *   move.c       messages over a connection that is up
 *
 * One socket carries one (peer, channel), both ways. Events are edge-triggered and each socket is
 * put into the epoll set once: `readable` and `writable` say that trying may help, and a call that
 * moved less than it asked for clears them. So a step costs no epoll_ctl, and a connection with
 * nothing to do costs no call at all. */
#ifndef TCP_TCP_H
#define TCP_TCP_H

#define _GNU_SOURCE 1 /* accept4, epoll_pwait2 */

#include <weft/handshake.h>
#include <weft/host.h>
#include <weft/link.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

enum {
    QUEUE = 128,                  /* posted messages that a connection holds each way */
    HEADER = 16,                  /* bytes before each message */
    HELLO = WEFT_HANDSHAKE_BYTES, /* bytes that a dialer says of itself */
    PLACES = 24,                  /* accepted sockets that have not proved themselves, at once */
    ADDRESS = 32,                 /* bytes of address() */
    WHY = 256,                    /* longest sentence */
    SLICE = 2 << 20, /* payload bytes that one call moves, so that connections share fairly */
    BATCH = 16,      /* messages that one call moves */
};

typedef struct tcp_module {
    const weft_host *host;
} tcp_module;

/* What an epoll event points at. */
enum source_kind { SOURCE_LISTENER, SOURCE_WAKE, SOURCE_GREETING, SOURCE_CONN };
typedef struct source {
    int kind, fd;
    bool readable, writable;
    bool heard; /* something has come */
    bool ended; /* the end of the stream follows what can be read: no further event will say so */
} source;

typedef union endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} endpoint;

/* One direction of a connection: messages posted - done, the first of them moved up to `at` bytes,
 * header included. `head` holds the header to send, or the one being received. */
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
    source io; /* first */
    weft_link *link;
    weft_conn *next;
    weft_tls *tls;             /* the payload's, with encrypt = on; else NULL */
    struct greeting *greeting; /* the socket that will become this connection's, once known */
    uint32_t peer, channel;
    endpoint to; /* where the peer listens */
    bool up;
    uint32_t attempts;  /* dialed in vain, so often */
    uint64_t dial_at;   /* us: the next attempt, while there is no greeting */
    weft_status broken; /* not WEFT_OK: every call answers this and `why` */
    uint64_t seen;      /* the link's event round when progress() last looked */
    queue out, in;
    char why[WHY];
};

/* A socket on its way to a connection. Dialers know their connection from the start, accepted
 * sockets are matched to one by what they say. */
enum phase { DIALING, SHAKING, HELLOING, MATCHING, ANSWERING, GOING };
typedef struct greeting {
    source io; /* first */
    struct greeting *next;
    weft_conn *conn; /* NULL: accepted and not matched yet */
    weft_tls *tls;
    enum phase phase;
    bool dialer, proved; /* proved: holds the job's key */
    uint32_t moved;      /* bytes of `text` in this phase */
    uint32_t rank, channel;
    uint64_t began; /* the link's setup clock, ms */
    bool final;     /* why it failed does not change with another attempt */
    uint8_t text[HELLO];
    char where[80]; /* the other end, for messages */
    char why[160];  /* why it failed, if we know */
} greeting;

struct weft_link {
    const weft_host *host;
    const weft_host_tls *tls;
    uint32_t rank, ranks;
    bool encrypt;
    int sndbuf, rcvbuf;
    int epoll;
    source listener, waker;
    endpoint bound;
    char job[128];
    weft_conn *conns;
    greeting *greetings;
    uint32_t strangers;     /* accepted and not proved */
    uint32_t dropped;       /* of them, those that broke the protocol */
    uint32_t turned_away;   /* of them, those that gave way to others */
    bool settled;           /* no connection is on its way up */
    bool listening;         /* epoll watches the listener */
    uint64_t round;         /* epoll_wait calls so far */
    uint64_t clock, ticked; /* ms that were spent looking at new sockets; when that was last */
    atomic_bool aborted, woken;
    pthread_mutex_t lock; /* list and descriptors of the connections, against abort() */
};

/* link.c */
weft_status tcp_create(void *module, const weft_link_args *args, weft_link **out);
void tcp_destroy(weft_link *l);
weft_status tcp_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us);
void tcp_wake(weft_link *l);
void tcp_abort(weft_link *l);
weft_status tcp_fail(const weft_host *host, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int tcp_events(weft_link *l, int64_t timeout_us); /* take events into the flags; their number */
weft_status tcp_watch(weft_link *l, source *s, int op);
uint64_t tcp_now_us(void);

/* listener.c */
weft_status tcp_open_listener(weft_link *l);
void tcp_close_listener(weft_link *l);
weft_status tcp_listen(weft_link *l); /* open it when a connection waits for its peer */
void tcp_settle(weft_link *l);        /* close it when none does, and watch it for free places */
void tcp_accept(weft_link *l);

/* address.c */
weft_status tcp_parse(const weft_host *host, const char *text, endpoint *out);
void tcp_pack(const endpoint *e, uint8_t out[ADDRESS]);
weft_status tcp_unpack(weft_link *l, uint32_t peer, const void *in, uint64_t bytes, endpoint *out);
socklen_t tcp_length(const endpoint *e);
void tcp_print(const endpoint *e, char *out, size_t size);

/* handshake.c */
void tcp_accepted(weft_link *l, int fd, const endpoint *from); /* an accepted socket */
weft_status tcp_dial(weft_conn *c);        /* begin an attempt; one that fails later is repeated */
void tcp_handshake_step(weft_link *l);     /* take every greeting as far as it goes */
uint32_t tcp_pause_us(const weft_link *l); /* until tcp_handshake_step() has to look again */
void tcp_drop_handshake(weft_link *l, greeting *g);

/* connect.c */
weft_status tcp_address(weft_link *l, void *out, uint64_t *bytes);
weft_status tcp_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                        uint64_t bytes, weft_conn **out);
weft_status tcp_ready(weft_conn *c);
void tcp_disconnect(weft_conn *c);
weft_status tcp_break(weft_conn *c, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
weft_status tcp_usable(weft_conn *c); /* not broken and not aborted */
void tcp_adopt(weft_conn *c, int fd, weft_tls *tls);

/* move.c */
weft_status tcp_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region);
weft_status tcp_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region);
weft_status tcp_progress(weft_conn *c, uint64_t *sent, uint64_t *received);
bool tcp_can_move(const weft_conn *c);

#endif
