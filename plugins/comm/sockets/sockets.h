/* sockets.h: authenticated TCP sockets between the ranks of a job, for transports.
 *
 * A transport (tcp, verbs, ucx) needs one connected socket for each (peer, channel). The files of
 * this folder listen, dial, authenticate, retry, and report events; the transport moves the
 * payload. They are a static library: each plugin contains a copy of its own, with hidden symbols.
 *
 *   failure.c    errors as sentences, of the link or of one peer
 *   address.c    an address as text from the user, as bytes for the peers, as text in messages
 *   events.c     the epoll set, the clock, wake
 *   pending.c    the list of pending connections; dialing and redialing
 *   handshake.c  the steps that turn a pending connection into an authenticated one
 *   listener.c   the listening socket, and how many unauthenticated sockets it admits
 *   connect.c    peers: begin, become ready, end
 *   link.c       one rank's end: open, abort, close
 *
 * Use. A transport embeds sockets_link in its weft_link, and sockets_peer as the first member of
 * its weft_conn, so that one pointer converts to the other. It describes itself once, in a
 * sockets_transport. The calls of weft/link.h map to calls here:
 *
 *   create, destroy       sockets_open, sockets_close
 *   address               sockets_address
 *   connect, disconnect   sockets_peer_init and sockets_connect, sockets_disconnect
 *   ready                 sockets_events, sockets_ready
 *   wait                  sockets_has_work, sockets_events, sockets_pause_us
 *   wake, abort           sockets_wake, sockets_abort
 *
 * While payload moves, a transport calls only sockets_usable(), and sockets_events() when nothing
 * can move.
 *
 * States. A pending connection is a socket that does not belong to a peer yet. It goes through the
 * phases below, in this order; weft/handshake.h has the protocol.
 *
 *   phase               the dialer (higher rank)            the listener (lower rank)
 *   SOCKETS_CONNECTING  waits for connect()                 -
 *   SOCKETS_TLS         TLS handshake with the job's key    the same
 *   SOCKETS_HELLO       writes its hello                    reads it; the socket is authenticated
 *   SOCKETS_MATCHING    -                                   waits until the core asks for this peer
 *   SOCKETS_ANSWERING   reads the answer                    writes it
 *   SOCKETS_CONFIRMING  writes one byte                     reads it
 *
 * After the last phase the peer has the descriptor and is `up`. An attempt may fail for a cause
 * that passes: the connection cannot be made yet, was closed, or gets no answer. Then it is
 * repeated after a pause. So is one that is refused, for two seconds: a rank whose connections are
 * all up does not listen until its next connect(). Any other failure (another key, another version,
 * no listener for longer) makes the peer `broken`, which is final: every later call on it returns
 * the same status and sentence.
 *
 * Ownership. The transport allocates and frees links and peers. The library owns the descriptors,
 * TLS sessions and pending connections within them. sockets_disconnect() and sockets_close()
 * release these, also after a call that failed.
 *
 * Threads. One thread at a time, as weft/link.h says; any thread may call sockets_wake()
 * and sockets_abort(). The latter only reads the list of peers and their descriptors, under `lock`.
 */
#ifndef SOCKETS_SOCKETS_H
#define SOCKETS_SOCKETS_H

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
    SOCKETS_ADDRESS = 32,         /* bytes of address() */
    SOCKETS_EXTRA = 512,          /* most bytes behind a hello or an answer */
    SOCKETS_UNAUTHENTICATED = 24, /* accepted sockets that are not authenticated, at once */
    SOCKETS_TEXT = 400,           /* bytes of the longest sentence */
    SOCKETS_GAP_US = 10000,       /* see sockets_gap_us(); also the longest sleep meanwhile */
};

/* --- what a transport states about itself --- */

typedef struct sockets_link sockets_link;
typedef struct sockets_peer sockets_peer;

