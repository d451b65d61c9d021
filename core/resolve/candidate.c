/* resolve/candidate.c: transport candidates: probes, and the best one for `auto`.
 *
 * A probe examines the machine of its own rank, and one machine may lack a network card that others
 * have. So joined ranks exchange probe results, and the score of a transport is the lowest of all
 * ranks. Without other ranks, as in `weft plan`, the local result holds.
 *
 * Whether a transport can access device memory depends on the machine too. So device memory is
 * probed first, then host memory, through which data is staged if only that probe succeeds. */
#include "resolve/internal.h"

#include "base/err.h"
#include "host/call.h"
#include "resolve/topology.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CANDIDATES 32u

/* The probe result of one transport on one rank; an empty name ends a list. */
typedef struct probe_result {
    char name[64];
    int32_t score;
    uint32_t staged; /* it can access host memory only */
    char why[248];   /* the reason for staging, or for a score of 0 */
} probe_result;

/* Whether device data can be staged in host memory. */
static bool may_stage(const resolve_state *r)
{
    const uint64_t caps = ((const weft_device_table *)r->spec->device.c->table)->caps;
    return (caps & WEFT_DEV_FLAGS) && !(caps & WEFT_DEV_HOST_MEMORY);
}

/* Sets `why` if the transport cannot access device memory. */
static weft_status probe_link(resolve_state *r, const host_component *c, const weft_conf *conf,
                              weft_link_group *group, probe_result *v)
{
    const weft_link_table *link = c->table;
    if (!may_stage(r))
        return PLUGIN_CALL(link, probe, c->module, conf, group, &v->score);
    if (r->checked) {
        snprintf(v->why, sizeof v->why, "the host computes checksums of what it can read");
        v->staged = 1;
    } else if (resolve_reaches_device(r->spec, c)) {
        weft_status st = PLUGIN_CALL(link, probe, c->module, conf, group, &v->score);
        if (st != WEFT_OK || v->score > 0)
            return st;
        snprintf(v->why, sizeof v->why, "%s", err_text());
        v->staged = 1;
    }
    err_clear();
    group->device_caps |= WEFT_DEV_HOST_MEMORY;
    return PLUGIN_CALL(link, probe, c->module, conf, group, &v->score);
}

/* Whether a library of collectives works on the memory of the device. */
static weft_status check_memory(const resolve_state *r, const host_component *c)
{
    const weft_device_table *device = r->spec->device.c->table;
    const weft_coll_table *coll = c->table;
    const char *name = r->spec->device.c->name;
    if (resolve_is_on_host(r->spec) && (coll->caps & WEFT_COLL_HOST))
        return WEFT_OK;
    if (!(coll->caps & WEFT_COLL_STREAM))
        return err_fail(WEFT_UNSUPPORTED,
                        "%s works on host memory only, and the memory of device %s is its own",
                        c->name, name);
    if (resolve_is_on_host(r->spec) || !device->native_stream)
        return err_fail(WEFT_UNSUPPORTED,
                        "%s needs a device with streams of a driver, and %s has none", c->name,
                        name);
    return WEFT_OK;
}

/* The result of this rank's probe. */
static weft_status probe_one(resolve_state *r, const host_component *c, bool same_machine,
                             probe_result *v)
{
    const weft_conf *conf = resolve_transport_conf(r, c);
    const weft_device_table *device = r->spec->device.c->table;
    char address[256];
    weft_link_group group = {sizeof group, 0, same_machine, (uint32_t)device->caps, NULL};
    *v = (probe_result){0};
    snprintf(v->name, sizeof v->name, "%.63s", c->name);
    weft_status st = host_open(r->spec->host, c);
    if (st == WEFT_OK && !strcmp(c->iface, resolve_ifaces[0]))
        st = resolve_link_features(c, conf);
    if (st == WEFT_OK && r->meeting.job) {
        st = job_address(r->meeting.job, address, sizeof address);
        group.bind_addr = address;
    }
    if (st != WEFT_OK)
        return st;
    err_clear();
    if (strcmp(c->iface, resolve_ifaces[1]))
        return probe_link(r, c, conf, &group, v);
    const weft_coll_table *coll = c->table;
    st = check_memory(r, c);
    return st != WEFT_OK
               ? st
               : PLUGIN_CALL(coll, probe, c->module, conf, (uint32_t)device->caps, &v->score);
}

