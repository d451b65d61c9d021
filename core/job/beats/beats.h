/* job/beats/beats.h: the heartbeats of a rank other than 0 (decide/tree.h has the tree).
 *
 *   beats.c     when to send which beat, and what is known of rank 0
 *   parent.c    the connection to the parent: dialing, handshake, its beats
 *   children.c  the connections of the children: the door, their beats, which of them are silent
 *   frame.h     the bytes of a beat
 *
 * A rank with children listens before it says hello to the store, which tells each child at the end
 * of the meeting where its parent listens. The child then dials, beside the work of the job: until
 * it is connected, and whenever the connection fails, rank 0 watches it over the connection of the
 * store. So a network in which two ranks cannot reach each other costs rank 0 some beats, and
 * nothing else.
 *
 * The handshake is the store's (wire/door.h): greeting, TLS 1.3, hello, welcome. Its key derives
 * from the job key, the number of the meeting and the parent's rank. A rank stops to listen when
 * all of its children are connected, or run.join_timeout after the meeting.
 *
 * All calls are made with the job lock held, by the job's thread unless another is named. */
#ifndef JOB_BEATS_H
#define JOB_BEATS_H

#include <sys/socket.h>

#include "job/beats/frame.h"
#include "job/decide/tree.h"
#include "job/state.h"
#include "job/wire/door.h"
#include "job/wire/key.h"

typedef struct job_beats_child {
    job_peer *p; /* NULL: it has not connected */
    job_watch watch;
} job_beats_child;

typedef struct job_beats_children {
    uint32_t first, n, connected;
    job_beats_child *at; /* [n] by rank - first */
    job_door door;
    uint8_t key[KEY_BYTES];
    uint64_t close_at; /* awake_ms() at which the door is closed; 0: it is not open yet */
    uint64_t passed;   /* number of the last beat that was sent down */
    uint64_t sent;     /* awake_ms() of it */
} job_beats_children;

typedef enum job_beats_phase {
    BEATS_OFF, /* there is no parent but rank 0, or it was given up */
    BEATS_PAUSE,
    BEATS_CONNECT,
    BEATS_GREETING,
    BEATS_SHAKE,
    BEATS_WELCOME,
    BEATS_UP,
} job_beats_phase;

typedef struct job_beats_parent {
    job_beats_phase phase;
    job_wire w;
    job_greeting hail;
    uint8_t key[KEY_BYTES];
    struct sockaddr_storage to;
    socklen_t to_bytes;
    uint32_t watched; /* epoll events of w.fd */
    bool ready;       /* one of them has come */
    bool was_up;
    uint32_t attempts; /* that have failed */
    uint64_t until;    /* awake_ms() at which the phase ends */
    uint64_t give_up;
    uint64_t sent; /* awake_ms() of the last beat */
} job_beats_parent;

typedef struct job_beats {
    job *j;
    job_tree tree;
    job_wire *store;  /* the connection to rank 0 */
    int epoll_fd;     /* of parent and children; -1: there is neither */
    uint64_t process; /* job_wire_hello */
    job_beat_root root;
    uint64_t last_seen; /* job.clock when rank 0 was last heard, or its number has changed */
    uint64_t asked;     /* awake_ms() of the last beat over `store` */
    job_beats_parent parent;
    job_beats_children children;
    job_beat_mark *known; /* of ranks below, by rank; NULL: there are none ... */
    bool *fresh;          /* ... whether it is news for the parent ... */
    uint32_t *news;       /* ... and the ranks of which it is, `news_n` of them */
    uint32_t news_n;
} job_beats;

/* `rank0` is the connection to it, which may open later. [setup] */
weft_status job_beats_open(job *j, job_wire *rank0, job_beats **out);
void job_beats_close(job_beats *b); /* NULL allowed */

/* Before each hello: listen on the address that the connection to rank 0 has, or that [run] address
 * names. Where that fails, or nobody would connect, the place is empty. [setup] */
void job_beats_listen(job_beats *b, job_place *out);

/* All ranks have met; `parent` is where the parent listens. Admit children and dial. */
void job_beats_begin(job_beats *b, const job_place *parent);

/* Rank 0 was heard over the store's connection. */
void job_beats_root_seen(job_beats *b);

/* A beat of rank 0. False: malformed. */
bool job_beats_take(job_beats *b, const job_wire_frame *f);

/* Pack this rank's mark, for its first frame after the welcome. [setup] */
void job_beats_mark(const job_beats *b, uint8_t out[BEAT_UP_BYTES]);

/* Handle what has come, send what is due. Call it when epoll_fd is readable and after
 * job_beats_sleep(). True: rank 0 is frozen, for *silent milliseconds. */
bool job_beats_turn(job_beats *b, uint64_t *silent);

/* Milliseconds until the next turn is due. */
int job_beats_sleep(const job_beats *b);

/* --- between the files of this folder --- */

void job_parent_begin(job_beats *b, const job_place *at);
void job_parent_turn(job_beats *b); /* events, timeouts and the next attempt */
void job_parent_close(job_beats *b);

void job_children_prepare(job_beats *b);
void job_children_listen(job_beats *b, const char *address, job_place *out);
void job_children_begin(job_beats *b);
void job_children_event(job_beats *b, void *what); /* the pointer of an epoll event */
void job_children_turn(job_beats *b);              /* judge them, send beats down */
void job_children_close(job_beats *b);

#endif
