/* job/wire/door.h: listening sockets that anyone may connect to, and who gets in.
 *
 * A connection is a stranger until it has finished the TLS handshake and sent a first frame. A
 * stranger's resources are bounded: one of 24 places, 2 s, 2 KiB read, a small receive buffer in
 * the kernel, and a TLS session only once it has sent something. When all places are taken, the
 * oldest stranger that has not finished its handshake within 25 ms is evicted, so idle or slow
 * connections block nobody; the rest waits in the kernel. One that is evicted tries again. Each
 * connection has its own key (handshake.h), so a recorded handshake cannot be replayed.
 *
 * The store of rank 0 has a door, and so has each rank with children in the tree of heartbeats. The
 * owner has an epoll set: it hands its events for the listener and for strangers to the door, and
 * decides on the first frame. Not for several threads at once. */
#ifndef JOB_DOOR_H
#define JOB_DOOR_H

#include "job/wire/handshake.h"
#include "job/wire/wire.h"

#define DOOR_SOCKETS 8   /* addresses to listen at, at most */
#define STRANGERS_MAX 24 /* connections not admitted yet, at once at most */
#define STRANGER_MS 2000 /* timeout from connection to first frame */
#define STRANGER_AGE 25  /* no handshake for so long: evicted when all places are taken */

typedef struct job_peer { /* one accepted connection */
    job_wire w;           /* no session until the first bytes have arrived */
    job_greeting hail;    /* the greeting that it was sent */
    uint32_t interest;    /* its epoll events */
    uint32_t rank;        /* once it is admitted */
    uint32_t seq;         /* of the request that has no reply yet */
    bool asked;           /* such a request is pending */
    bool admitted;        /* it belongs to a rank */
    uint64_t since;       /* awake_ms() of its arrival */
} job_peer;

typedef struct job_door {
    int listens[DOOR_SOCKETS]; /* the first `sockets` of them; none: it is closed */
    uint32_t sockets;
    int epoll_fd;         /* of the owner */
    bool listening;       /* it watches them */
    job_tls_context *tls; /* of the owner, as are the next two */
    const uint8_t *key;   /* of the job or of a use of it */
    const char *sealed;   /* for greetings: the key sealed by munge, or "" */
    job_peer *strangers[STRANGERS_MAX];
    uint64_t ticked;      /* awake_ms() of the last look at all strangers */
    uint64_t turned_away; /* connections that failed to prove the key */
    char last_away[64];   /* address of the last of these */
} job_door;

/* Allocate the places. `d->epoll_fd` and the sockets may be set later. */
void job_door_prepare(job_door *d, job_tls_context *tls, const uint8_t *key, const char *sealed);

/* Stop to listen and drop all strangers; idempotent. job_door_free() also frees the places. */
void job_door_close(job_door *d);
void job_door_free(job_door *d);

/* Watch the sockets with `d` as the event's pointer. WEFT_IO: not possible. */
weft_status job_door_watch(job_door *d);

/* Accept what waits at the sockets. */
void job_door_let_in(job_door *d);

/* Drop strangers whose time is over, and watch the sockets again once there is a place. Call it in
 * each turn of the owner's loop, and every STRANGER_AGE while `listening` is false. */
void job_door_turn(job_door *d);

/* The place of a stranger; -1: the connection is none. */
int job_door_place(const job_door *d, const job_peer *p);

/* Advance a stranger. WEFT_OK: its first frame is here, and valid until it is dropped or admitted.
 * WEFT_BUSY: not yet. Otherwise it was dropped. */
weft_status job_door_advance(job_door *d, int place, job_wire_frame *out);

/* The frame was not what the owner expects: the connection counts as turned away. */
void job_door_turn_away(job_door *d, int place, const char *why);

/* Take an admitted stranger out of its place; the owner owns it from now on. The place gets
 * `spare`, a dropped connection to which an event may still point, or a new one where that is NULL.
 */
job_peer *job_door_admit(job_door *d, int place, uint32_t rank, job_peer *spare);

/* --- connections --- */

/* Tell epoll which events the connection waits for; `p` is the event's pointer. */
void job_peer_watch(int epoll_fd, job_peer *p);

/* Close the connection, which removes it from epoll; idempotent. */
void job_peer_drop(job_peer *p);

#endif
