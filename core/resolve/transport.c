/* resolve/transport.c: selects each mesh axis' transport, checksums, algorithm, compression and
 * costs.
 *
 * A transport that the job names is used, or resolving fails. `auto` takes the transport with the
 * best score among those whose probe succeeds on every rank (candidate.c). An axis that spans
 * machines with several ranks on some of them may use two transports: one inter-node, one
 * intra-node. */
#include "base/err.h"
#include "config/constraints.h"
#include "resolve/internal.h"
#include "resolve/topology.h"

#include <stdio.h>
#include <string.h>

static uint32_t use(resolve_state *r, resolve_candidate inter, resolve_candidate intra)
{
    const bool staged = inter.staged || intra.staged;
    for (uint32_t i = 0; i < r->spec->nlinks; i++)
        if (r->spec->links[i].c == inter.c && r->spec->links[i].intra.c == intra.c &&
            r->spec->links[i].staged == staged && r->spec->links[i].checked == r->checked)
            return i;
    const spec_plugin inside = {intra.c, intra.c ? resolve_transport_conf(r, intra.c) : NULL};
    r->spec->links[r->spec->nlinks] =
        (spec_link){inter.c, resolve_transport_conf(r, inter.c), inside, staged, r->checked};
    return r->spec->nlinks++;
}

static void take_checksum(resolve_state *r, uint32_t a)
{
    const char *own = resolve_own_value(r->cfg, r->spec, a, "checksum");
    r->checked = *own ? !strcmp(own, "on") : config_int(r->cfg, "comm.checksum") != 0;
}

/* Whether the core can compute checksums of what the transport moves. */
static weft_status check_checksum(const resolve_state *r, uint32_t a, const host_component *c)
{
    const uint64_t device = ((const weft_device_table *)r->spec->device.c->table)->caps;
    const bool library = !strcmp(c->iface, resolve_ifaces[1]);
    const bool hidden = !(device & (WEFT_DEV_HOST_MEMORY | WEFT_DEV_FLAGS));
    char key[128];
    if (!r->checked || (!library && !hidden))
        return WEFT_OK;
    (void)resolve_setting(r, a, "checksum", key);
    return config_refuse(
        CONSTRAINT_CHECKSUM, r->cfg, key,
        (config_fact[]){{"comm.plugin", 0, c->name},
                        {"axis", 0, r->spec->mesh.name[a]},
                        {"reason", 0,
                         library
                             ? "it has its own collectives, whose messages the core does not see"
                             : "the host cannot read the memory of the device, and the device "
                               "cannot copy it to the host in order (WEFT_DEV_FLAGS)"},
                        {0}});
}

/* Use the transport that the job names, or fail. */
static weft_status take_named(resolve_state *r, uint32_t a, const char *name, const char *key,
                              bool same_machine, resolve_candidate *out)
{
    int32_t score;
    const host_component *c;
    weft_status st = host_find(r->spec->host, "comm", name, resolve_ifaces, &c);
    if (st == WEFT_OK)
        st = check_checksum(r, a, c);
    if (st != WEFT_OK)
        return st;
    st = resolve_named(r, a, c, same_machine, &score, out);
    if (st == WEFT_OK && score > 0)
        return WEFT_OK;
    err_record why;
    err_keep(&why);
    const char *reason = why.text[0] ? why.text : "its probe rejected it without a reason";
    const bool absent = why.code == WEFT_ABSENT;
    if (absent && r->meeting.plan_only) {
        err_clear();
        return WEFT_OK;
    }
    st = config_refuse(CONSTRAINT_TRANSPORT, r->cfg, key,
                       (config_fact[]){{"comm.plugin", 0, name},
                                       {"axis", 0, r->spec->mesh.name[a]},
                                       {"reason", 0, reason},
                                       {0}});
    err_set_name(ERR_PLUGIN, why.name[ERR_PLUGIN]);
    return absent ? WEFT_ABSENT : st;
}

