/* resolve/peer_access.c: along which mesh axes devices map each other's arenas.
 *
 * Over a link that maps memory, between ranks of one machine, a device that the link cannot reach
 * may do by itself what the link would do with the host's memory (comm/attach.c). It can where the
 * devices of a group say of themselves that they have one home. Ranks that have met ask each other;
 * while only planning, ranks of one machine are taken to share a device. */
#include "resolve/transport.h"

#include "base/err.h"
#include "host/call.h"
#include "resolve/topology.h"

#include <stdlib.h>
#include <string.h>

typedef struct home {
    char text[64]; /* empty: none */
    char why[192];
} home;

static bool could_attach(const spec *s, uint32_t a)
{
    const weft_device_table *device = s->device.c->table;
    const spec_link *l = &s->links[s->axis_link[a]];
    if (s->mesh.size[a] < 2 || !where_staged(s, l) || l->near.c || where_axis(s, a) != REACH_ONE)
        return false;
    const uint64_t caps = ((const weft_link_table *)l->c->table)->caps;
    return (device->caps & WEFT_DEV_IMPORT_PEER) && (caps & WEFT_LINK_MAP) &&
           !(caps & WEFT_LINK_REGISTER);
}

static weft_status ask(const spec *s, home *all)
{
    const weft_device_table *device = s->device.c->table;
    const job_identity *who = s->meeting.who;
    home mine = {0};
    const weft_device_args args = {sizeof args, 0, who->local_rank, who->local_ranks,
                                   s->device.conf};
    err_clear();
    if (PLUGIN_ASK(device, ipc_domain, s->device.c->module, &args, mine.text)) {
        mine.text[0] = 0;
        snprintf(mine.why, sizeof mine.why, "%s", err_text());
        err_clear();
    }
    return job_exchange(s->meeting.job, "homes of device memory", &mine, sizeof mine, all);
}

/* NULL: all ranks along the axis have one home. */
static char *why_not(spec *s, uint32_t a, home *all)
{
    for (uint32_t r = 0; r < s->ranks; r++) {
        const uint32_t first = mesh_rank_at(&s->mesh, r, a, 0);
        home *mine = &all[r], *other = &all[first];
        mine->text[sizeof mine->text - 1] = mine->why[sizeof mine->why - 1] = 0;
        if (!mine->text[0])
            return pool_printf(&s->pool, "on rank %u %s", r, mine->why);
        if (strncmp(mine->text, other->text, sizeof mine->text) != 0)
            return pool_printf(&s->pool, "rank %u has %.63s, rank %u has %.63s", first, other->text,
                               r, mine->text);
    }
    return NULL;
}

static void say(spec *s, uint32_t a, const char *why)
{
    const char *before = s->comm_choice ? s->comm_choice : "", *and = *before ? "; " : "";
    s->comm_choice =
        why ? pool_printf(&s->pool,
                          "%s%smesh axis %s goes through host memory, since devices "
                          "cannot map each other's: %s",
                          before, and, s->mesh.name[a], why)
            : pool_printf(&s->pool, "%s%sdevices along mesh axis %s map each other's memory",
                          before, and, s->mesh.name[a]);
}

weft_status homes_find(spec *s)
{
    uint64_t could = 0;
    for (uint32_t a = 0; a < s->mesh.n; a++)
        could |= (uint64_t)could_attach(s, a) << a;
    s->attached = could;
    if (!could || !s->meeting.job)
        return WEFT_OK;
    s->attached = 0;
    if (!s->meeting.who)
        return WEFT_OK;
    home *all = mem_alloc(s->ranks * sizeof *all);
    weft_status st = ask(s, all);
    for (uint32_t a = 0; a < s->mesh.n && !st; a++) {
        if (!(could >> a & 1))
            continue;
        const char *why = why_not(s, a, all);
        s->attached |= (uint64_t)!why << a;
        say(s, a, why);
    }
    free(all);
    return st;
}
