/* job/server.h: the inside of rank 0's thread: server.c lets ranks in, members.c serves them. */
#ifndef JOB_SERVER_H
#define JOB_SERVER_H

#include "job/state.h"
#include "job/wire/handshake.h"

#define STRANGERS_MAX 24 /* connections at once that have not been admitted             */
#define STRANGER_MS 2000 /* from connection to hello                                    */
#define STRANGER_AGE 25  /* no handshake for so long: gives way when all are taken      */

typedef struct peer {  /* one connection */
    wire w;            /* without a session until the first bytes have come */
    greeting hail;     /* what it was sent first */
    uint32_t interest; /* what epoll watches it for */
    uint32_t rank;     /* once it is a member       */
    uint32_t seq;      /* of the request that has no reply yet */
    bool asked;        /* there is one              */
    bool admitted;     /* it is a member's          */
    uint64_t since;    /* clock_ms() of its arrival */
} peer;

typedef struct member { /* one rank; rank 0 has no connection */
    peer *p;
    bool joined;      /* admitted */
    bool confirmed;   /* it has said something since, so it knows that it is */
    bool told;        /* why the job cannot begin */
    uint64_t process; /* wire_hello */
    bool bye, well;   /* it said how it leaves; in good order */
    uint64_t alive;   /* job.clock when it last gave a sign of life */
    uint64_t beat;    /* clock_ms() of our last beat to it          */
    uint64_t step, place;
    bool held;      /* it begins no further step until the last is known (stop.c) */
    uint64_t begun; /* ... and has begun this one */
} member;

struct server {
    store *store;
    member *members;          /* by rank */
    uint32_t confirmed, left; /* how many */
    int listen_fd, epoll_fd;
    bool listening; /* epoll watches listen_fd */
    peer *strangers[STRANGERS_MAX];
    uint64_t turned_away; /* connections that did not show the key */
    char last_away[64];   /* the address of the last that tried to */
};

/* --- server.c --- */
void peer_watch(job *j, peer *p);           /* tell epoll what the connection waits for */
void server_confirm(job *j, uint32_t rank); /* a sign of life of a rank that was admitted */

/* --- members.c --- */
void member_event(job *j, peer *p);
void member_lost(job *j, peer *p);
void members_tick(job *j);
void members_flush(job *j);
void members_reply(void *ctx, uint32_t rank, weft_status status, const void *bytes, uint64_t n);

#endif
