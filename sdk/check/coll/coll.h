/* check/coll/coll.h: what checks of libraries of collectives share: ranks in processes of their
 * own, each with a host that serves weft.host.kv/1, a module and, unless the job says otherwise, a
 * communicator of all ranks.
 *
 * The operations are on host memory. A library that works on device streams alone is not
 * applicable. As in link/link.h, the functions below end the check when a lawful call fails, and
 * waiting ends at the deadline of the job. */
#ifndef CHECK_COLL_COLL_H
#define CHECK_COLL_COLL_H

#include "check/harness/harness.h"

#include <weft/coll.h>

typedef struct check_kv check_kv; /* the store of a job, in shared memory */

typedef struct check_party {
    check_rank *k;
    check_run *run;
    const host_component *c;
    const weft_coll_table *t;
    check_host host;
    weft_host_kv kv;
    check_kv *store;
    const weft_conf *conf;
    void *module;
    weft_comm *comm; /* of all ranks */
    uint64_t groups; /* of `comm` that were started */
    uint32_t rank, ranks;
    uint64_t until; /* ms */
    void *arg;      /* of the job */
} check_party;

typedef struct check_coll_job {
    uint32_t ranks, seconds;
    bool not_up; /* run() begins before id(): it opens what it needs */
    void (*run)(check_party *p);
    void *arg; /* shared memory, or constant */
} check_coll_job;

/* Run the job for every library of the file that can be used here. */
void check_coll_run(check_run *r, const check_coll_job *job);

/* Call a member; a result is returned, nothing is checked. */
#define CHECK_COLL(p, member, ...) PLUGIN_GET((p)->t, member, __VA_ARGS__)

void check_party_ok(check_party *p, weft_status st, const char *member);
const char *check_party_why(const check_party *p);

/* id() on rank 0, carried to all; then open() of a communicator of all ranks. */
void check_party_id(check_party *p, unsigned char id[4096], uint64_t *bytes);
weft_comm *check_party_open(check_party *p, const unsigned char *id, uint64_t bytes);
void check_party_ready(check_party *p, weft_comm *c); /* until it is */
void check_party_down(check_party *p);                /* close p->comm */

/* One group of operations of p->comm, started; then until it is complete. */
void check_party_start(check_party *p, const weft_coll_call *calls, uint32_t n);
void check_party_finish(check_party *p);
void check_party_do(check_party *p, const weft_coll_call *call); /* both */

/* The same on another communicator, of which `groups` are complete. */
void check_party_do_on(check_party *p, weft_comm *c, uint64_t groups, const weft_coll_call *call);

/* Sleep a little; fails the check after the deadline, where `what` is waited for. */
void check_party_wait(check_party *p, const char *what);

/* Whether the library has this kind; supports(), or NULL: it is tried. */
bool check_party_has(check_party *p, uint32_t kind, uint32_t redop, uint32_t dtype);

/* An all-reduce of `rank` + 1 on every rank of p->comm, and its result. */
void check_party_works(check_party *p, const char *when);

/* The store. kv.c */
check_kv *check_kv_create(void);
void check_kv_serve(check_kv *store, uint32_t rank, uint32_t ranks, weft_host_kv *out);

/* --- checks --- */

void check_coll_open(check_run *r);     /* setup.c */
void check_coll_ids(check_run *r);      /* setup.c */
void check_coll_split(check_run *r);    /* setup.c */
void check_coll_register(check_run *r); /* setup.c */
void check_coll_results(check_run *r);  /* result.c */
void check_coll_in_place(check_run *r); /* result.c */
void check_coll_same(check_run *r);     /* result.c */
void check_coll_failed(check_run *r);   /* group.c */
void check_coll_busy(check_run *r);     /* group.c */
void check_coll_goes_on(check_run *r);  /* group.c */
void check_coll_health(check_run *r);   /* death.c */
void check_coll_abort(check_run *r);    /* death.c */
void check_coll_close(check_run *r);    /* death.c */

#endif