typedef struct sockets_transport {
    const char *name; /* in messages, and in the label of the TLS session */
    const char *address_magic, *message_magic; /* four bytes each: of address(), of a hello */
    uint32_t extra;             /* bytes that follow each hello and answer; 0: none */
    uint8_t code_options;       /* the answer where hello_code differs; 0: it is not compared */
    uint8_t code_unexpected;    /* the answer to a rank that does not dial this one */
    const char *options_differ; /* what a dialer reports for code_options */
    char abort_byte;            /* sent to each peer by sockets_abort(); 0: none */
    bool small_buffers; /* the sockets carry no payload: keep the kernel's receive buffers small */

    /* Write `extra` bytes about this end of the connection. Used where extra > 0. */
    void (*describe)(const sockets_peer *p, uint8_t *out);

    /* Take what the other end has written with describe(). The listener calls it before it answers,
     * the dialer before it confirms; a new attempt calls it again. A failure is final: it has made
     * the peer broken. Used where extra > 0. */
    weft_status (*join)(sockets_peer *p, const uint8_t *theirs);
} sockets_transport;

/* --- objects; a transport reads them --- */

/* What a descriptor in the epoll set is. SOCKETS_OTHER: one of the transport's. */
enum sockets_kind { SOCKETS_LISTENER, SOCKETS_WAKE, SOCKETS_PENDING, SOCKETS_PEER, SOCKETS_OTHER };

/* A descriptor in the epoll set. Pending connections and peers are edge-triggered, the others
 * level-triggered. `readable` and `writable` mean that a try may succeed: sockets_events() sets
 * them, and the caller whose read or write moves less than asked for clears them. */
typedef struct sockets_source {
    int kind, fd;
    bool readable, writable;
    bool received; /* data has come at least once */
    bool ended;    /* the end of the stream follows what can be read; no further event reports it */
} sockets_source;

typedef union sockets_endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} sockets_endpoint;

struct sockets_peer {
    sockets_source io; /* first; its fd is -1 until the peer is up */
    sockets_link *link;
    sockets_peer *next;
    weft_tls *tls;                   /* the session, where the link keeps it; else NULL */
    struct sockets_pending *pending; /* the socket that becomes this peer's, once known */
    uint32_t rank, channel;
    sockets_endpoint to; /* where the peer listens */
    bool up;
    weft_status broken;  /* not WEFT_OK: final, with the sentence in `why` */
    uint32_t attempts;   /* that failed */
    uint64_t dial_at;    /* us: start of this attempt, or of the next one while none is pending */
    uint64_t refused_at; /* the link's setup_ms when first there was no listener; 0: there was */
    char why[SOCKETS_TEXT]; /* until up: why the last attempt failed */
};

enum sockets_phase {
    SOCKETS_CONNECTING,
    SOCKETS_TLS,
    SOCKETS_HELLO,
    SOCKETS_MATCHING,
    SOCKETS_ANSWERING,
    SOCKETS_CONFIRMING
};

typedef struct sockets_pending {
    sockets_source io; /* first */
    struct sockets_pending *next;
    sockets_peer *peer; /* NULL: accepted and not matched yet */
    weft_tls *tls;
    enum sockets_phase phase;
    bool dialer, authenticated; /* authenticated: the other end has the job's key */
    bool final;                 /* another attempt would fail alike */
    uint32_t rank, channel;
    uint32_t moved;    /* bytes of `message` in this phase */
    uint64_t began_ms; /* the link's setup_ms at the start */
    uint8_t message[WEFT_HANDSHAKE_BYTES + SOCKETS_EXTRA];
    char where[80];         /* the other end, for messages */
    char why[SOCKETS_TEXT]; /* why it failed, if known */
} sockets_pending;

struct sockets_link {
    uint8_t hello_code; /* set before sockets_open(): options that both ends need ... */
    bool keep_tls;      /* ... whether peers keep their TLS sessions ... */
    bool one_machine;   /* ... whether no bytes leave the machine ... */
    int send_buffer, receive_buffer; /* ... and bytes of the kernel's buffers; 0: its choice */

    const sockets_transport *transport;
    const weft_host *host;
    const weft_host_tls *tls;
    uint32_t rank, ranks;
    int epoll;
    sockets_source listener, waker;
    sockets_endpoint bound; /* where this rank listens */
    char job[128];
    sockets_peer *peers;
    sockets_pending *pending;
    uint32_t unauthenticated; /* accepted sockets in `pending` that are not authenticated */
    uint32_t failed, evicted; /* accepted sockets so far that failed; that were closed for others */
    bool settled;             /* every peer is up or broken */
    bool admitting;           /* the epoll set watches the listener */
    uint64_t round;           /* calls of sockets_events() */
    /* The age of pending connections counts only time in which this rank handles them. Between two
     * calls of ready() it may compute for seconds or be stopped, and no peer may be evicted or
     * given up for that. */
    uint64_t setup_ms, looked_ms; /* that time; when it was last updated */
    atomic_bool aborted, woken;
    pthread_mutex_t lock; /* the list of peers and their descriptors, for sockets_abort() */
};

