/* resolve/candidate.c: what `auto` means: the transport with the best score among those that can
 * carry the ranks.
 *
 * A probe sees its own rank's machine only: one may lack the network card that the others have. So
 * ranks that have met exchange what their probes say, and a transport is as good as the worst of
 * them thinks. While only planning there is nobody to ask.
 *
 * A transport that reaches the memory of a device needs this machine's help for it. So it is asked
 * for that first, and then for carrying host memory, through which the device's then goes. */
#include "resolve/transport.h"

#include "base/err.h"
#include "host/call.h"
#include "resolve/topology.h"

#include <stdlib.h>
#include <string.h>

#define MOST_CARRIERS 32u

static const char *const ifaces[] = {"weft.link/1", "weft.coll/1", NULL};

/* What a rank says of one transport; without a name: of none. */
typedef struct verdict {
    char name[64];
    int32_t score;
    uint32_t staged; /* it carries host memory only */
    char why[248];   /* ... or, with no score, not even that */
} verdict;

/* Does the device's memory go through the host's where a link cannot reach it? */
static bool may_stage(const spec *s)
{
    const uint64_t caps = ((const weft_device_table *)s->device.c->table)->caps;
    return (caps & WEFT_DEV_FLAGS) && !(caps & WEFT_DEV_HOST_MEMORY);
}

/* Leaves in the record why the device's memory itself is out of reach. */
static weft_status probe_link(spec *s, const component *c, const weft_conf *conf,
                              weft_link_group *group, verdict *v)
{
    const weft_link_table *link = c->table;
    if (!may_stage(s))
        return PLUGIN_CALL(link, probe, c->module, conf, group, &v->score);
    if (where_reaches(s, c)) {
        weft_status st = PLUGIN_CALL(link, probe, c->module, conf, group, &v->score);
        if (st || v->score > 0)
            return st;
        snprintf(v->why, sizeof v->why, "%s", err_text());
        v->staged = 1;
    }
    err_clear();
    group->device_caps |= WEFT_DEV_HOST_MEMORY;
    return PLUGIN_CALL(link, probe, c->module, conf, group, &v->score);
}

/* How well it would carry them as seen from this rank. */
static weft_status probe_one(spec *s, const component *c, bool same_machine, verdict *v)
{
    const weft_conf *conf = transport_conf(s, c);
    const weft_device_table *device = s->device.c->table;
    char address[256];
    weft_link_group group = {sizeof group, 0, same_machine, (uint32_t)device->caps, NULL};
    *v = (verdict){0};
    snprintf(v->name, sizeof v->name, "%.63s", c->name);
    weft_status st = host_open(s->host, c);
    if (!st && s->meeting.job) {
        st = job_address(s->meeting.job, address, sizeof address);
        group.bind_addr = address;
    }
    err_clear();
    if (st || strcmp(c->iface, ifaces[1]))
        return st ? st : probe_link(s, c, conf, &group, v);
    const weft_coll_table *coll = c->table;
    if (!device->native_stream)
        return fail(WEFT_UNSUPPORTED, "%s needs a device with streams of a driver, and %s has none",
                    c->name, s->device.c->name);
    return PLUGIN_CALL(coll, probe, c->module, conf, (uint32_t)device->caps, &v->score);
}

/* All transports that are installed, opened, with their keys known. `links`: only these. */
static weft_status list_installed(spec *s, bool links, const component *out[MOST_CARRIERS],
                                  uint32_t *n)
{
    const component **all;
    uint32_t count;
    weft_status st = host_list(s->host, &all, &count);
    *n = 0;
    for (uint32_t i = 0; !st && i < count && *n < MOST_CARRIERS; i++) {
        const char *iface = all[i]->iface;
        if (strcmp(all[i]->kind, "comm") || !iface ||
            (strcmp(iface, ifaces[0]) && (links || strcmp(iface, ifaces[1]))))
            continue;
        st = host_find(s->host, "comm", all[i]->name, ifaces, &out[*n]);
        if (!st)
            st = transport_add_keys(s, out[*n]);
        ++*n;
    }
    return st;
}

static verdict ask(spec *s, const component *c, bool same_machine)
{
    verdict v;
    if (probe_one(s, c, same_machine, &v))
        v.score = 0;
    if (v.score <= 0)
        snprintf(v.why, sizeof v.why, "%s", err_text()[0] ? err_text() : "its probe said no");
    err_clear();
    return v;
}

