/* check/coll/run.c: starts the ranks of a check of a library of collectives. As in link/run.c, a
 * process of its own first asks probe(). */
#include "base/clock.h"
#include "base/time/pressure.h"
#include "check/coll/coll.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef struct asked { /* in shared memory: what the first process found */
    check_run *run;
    const host_component *c;
    int32_t score;
    char why[1024];
} asked;

typedef struct job_of { /* the argument of check_ranks() */
    const host_component *c;
    const check_coll_job *job;
    check_kv *store;
} job_of;

static check_kv *serve_alone(check_host *h, weft_host_kv *kv)
{
    check_kv *store = check_kv_create();
    check_kv_serve(store, 0, 1, kv);
    h->kv = kv;
    return store;
}

static void ask(void *arg)
{
    asked *a = arg;
    static check_host h;
    static weft_host_kv kv;
    const weft_coll_table *t = a->c->table;
    const weft_manifest *m = check_manifest(a->run);
    void *module = NULL;
    check_host_begin(&h, "the host");
    (void)serve_alone(&h, &kv);
    weft_status st = check_open(m, &h, &module);
    if (st == WEFT_OK)
        st = PLUGIN_GET(t, probe, module, check_conf(&h, a->c), WEFT_DEV_HOST_MEMORY, &a->score);
    if (st != WEFT_OK)
        check_fail("open() or probe() of '%s' returned %s: %s", a->c->name, check_status(st),
                   h.why);
    snprintf(a->why, sizeof a->why, "%s", h.why[0] ? h.why : "its probe() gives no reason");
    check_close(m, module);
}

static asked *ask_first(check_run *r, const host_component *c)
{
    asked *a = check_shared(sizeof *a);
    a->run = r;
    a->c = c;
    check_fork_probe(c, ask, a);
    return a;
}

static void be_party(check_rank *k)
{
    static check_party p; /* one a process */
    const job_of *of = k->arg;
    p.k = k;
    p.run = k->run;
    p.c = of->c;
    p.t = of->c->table;
    p.rank = k->rank;
    p.ranks = k->ranks;
    p.until = pressure_ms() + of->job->seconds * 1000ull;
    p.arg = of->job->arg;
    check_host_begin(&p.host, "the host of a rank");
    check_kv_serve(of->store, k->rank, k->ranks, &p.kv);
    p.host.kv = &p.kv;
    const weft_manifest *m = check_manifest(k->run);
    check_party_ok(&p, check_open(m, &p.host, &p.module), "open");
    p.conf = check_conf(&p.host, p.c);
    if (!of->job->not_up) {
        unsigned char id[4096];
        uint64_t bytes;
        check_party_id(&p, id, &bytes);
        p.comm = check_party_open(&p, id, bytes);
        check_party_ready(&p, p.comm);
    }
    of->job->run(&p);
    check_party_down(&p);
    check_close(m, p.module);
}

void check_coll_run(check_run *r, const check_coll_job *job)
{
    check_load(r);
    for (uint32_t i = 0; i < r->n; i++) {
        job_of of = {.c = r->components[i], .job = job, .store = check_kv_create()};
        const weft_coll_table *t = of.c->table;
        if (strcmp(of.c->iface, "weft.coll/1") != 0)
            continue;
        if (!(t->caps & WEFT_COLL_HOST)) {
            check_absent("'%s' works on device streams, and this check on host memory", of.c->name);
            continue;
        }
        asked *a = ask_first(r, of.c);
        if (a->score <= 0)
            check_absent("'%s' cannot be used on this machine: %s", of.c->name, a->why);
        else
            check_ranks(r, job->ranks, be_party, &of, job->seconds + 1, false);
        munmap(a, sizeof *a);
    }
}