/* --- for a transport: failure.c --- */

/* Record a sentence and return `code`. */
weft_status sockets_fail(const weft_host *host, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Make a peer broken; the first reason stays. Returns the peer's status. The sentence is recorded
 * by the next sockets_usable(). */
weft_status sockets_break(sockets_peer *p, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* WEFT_OK: not aborted, and the peer not broken; else the status, with its sentence recorded. */
weft_status sockets_usable(const sockets_peer *p);
weft_status sockets_link_usable(const sockets_link *l);

/* The host's table for TLS; NULL and a recorded sentence where it has none. */
const weft_host_tls *sockets_tls(const weft_host *host, const char *transport);

/* --- address.c --- */

/* One numeric address, without a port; a wildcard is an error. */
weft_status sockets_parse(const weft_host *host, const char *transport, const char *text,
                          sockets_endpoint *out);
weft_status sockets_address(const sockets_link *l, void *out, uint64_t *bytes);
weft_status sockets_unpack(const sockets_link *l, uint32_t rank, const void *in, uint64_t bytes,
                           sockets_endpoint *out);
socklen_t sockets_length(const sockets_endpoint *e);
void sockets_print(const sockets_endpoint *e, char *out, size_t size); /* port 0 is left out */

/* --- events.c --- */

uint64_t sockets_now_us(void); /* of the monotonic clock */

/* What counts of the time since the last look, which is at *looked, 0 at first: SOCKETS_GAP_US at
 * most. Deadlines of peers are sums of it, with a look for their messages in each: a rank may
 * compute or be stopped between two looks, and what came meanwhile is still to be found. */
uint64_t sockets_gap_us(uint64_t *looked);
weft_status sockets_watch(sockets_link *l, sockets_source *s, int epoll_operation);
int sockets_events(sockets_link *l, int64_t timeout_us); /* set the flags of sources; how many */
bool sockets_has_work(sockets_link *l); /* sockets_ready() has work, or wake or abort was called */
void sockets_wake(sockets_link *l);     /* [any] */

/* --- link.c --- */

/* Begin to listen. sockets_close() follows in any case, after all peers are disconnected. */
weft_status sockets_open(sockets_link *l, const weft_host *host, const sockets_transport *transport,
                         const weft_link_args *args);
void sockets_close(sockets_link *l);
void sockets_abort(sockets_link *l); /* end the stream of every peer, and wake. [any] */

/* --- connect.c --- */

/* Fill a zeroed peer from the arguments of connect(). sockets_disconnect() follows in any case. */
weft_status sockets_peer_init(sockets_link *l, sockets_peer *p, uint32_t rank, uint32_t channel,
                              const void *address, uint64_t bytes);
weft_status sockets_connect(sockets_peer *p); /* dial, or listen for the peer */
weft_status sockets_ready(sockets_peer *p);   /* advance all handshakes; is this peer up? */
void sockets_disconnect(sockets_peer *p);

/* --- pending.c --- */

uint32_t sockets_pause_us(const sockets_link *l); /* until sockets_ready() has to be called again */

/* --- between the files of this folder --- */

sockets_pending *sockets_pending_add(sockets_link *l, int fd, bool dialer,
                                     const sockets_endpoint *other); /* takes the descriptor */
void sockets_pending_drop(sockets_link *l, sockets_pending *c);
void sockets_authenticated(sockets_link *l,
                           sockets_pending *c); /* it no longer counts as unauthenticated */
weft_status sockets_dial(sockets_peer *p); /* begin an attempt; one that fails later is repeated */
void sockets_retry_later(sockets_peer *p, const char *why);
void sockets_redial(sockets_link *l, uint64_t now_us); /* attempts whose pause is over */
void sockets_handshake(sockets_link *l);               /* advance all pending connections */
weft_status sockets_listen(sockets_link *l);           /* open the listener if it is closed */
void sockets_pause_listener(sockets_link *l); /* close it, or pause it, where it is not needed */
void sockets_accept(sockets_link *l);

#endif
