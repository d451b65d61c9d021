/* check/link/run.c: starts the ranks of a check of a transport.
 *
 * A process of its own first asks probe(), and tries whether a transport that reaches nobody
 * reaches itself. So the process that forks the ranks never opens a module. */
#include "base/time/pressure.h"
#include "check/link/link.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <weft/device.h>

#define ALONE_MS 300u

typedef enum reach { REACH_NOBODY, REACH_ITSELF, REACH_OTHERS } reach;

typedef struct asked { /* in shared memory: what the first process found */
    check_run *run;
    const host_component *c;
    reach reach;
    char why[1024];
} asked;

/* --- what it reaches --- */

/* Whether a link of one rank connects to itself. */
static bool reaches_itself(const weft_link_table *t, void *module, const weft_conf *conf)
{
    char id[33];
    unsigned char address[4096];
    uint64_t bytes = sizeof address;
    weft_link *l = NULL;
    weft_conn *c = NULL;
    check_job_id(id);
    const weft_link_args args = {.struct_size = sizeof args,
                                 .ranks = 1,
                                 .local_ranks = 1,
                                 .conf = conf,
                                 .bind_addr = "127.0.0.1",
                                 .job_id = id};
    weft_status st = PLUGIN_GET(t, create, module, &args, &l);
    if (st == WEFT_OK)
        st = PLUGIN_GET(t, address, l, address, &bytes);
    const weft_conn_args peer = {sizeof peer, 0, 0, 0, address, bytes};
    if (st == WEFT_OK)
        st = PLUGIN_GET(t, connect, l, &peer, &c);
    for (const uint64_t until = pressure_ms() + ALONE_MS; st == WEFT_OK;) {
        st = PLUGIN_GET(t, ready, c);
        if (st == WEFT_OK || pressure_ms() > until)
            break;
        st = st == WEFT_BUSY ? PLUGIN_GET(t, wait, l, 0, 1000, 0) : st;
    }
    if (c)
        PLUGIN_DO(t, disconnect, c);
    if (l)
        PLUGIN_DO(t, destroy, l);
    return st == WEFT_OK;
}

static void ask(void *arg)
{
    asked *a = arg;
    static check_host h;
    const weft_link_table *t = a->c->table;
    const weft_manifest *m = check_manifest(a->run);
    const weft_link_group group = {.struct_size = sizeof group,
                                   .same_machine = 1,
                                   .device_caps = WEFT_DEV_HOST_MEMORY,
                                   .bind_addr = "127.0.0.1"};
    void *module = NULL;
    int32_t score = 0;
    check_host_begin(&h, "the host");
    weft_status st = check_open(m, &h, &module);
    const weft_conf *conf = check_conf(&h, a->c);
    if (st == WEFT_OK)
        st = PLUGIN_GET(t, probe, module, conf, &group, &score);
    if (st != WEFT_OK)
        check_fail("open() or probe() of '%s' returned %s: %s", a->c->name, check_status(st),
                   h.why);
    snprintf(a->why, sizeof a->why, "%s", h.why[0] ? h.why : "its probe() gives no reason");
    a->reach = score > 0                         ? REACH_OTHERS
               : reaches_itself(t, module, conf) ? REACH_ITSELF
                                                 : REACH_NOBODY;
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

/* --- ranks --- */

/* Values of options that are bytes or counts may be boundaries, too. */
static void find_sizes(check_end *e)
{
    lengths_begin(&e->sizes, CHECK_SIZES_TO);
    for (const weft_option *const *o = e->c->options; o && *o; o++) {
        const bool counts = (*o)->type == WEFT_OPT_BYTES || (*o)->type == WEFT_OPT_INT;
        const int64_t value = counts ? e->conf->integer(e->conf->ctx, (*o)->key) : 0;
        if (value > 0)
            lengths_around(&e->sizes, (uint64_t)value, CHECK_SIZES_TO);
    }
}

static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER; /* configs are read one at a time */

static void be_end(check_rank *k)
{
    static _Thread_local check_end e; /* one a rank */
    const check_link_of *of = k->arg;
    e.k = k;
    e.run = k->run;
    e.c = of->c;
    e.t = of->c->table;
    e.rank = k->rank;
    e.ranks = k->ranks;
    e.peer = (k->rank + 1) % k->ranks;
    e.until = pressure_ms() + of->job->seconds * 1000ull;
    e.arg = of->job->arg;
    e.address = check_shared(k->ranks * sizeof *e.address);
    e.memory = check_shared(of->job->memory);
    check_host_begin(&e.host, "the host of a rank");
    const weft_manifest *m = check_manifest(k->run);
    check_end_ok(&e, check_open(m, &e.host, &e.module), "open");
    pthread_mutex_lock(&reading);
    e.conf = check_conf(&e.host, e.c);
    pthread_mutex_unlock(&reading);
    find_sizes(&e);
    if (!of->job->not_up)
        check_end_up(&e);
    of->job->run(&e);
    for (uint32_t i = 0; i < CHECK_LINK_CONNS; i++)
        if (e.conns[i])
            check_end_down(&e, e.conns[i]);
    if (e.link)
        PLUGIN_DO(e.t, destroy, e.link);
    check_close(m, e.module);
}

void check_link_run(check_run *r, const check_link_job *job)
{
    check_load(r);
    if (job->processes && check_ranks_are_threads())
        check_not_applicable("its ranks are processes, and --threads makes them threads");
    for (uint32_t i = 0; i < r->n; i++) {
        check_link_of of = {.c = r->components[i], .job = job};
        if (strcmp(of.c->iface, "weft.link/1"))
            continue;
        asked *a = ask_first(r, of.c);
        check_job_id(of.id);
        if (a->reach == REACH_NOBODY)
            check_absent("'%s' cannot be used on this machine: %s", of.c->name, a->why);
        else if (a->reach == REACH_ITSELF && job->others_only)
            check_absent("'%s' reaches no other rank: %s", of.c->name, a->why);
        else
            check_ranks(r, a->reach == REACH_ITSELF ? 1 : job->ranks, be_end, &of, job->seconds + 1,
                        check_ranks_are_threads());
        munmap(a, sizeof *a);
    }
}