/* Selects the transport between ranks that share a machine, or between those that do not. */
static weft_status take(resolve_state *r, uint32_t a, const char *what, bool same_machine,
                        resolve_candidate *out)
{
    char key[128];
    const char *name = pool_text(&r->spec->pool, resolve_setting(r, a, what, key));
    if (strcmp(name, "auto"))
        return take_named(r, a, name, key, same_machine, out);
    const bool links = r->checked || !strcmp(what, "intra"); /* no libraries of collectives */
    weft_status st = resolve_best(r, a, same_machine, links, out);
    if (st == WEFT_OK)
        st = check_checksum(r, a, out->c);
    return st == WEFT_OK ? host_use(r->spec->host, out->c) : st;
}

/* Selects the second, intra-node transport of an axis that spans machines. */
static weft_status take_intra(resolve_state *r, uint32_t a, resolve_candidate inter,
                              resolve_candidate *intra)
{
    char key[128];
    bool named = strcmp(resolve_setting(r, a, "plugin", key), "auto") != 0;
    const char *name = resolve_setting(r, a, "intra", key);
    if (!strcmp(name, "none") || (named && !strcmp(name, "auto")))
        return WEFT_OK;
    weft_status st = take(r, a, "intra", true, intra);
    if (st == WEFT_OK && !strcmp(intra->c->iface, resolve_ifaces[1]))
        return config_fail(r->cfg, key,
                           "%s brings its own collectives, and can only carry a whole mesh axis",
                           name);
    if (intra->c == inter.c)
        *intra = (resolve_candidate){0};
    return st;
}

static weft_status choose_for(resolve_state *r, uint32_t a)
{
    resolve_candidate inter = {0}, intra = {0};
    uint32_t reach = resolve_reach(r->spec, a);
    take_checksum(r, a);
    weft_status st = take(r, a, "plugin", reach == REACH_INTRA, &inter);
    if (st == WEFT_OK && reach == REACH_MIXED && strcmp(inter.c->iface, resolve_ifaces[1]))
        st = take_intra(r, a, inter, &intra);
    if (st == WEFT_OK)
        r->spec->axis_link[a] = use(r, inter, intra);
    return st;
}

/* The measured costs of the axis' transport, for the choice of algorithms; NULL: not measured. */
static weft_status take_cost(resolve_state *r, uint32_t a)
{
    sched_cost *cost = pool_alloc(&r->spec->pool, sizeof *cost);
    sched_cost inside;
    const spec_link *l = &r->spec->links[r->spec->axis_link[a]];
    int known, intra_known = 1;
    weft_status st = sched_cost_read(r->cfg, l->c->name, cost, &known);
    if (st == WEFT_OK && l->intra.c)
        st = sched_cost_read(r->cfg, l->intra.c->name, &inside, &intra_known);
    if (st == WEFT_OK && l->intra.c && intra_known) {
        cost->intra = inside.intra;
        cost->mapped = inside.mapped;
    }
    r->spec->axis_cost[a] = st == WEFT_OK && known && intra_known ? cost : NULL;
    return st;
}

weft_status resolve_axis_transport(resolve_state *r, uint32_t a)
{
    weft_status st = choose_for(r, a);
    return st != WEFT_OK ? st : take_cost(r, a);
}

static void take_compress(resolve_state *r, uint32_t a)
{
    const char *own = resolve_own_value(r->cfg, r->spec, a, "compress");
    const char *form = *own ? own : config_text(r->cfg, "comm.compress");
    r->spec->compress_key[a] =
        *own ? pool_printf(&r->spec->pool, "comm.%s.compress", r->spec->mesh.name[a])
             : "comm.compress";
    for (uint32_t i = SCHED_TO_FP16; i <= SCHED_TO_INT8; i++)
        if (!strcmp(form, sched_form_name(i)))
            r->spec->axis_compress[a] = i;
}

weft_status resolve_transports(resolve_state *r)
{
    weft_status st = WEFT_OK;
    r->spec->feedback = config_int(r->cfg, "comm.feedback");
    r->spec->compress = config_text(r->cfg, "comm.compress");
    for (uint32_t a = 0; a < r->spec->mesh.n && st == WEFT_OK; a++) {
        char key[128];
        r->spec->axis_algorithm[a] =
            pool_text(&r->spec->pool, resolve_setting(r, a, "algorithm", key));
        r->spec->algorithm_place[a] = config_origin(r->cfg, key);
        take_compress(r, a);
        if (r->spec->mesh.size[a] > 1)
            st = resolve_axis_transport(r, a);
    }
    return st != WEFT_OK ? st : resolve_peer_access(r);
}