/* What `theirs` says of a transport, which may not be installed there. */
static verdict said_of(const verdict theirs[MOST_CARRIERS], const char *name)
{
    for (uint32_t i = 0; i < MOST_CARRIERS; i++)
        if (!strncmp(theirs[i].name, name, sizeof theirs[i].name))
            return theirs[i];
    verdict none = {.why = "it is not installed"};
    snprintf(none.name, sizeof none.name, "%.63s", name);
    return none;
}

/* The worst that any rank says of each of mine; who says it stands before why. */
static weft_status ask_all(spec *s, verdict mine[MOST_CARRIERS], const char *name)
{
    uint64_t bytes = MOST_CARRIERS * sizeof *mine;
    verdict *all = mem_alloc(s->ranks * bytes);
    weft_status st = job_exchange(s->meeting.job, name, mine, bytes, all);
    for (uint32_t r = 0; !st && r < s->ranks; r++)
        for (uint32_t i = 0; i < MOST_CARRIERS && mine[i].name[0]; i++) {
            verdict v = said_of(all + r * MOST_CARRIERS, mine[i].name), *m = &mine[i];
            v.why[sizeof v.why - 1] = 0;
            m->staged = r ? m->staged : 0;
            const bool worse = !r || v.score < m->score, stages = v.staged && !m->staged;
            m->score = worse ? v.score : m->score;
            m->staged |= v.staged;
            if (m->score > 0 ? stages : worse)
                snprintf(m->why, sizeof m->why, "on rank %u %.225s", r, v.why);
        }
    free(all);
    return st;
}

static const char *where(bool same_machine)
{
    return same_machine ? " inside machines" : " between machines";
}

static void say(spec *s, uint32_t a, bool same_machine, const verdict *best, const char *why)
{
    s->comm_choice = pool_printf(&s->pool, "%s%smesh axis %s goes over %s%s (score %d%s%s%s)",
                                 s->comm_choice ? s->comm_choice : "", s->comm_choice ? "; " : "",
                                 s->mesh.name[a], best->name, where(same_machine), best->score,
                                 best->staged ? "; through host memory: " : "",
                                 best->staged ? best->why : "", why);
}

weft_status carrier_named(spec *s, uint32_t a, const component *c, bool same_machine,
                          int32_t *score, carrier *out)
{
    verdict says[MOST_CARRIERS] = {0};
    weft_status st = probe_one(s, c, same_machine, &says[0]);
    *out = (carrier){.c = c};
    *score = says[0].score;
    if (st || *score <= 0 || !strcmp(c->iface, ifaces[1]) || !may_stage(s) || !where_reaches(s, c))
        return st;
    if (s->meeting.job)
        st = ask_all(s, says,
                     pool_printf(&s->pool, "reach of %s along %s%s", c->name, s->mesh.name[a],
                                 where(same_machine)));
    out->staged = says[0].staged;
    if (!st && out->staged)
        say(s, a, same_machine, &says[0], "");
    return st;
}

/* The same on every rank, whatever else is installed there. */
static bool is_better(const verdict *a, const verdict *b)
{
    return a->score != b->score ? a->score > b->score : strcmp(a->name, b->name) < 0;
}

weft_status carrier_best(spec *s, uint32_t a, bool same_machine, bool links, carrier *out)
{
    const component *c[MOST_CARRIERS];
    verdict says[MOST_CARRIERS] = {0};
    uint32_t n, best = MOST_CARRIERS;
    weft_status st = list_installed(s, links, c, &n);
    if (st)
        return st;
    for (uint32_t i = 0; i < n; i++)
        says[i] = ask(s, c[i], same_machine);
    if (s->meeting.job)
        st = ask_all(s, says,
                     pool_printf(&s->pool, "probes of %s%s", s->mesh.name[a], where(same_machine)));
    if (st)
        return st;
    char *why = pool_text(&s->pool, "");
    for (uint32_t i = 0; i < n; i++)
        if (says[i].score <= 0)
            why = pool_printf(&s->pool, "%s; not %s: %s", why, c[i]->name, says[i].why);
        else if (best == MOST_CARRIERS || is_better(&says[i], &says[best]))
            best = i;
    if (best == MOST_CARRIERS)
        return fail(WEFT_ABSENT, "no installed transport can carry the mesh axis %s%s here%s",
                    s->mesh.name[a], where(same_machine), why);
    *out = (carrier){c[best], says[best].staged};
    say(s, a, same_machine, &says[best], why);
    return WEFT_OK;
}
