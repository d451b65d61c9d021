/* job/members.h: the connections of rank 0, shared by server.c, which admits ranks, and members.c,
 * which serves them.
 *
 * All calls are made with the job lock held, by the thread of rank 0 unless another is named.
 * members.c asks decide/ what an observation means and acts on the event: it sends frames to the
 * ranks, records a failure or ends the waits of this rank. */
#ifndef JOB_MEMBERS_H
#define JOB_MEMBERS_H

#include "job/beats/frame.h"
#include "job/decide/tree.h"
#include "job/state.h"
#include "job/store/gather.h"
#include "job/wire/door.h"

typedef struct job_member { /* one rank; rank 0 has no connection */
    job_peer *p;
    bool posted;      /* it is in the list of those with frames to send */
    bool joined;      /* admitted */
    bool confirmed;   /* has sent a frame since the welcome, so it knows that it is admitted */
    bool informed;    /* was told why the job cannot begin */
    uint64_t process; /* job_wire_hello */
    char host[HOST_BYTES];
    job_place at;   /* where it listens for its children */
    bool bye, well; /* bye: it has left; well: with WEFT_OK */
    job_guard guard;
    job_beat_mark mark;
    bool held;      /* it begins no further step until the last is known (decide/agreement.h) */
    uint64_t begun; /* ... and has begun this one */
} job_member;

struct job_server {
    job_store *store;
    job_gathers *gathers;
    job_tree tree;
    job_member *members;      /* by rank */
    uint32_t confirmed, left; /* numbers of ranks */
    uint32_t open;            /* connections of members */
    bool hosts;               /* the ranks have different host names */
    int epoll_fd;
    job_door door;
    uint32_t *posted; /* ranks with frames to send, `posted_n` of them ... */
    uint32_t posted_n;
    uint32_t *other; /* ... and room for those that are left */
    uint64_t ticked; /* ... of the last look at all members */
    uint64_t
        halted;    /* ... when the ranks that were there had been asked to stop; 0: they were not */
    uint64_t beat; /* awake_ms() of the last beat ... */
    uint64_t later;  /* ... and of that to ranks which others are going to watch */
    uint64_t number; /* of it */
};

/* Send a frame to an admitted rank. It is queued, and leaves with job_members_flush(). */
void job_members_send(job *j, job_peer *p, uint32_t type, uint32_t arg, uint32_t seq,
                      const void *body, uint32_t bytes);

/* Read and handle all frames received from the rank of `p`. */
void job_member_event(job *j, job_peer *p);

/* The connection of an admitted rank has ended. */
void job_member_lost(job *j, job_peer *p);

void job_members_tick(job *j);   /* send heartbeats, look for frozen ranks: every TICK_MS */
void job_members_decide(job *j); /* advance the agreement on the last step */
void job_members_flush(job *j);  /* send queued frames, note which connections have ended */

/* act() and sign_of() of rank 0 (state.h). */
void job_members_act(job *j, const job_event *e);
job_sign job_members_sign(const job *j, uint32_t rank);

/* Record the failure of `rank` and tell the launcher and all ranks; `own` as for
 * job_record_cause(). Only the first call counts. */
void job_server_declare(job *j, uint32_t rank, const char *text, const char *own);

/* Send the answer of the store to `rank`; a job_store_reply of job/store/store.h. */
void job_members_reply(void *ctx, uint32_t rank, weft_status st, const void *bytes, uint64_t n);

#endif
