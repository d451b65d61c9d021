/* job/members.h: the connections of rank 0, shared by server.c, which admits ranks, and members.c,
 * which serves them.
 *
 * All calls are made with the job lock held, by the thread of rank 0 unless another is named.
 * members.c asks decide/ what an observation means and acts on the event: it sends frames to the
 * ranks, records a failure or ends the waits of this rank. */
#ifndef JOB_MEMBERS_H
#define JOB_MEMBERS_H

#include "job/decide/event.h"
#include "job/state.h"
#include "job/store/gather.h"
#include "job/wire/handshake.h"

#define STRANGERS_MAX 24 /* connections not admitted yet, at once at most */
#define STRANGER_MS 2000 /* timeout from connection to hello */
#define STRANGER_AGE 25  /* no handshake for so long: evicted when all places are taken */

typedef struct peer {  /* one connection */
    wire w;            /* no session until the first bytes have arrived */
    greeting hail;     /* the greeting that it was sent */
    uint32_t interest; /* its epoll events */
    uint32_t rank;     /* once it is a member */
    uint32_t seq;      /* of the request that has no reply yet */
    bool asked;        /* such a request is pending */
    bool admitted;     /* it belongs to a member */
    uint64_t since;    /* clock_ms() of its arrival */
} peer;

typedef struct member { /* one rank; rank 0 has no connection */
    peer *p;
    bool joined;      /* admitted */
    bool confirmed;   /* has sent a frame since the welcome, so it knows that it is admitted */
    bool told;        /* was told why the job cannot begin */
    uint64_t process; /* job_wire_hello */
    char host[HOST_BYTES];
    bool bye, well; /* bye: it has left; well: with WEFT_OK */
    uint64_t alive; /* job.clock at its last sign of life */
    uint64_t beat;  /* clock_ms() of our last heartbeat to it */
    uint64_t step, place;
    bool held;      /* it begins no further step until the last is known (decide/agreement.h) */
    uint64_t begun; /* ... and has begun this one */
} member;

struct server {
    store *store;
    gathers *gathers;
    member *members;          /* by rank */
    uint32_t confirmed, left; /* numbers of ranks */
    bool hosts;               /* the ranks have different host names */
    int listen_fd, epoll_fd;
    bool listening; /* epoll watches listen_fd */
    peer *strangers[STRANGERS_MAX];
    uint64_t turned_away; /* connections that failed to prove the key */
    char last_away[64];   /* address of the last of these */
};

/* Tell epoll which events the connection waits for. */
void job_members_watch(job *j, peer *p);

/* Read and handle all frames received from the rank of `p`. */
void job_member_event(job *j, peer *p);

/* The connection of an admitted rank has ended. */
void job_member_lost(job *j, peer *p);

void job_members_tick(job *j);          /* send heartbeats, look for frozen ranks */
void job_members_decide(job *j);        /* advance the agreement on the last step */
void job_members_judge(job *j);         /* declare the failure that is due */
void job_members_flush(job *j);         /* send queued frames, note which connections have ended */
void job_members_read_launcher(job *j); /* handle what the launcher reports */

/* Record the failure of `rank` and tell the launcher and all ranks. Only the first call counts. */
void job_server_declare(job *j, uint32_t rank, const char *text);

/* Send the answer of the store to `rank`; a store_reply of job/store/store.h. */
void job_members_reply(void *ctx, uint32_t rank, weft_status st, const void *bytes, uint64_t n);

#endif
