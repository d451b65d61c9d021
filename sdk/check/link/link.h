/* check/link/link.h: what checks of transports share: ranks in processes of their own, each with a
 * host, a module and a link.
 *
 * Ranks are threads of one process with --threads; what needs processes is then not applicable.
 *
 * A check is a function that each rank runs with its end. Calls of the plugin go through CHECK_LINK
 * or through a function below; those end the check with the plugin's sentence when a lawful call
 * fails. Waiting ends at the deadline of the job.
 *
 * A transport of one rank (it reaches no other) is its own peer in checks that allow it: end->peer
 * is then its own rank, and the sends of a connection match its own receives. */
#ifndef CHECK_LINK_LINK_H
#define CHECK_LINK_LINK_H

#include "check/harness/harness.h"
#include "check/link/lengths.h"

#include <weft/link.h>

#define CHECK_LINK_CONNS 64u

typedef struct check_end {
    check_rank *k;
    check_run *run;
    const host_component *c;
    const weft_link_table *t;
    check_host host;
    const weft_conf *conf;
    void *module;
    weft_link *link;
    uint32_t rank, ranks, peer; /* peer: the next rank, or itself */
    check_length_set sizes;     /* of messages: around powers of two and the options' values */
    unsigned char *memory;      /* of the job's size, zeros */
    weft_region *region; /* of `memory`; NULL unless the transport wants WEFT_LINK_REGISTER */
    unsigned char (*address)[4096]; /* of all ranks */
    uint64_t address_bytes[16];
    weft_conn *conns[CHECK_LINK_CONNS]; /* that check_end_down() has not closed */
    uint64_t until;                     /* ms */
    void *arg;                          /* of the job */
} check_end;

typedef struct check_link_job {
    uint32_t ranks, seconds;
    uint64_t memory;  /* bytes of end->memory */
    bool others_only; /* not for a transport of one rank */
    bool processes;   /* a rank dies, is stopped, or has calls or resources of its own */
    bool not_up;      /* run() begins before create(): it calls check_end_up() itself */
    void (*run)(check_end *e);
    void *arg; /* shared memory, or constant */
} check_link_job;

typedef struct check_link_of { /* the argument of check_ranks() */
    const host_component *c;
    const check_link_job *job;
    char id[33]; /* of the job that the ranks belong to */
} check_link_of;

/* Run the job for every transport of the file; one that cannot be used here is noted by
 * check_absent(). The caller has begun no module. */
void check_link_run(check_run *r, const check_link_job *job);

/* Call a member; a result is returned, nothing is checked. */
#define CHECK_LINK(e, member, ...) PLUGIN_GET((e)->t, member, __VA_ARGS__)

/* `st` must be WEFT_OK: the failure of a lawful call ends the check. */
void check_end_ok(check_end *e, weft_status st, const char *member);

/* create(), address() and the exchange of addresses with all ranks. */
void check_end_up(check_end *e);

/* These three alone. */
weft_status check_end_create(check_end *e, const char *job_id);
weft_status check_end_address(check_end *e);
void check_end_tell(check_end *e);

/* connect(), and ready() until the connection is up. */
weft_conn *check_end_begin(check_end *e, uint32_t peer, uint32_t channel);
void check_end_ready(check_end *e, weft_conn *c);
weft_conn *check_end_connect(check_end *e, uint32_t peer, uint32_t channel);
void check_end_down(check_end *e, weft_conn *c); /* disconnect() */

/* Post; while the queue is full, progress and wait. Memory that a transport with
 * WEFT_LINK_REGISTER moves lies in end->memory. */
void check_end_send(check_end *e, weft_conn *c, const void *from, uint64_t bytes);
void check_end_recv(check_end *e, weft_conn *c, void *to, uint64_t bytes);

/* A size of a message, at most `max` and CHECK_SIZES_TO; both ends draw the same from one state.
 */
#define CHECK_SIZES_TO (((uint64_t)4 << 20) + 1)
uint64_t check_end_size(const check_end *e, uint64_t *state, uint64_t max);

/* progress() once; then until so many have completed, with waits. */
void check_end_progress(check_end *e, weft_conn *c, uint64_t *sent, uint64_t *received);
void check_end_finish(check_end *e, weft_conn *c, uint64_t sent, uint64_t received);

/* progress() and wait() until a call fails, at most `ms`: its status, or WEFT_OK. */
weft_status check_end_fate(check_end *e, weft_conn *c, uint32_t ms);

/* wait(), a millisecond at most; fails the check after the deadline, where `what` is waited for. */
void check_end_wait(check_end *e, const char *what);

/* One message each way at a time, `rounds` times, of `bytes` at the beginning of end->memory and of
 * end->memory + bytes; *done counts those of before on this connection, and becomes the new count.
 * `what` names the rounds in a failure. */
void check_end_rounds(check_end *e, weft_conn *c, uint32_t rounds, uint64_t bytes, uint64_t *done,
                      const char *what);

/* How long calls of one member take; more than `max` calls of over 5 ms are a failure. */
typedef struct check_timed {
    const char *member;
    uint32_t calls, late;
    uint64_t longest; /* ns */
} check_timed;
void check_timed_note(check_timed *t, uint64_t since); /* a call that began at check_took_begin() */
void check_timed_report(const check_end *e, const check_timed *t, uint32_t max, const char *when);

/* Listening sockets and bound datagram sockets of this process, up to `cap`: descriptors. */
uint32_t check_link_listeners(int *out, uint32_t cap);

/* Dial a listening socket of this process and say these bytes; returns the socket, or -1. */
int check_link_stranger(int door, const void *says, size_t bytes);

/* Bytes that depend on the seed and on their place, and whether they are there. */
void check_pattern(void *to, uint64_t bytes, uint64_t seed);
bool check_pattern_holds(const void *at, uint64_t bytes, uint64_t seed);

/* --- checks --- */

void check_link_local(check_run *r);     /* reach.c */
void check_link_address(check_run *r);   /* reach.c */
void check_link_begin(check_run *r);     /* begin.c */
void check_link_strangers(check_run *r); /* listeners.c */
void check_link_listens(check_run *r);   /* listeners.c */
void check_link_order(check_run *r);     /* order.c */
void check_link_sizes(check_run *r);     /* sizes.c */
void check_link_counts(check_run *r);    /* queue.c */
void check_link_capacity(check_run *r);  /* queue.c */
void check_link_busy(check_run *r);      /* queue.c */
void check_link_borrow(check_run *r);    /* borrow.c */
void check_link_after(check_run *r);     /* borrow.c */
void check_link_late(check_run *r);      /* late.c */
void check_link_unequal(check_run *r);   /* late.c */
void check_link_blocked(check_run *r);   /* channels.c */
void check_link_wake(check_run *r);      /* sleep.c */
void check_link_arrival(check_run *r);   /* sleep.c */
void check_link_idle(check_run *r);      /* sleep.c */
void check_link_abort(check_run *r);     /* death.c */
void check_link_death(check_run *r);     /* death.c */
void check_link_stopped(check_run *r);   /* others.c */
void check_link_outlive(check_run *r);   /* others.c */
void check_link_bounds(check_run *r);    /* region.c */
void check_link_keys(check_run *r);      /* region.c */
void check_link_mapped(check_run *r);    /* region.c */
void check_link_together(check_run *r);  /* channels.c */
void check_link_reconnect(check_run *r); /* begin.c */
void check_link_short_io(check_run *r);  /* short_io.c */
void check_link_steady(check_run *r);    /* steady.c */

#endif