/* List all installed transports and add their keys, and files that cannot be used, which have no
 * interface. `links`: no libraries of collectives. */
static weft_status list_installed(resolve_state *r, bool links,
                                  const host_component *out[MAX_CANDIDATES], uint32_t *n)
{
    const host_component **all;
    uint32_t count;
    weft_status st = WEFT_OK;
    host_list(r->spec->host, "comm", &all, &count);
    *n = 0;
    for (uint32_t i = 0; st == WEFT_OK && i < count && *n < MAX_CANDIDATES; i++) {
        const char *iface = all[i]->iface;
        if (iface && strcmp(iface, resolve_ifaces[0]) &&
            (links || strcmp(iface, resolve_ifaces[1])))
            continue;
        out[*n] = all[i];
        if (iface)
            st = host_find(r->spec->host, "comm", all[i]->name, resolve_ifaces, &out[*n]);
        if (iface && st == WEFT_OK)
            st = resolve_transport_keys(r, out[*n]);
        ++*n;
    }
    return st;
}

static probe_result ask(resolve_state *r, const host_component *c, bool same_machine)
{
    probe_result v = {0};
    if (!c->iface) {
        snprintf(v.name, sizeof v.name, "%.63s", c->name);
        snprintf(v.why, sizeof v.why, "%s", c->help);
        return v;
    }
    if (probe_one(r, c, same_machine, &v) != WEFT_OK)
        v.score = 0;
    if (v.score <= 0)
        snprintf(v.why, sizeof v.why, "%s",
                 err_text()[0] ? err_text() : "its probe rejected it without a reason");
    err_clear();
    return v;
}

/* The result for a transport on another rank, which may not have it installed. */
static probe_result said_of(const probe_result theirs[MAX_CANDIDATES], const char *name)
{
    for (uint32_t i = 0; i < MAX_CANDIDATES; i++)
        if (!strncmp(theirs[i].name, name, sizeof theirs[i].name))
            return theirs[i];
    probe_result none = {.why = "it is not installed"};
    snprintf(none.name, sizeof none.name, "%.63s", name);
    return none;
}

/* Finds the lowest result of all ranks for each of this rank's transports; `why` names the rank. */
static weft_status ask_all(resolve_state *r, probe_result mine[MAX_CANDIDATES], const char *name)
{
    uint64_t bytes = MAX_CANDIDATES * sizeof *mine;
    probe_result *all = mem_alloc(r->spec->ranks * bytes);
    weft_status st = job_exchange(r->meeting.job, name, mine, bytes, all);
    for (uint32_t rank = 0; st == WEFT_OK && rank < r->spec->ranks; rank++)
        for (uint32_t i = 0; i < MAX_CANDIDATES && mine[i].name[0]; i++) {
            probe_result v = said_of(all + rank * MAX_CANDIDATES, mine[i].name), *m = &mine[i];
            v.why[sizeof v.why - 1] = 0;
            m->staged = rank ? m->staged : 0;
            const bool worse = !rank || v.score < m->score, stages = v.staged && !m->staged;
            m->score = worse ? v.score : m->score;
            m->staged |= v.staged;
            if (m->score > 0 ? stages : worse)
                snprintf(m->why, sizeof m->why, "on rank %u %.225s", rank, v.why);
        }
    free(all);
    return st;
}

static const char *where(bool same_machine)
{
    return same_machine ? " inside machines" : " between machines";
}

static void say(resolve_state *r, uint32_t a, bool same_machine, const probe_result *best)
{
    r->spec->comm_choice =
        pool_printf(&r->spec->pool, "%s%s over %s%s%s%s",
                    r->spec->comm_choice ? pool_printf(&r->spec->pool, "%s; ", r->spec->comm_choice)
                                         : "transport: ",
                    r->spec->mesh.name[a], best->name, where(same_machine),
                    best->staged ? ", through host memory: " : "", best->staged ? best->why : "");
}

