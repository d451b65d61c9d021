/* resolve/peer_access.c: finds the mesh axes along which devices import each other's memory.
 *
 * Ranks of one machine may use a transport that maps memory. Where that transport cannot access
 * device memory, the devices themselves may: each imports the arenas of its peers. They can if all
 * ranks of a group have the same IPC domain. Joined ranks exchange their domains. Without other
 * ranks, as in `weft plan`, ranks of one machine are assumed to share a device. */
#include "resolve/internal.h"

#include "base/err.h"
#include "host/call.h"
#include "resolve/topology.h"

#include <stdlib.h>
#include <string.h>

typedef struct ipc_domain {
    char text[65]; /* empty: none */
    char why[192]; /* ... and the reason */
} ipc_domain;

static bool may_import(const resolve_state *r, uint32_t a)
{
    const weft_device_table *device = r->spec->device.c->table;
    const spec_link *l = &r->spec->links[r->spec->axis_link[a]];
    if (r->spec->mesh.size[a] < 2 || l->checked || !resolve_is_staged(r->spec, l) || l->intra.c ||
        resolve_reach(r->spec, a) != REACH_INTRA)
        return false;
    const uint64_t caps = ((const weft_link_table *)l->c->table)->caps;
    return (device->caps & WEFT_DEV_IMPORT_PEER) && (caps & WEFT_LINK_MAP) &&
           !(caps & WEFT_LINK_REGISTER);
}

static weft_status exchange_domains(const resolve_state *r, ipc_domain *all)
{
    const weft_device_table *device = r->spec->device.c->table;
    const job_identity *who = r->meeting.who;
    ipc_domain mine = {0};
    const weft_device_args args = {sizeof args,          0,
                                   who->local_rank,      who->local_ranks,
                                   r->spec->device.conf, r->spec->kernel_set};
    err_clear();
    uint64_t bytes = sizeof mine.text - 1;
    if (PLUGIN_ASK(device, ipc_domain, r->spec->device.c->module, &args, mine.text, &bytes)) {
        mine.text[0] = 0;
        snprintf(mine.why, sizeof mine.why, "%s", err_text());
        err_clear();
    }
    return job_exchange(r->meeting.job, "ipc domains of devices", &mine, sizeof mine, all);
}

/* NULL if the ranks of each group along the axis share an IPC domain, else the reason. */
static char *why_not(resolve_state *r, uint32_t a, ipc_domain *all)
{
    for (uint32_t rank = 0; rank < r->spec->ranks; rank++) {
        const uint32_t first = graph_mesh_rank_at(&r->spec->mesh, rank, a, 0);
        ipc_domain *mine = &all[rank], *other = &all[first];
        mine->text[sizeof mine->text - 1] = mine->why[sizeof mine->why - 1] = 0;
        if (!mine->text[0])
            return pool_printf(&r->spec->pool, "on rank %u %s", rank, mine->why);
        if (strncmp(mine->text, other->text, sizeof mine->text) != 0)
            return pool_printf(&r->spec->pool, "rank %u has %.63s, rank %u has %.63s", first,
                               other->text, rank, mine->text);
    }
    return NULL;
}

static void say(resolve_state *r, uint32_t a, const char *why)
{
    const char *before = r->spec->comm_choice ? r->spec->comm_choice : "",
               *and = *before ? "; " : "";
    r->spec->comm_choice =
        why ? pool_printf(&r->spec->pool,
                          "%s%smesh axis %s goes through host memory, since devices "
                          "cannot map each other's: %s",
                          before, and, r->spec->mesh.name[a], why)
            : pool_printf(&r->spec->pool, "%s%sdevices along mesh axis %s map each other's memory",
                          before, and, r->spec->mesh.name[a]);
}

weft_status resolve_peer_access(resolve_state *r)
{
    uint64_t could = 0;
    for (uint32_t a = 0; a < r->spec->mesh.n; a++)
        could |= (uint64_t)may_import(r, a) << a;
    r->spec->peer_imported = could;
    if (!could || !r->meeting.job)
        return WEFT_OK;
    r->spec->peer_imported = 0;
    if (!r->meeting.who)
        return WEFT_OK;
    ipc_domain *all = mem_alloc(r->spec->ranks * sizeof *all);
    weft_status st = exchange_domains(r, all);
    for (uint32_t a = 0; a < r->spec->mesh.n && st == WEFT_OK; a++) {
        if (!(could >> a & 1))
            continue;
        const char *why = why_not(r, a, all);
        r->spec->peer_imported |= (uint64_t)!why << a;
        say(r, a, why);
    }
    free(all);
    return st;
}