/* Why not the transports that were refused: components of a plugin give the same reason. */
static const char *list_refused(resolve_state *r, const probe_result *says, uint32_t n)
{
    const char *all = "";
    bool done[MAX_CANDIDATES] = {false};
    for (uint32_t i = 0; i < n; i++) {
        if (says[i].score > 0 || done[i])
            continue;
        all = pool_printf(&r->spec->pool, "%s; not %s", all, says[i].name);
        for (uint32_t k = i + 1; k < n; k++)
            if (says[k].score <= 0 && !strcmp(says[k].why, says[i].why)) {
                all = pool_printf(&r->spec->pool, "%s, %s", all, says[k].name);
                done[k] = true;
            }
        all = pool_printf(&r->spec->pool, "%s: %s", all, says[i].why);
    }
    return all;
}

weft_status resolve_named(resolve_state *r, uint32_t a, const host_component *c, bool same_machine,
                          int32_t *score, resolve_candidate *out)
{
    probe_result says[MAX_CANDIDATES] = {0};
    weft_status st = probe_one(r, c, same_machine, &says[0]);
    *out = (resolve_candidate){.c = c};
    *score = says[0].score;
    if (st != WEFT_OK || *score <= 0 || !strcmp(c->iface, resolve_ifaces[1]) || !may_stage(r) ||
        !resolve_reaches_device(r->spec, c))
        return st;
    if (r->meeting.job)
        st = ask_all(r, says,
                     pool_printf(&r->spec->pool, "reach of %s along %s%s", c->name,
                                 r->spec->mesh.name[a], where(same_machine)));
    out->staged = says[0].staged;
    if (st == WEFT_OK && out->staged)
        say(r, a, same_machine, &says[0]);
    return st;
}

/* Equal scores are ordered by name, so that all ranks choose the same transport. */
static bool is_better(const probe_result *a, const probe_result *b)
{
    return a->score != b->score ? a->score > b->score : strcmp(a->name, b->name) < 0;
}

weft_status resolve_best(resolve_state *r, uint32_t a, bool same_machine, bool links,
                         resolve_candidate *out)
{
    const host_component *c[MAX_CANDIDATES];
    probe_result says[MAX_CANDIDATES] = {0};
    uint32_t n, best = MAX_CANDIDATES;
    weft_status st = list_installed(r, links, c, &n);
    if (st != WEFT_OK)
        return st;
    for (uint32_t i = 0; i < n; i++)
        says[i] = ask(r, c[i], same_machine);
    if (r->meeting.job)
        st = ask_all(r, says,
                     pool_printf(&r->spec->pool, "probes of %s%s", r->spec->mesh.name[a],
                                 where(same_machine)));
    if (st != WEFT_OK)
        return st;
    const char *why = list_refused(r, says, n);
    for (uint32_t i = 0; i < n; i++)
        if (says[i].score > 0 && (best == MAX_CANDIDATES || is_better(&says[i], &says[best])))
            best = i;
    if (best == MAX_CANDIDATES)
        return err_fail(WEFT_ABSENT, "no installed transport can carry the mesh axis %s%s here%s",
                        r->spec->mesh.name[a], where(same_machine), why);
    *out = (resolve_candidate){c[best], says[best].staged};
    say(r, a, same_machine, &says[best]);
    r->spec->comm_why = pool_printf(&r->spec->pool, "%s%s%s%s: %s has score %d%s",
                                    r->spec->comm_why ? r->spec->comm_why : "",
                                    r->spec->comm_why ? ". " : "", r->spec->mesh.name[a],
                                    where(same_machine), says[best].name, says[best].score, why);
    return WEFT_OK;
}

void resolve_try_transport(config *cfg, host *h, uint32_t ranks, const char *path)
{
    spec s = {.host = h, .ranks = ranks};
    resolve_state r = {.cfg = cfg, .spec = &s, .meeting.plan_only = true};
    const host_component *const *all;
    uint32_t n;
    resolve_serve_components(&r);
    if (resolve_device(&r) != WEFT_OK || host_load_file(h, path, &all, &n) != WEFT_OK)
        return;
    for (uint32_t i = 0; i < n; i++) {
        const host_component *c = all[i];
        const bool carries =
            c->table && c->iface &&
            (!strcmp(c->iface, resolve_ifaces[0]) || !strcmp(c->iface, resolve_ifaces[1]));
        if (!carries || resolve_transport_keys(&r, c) != WEFT_OK)
            continue;
        (void)config_check(cfg); /* takes the values */
        (void)ask(&r, c, true);
        (void)ask(&r, c, false);
    }
}
