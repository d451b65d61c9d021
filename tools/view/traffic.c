/* view/traffic.c: what a rank sends while it runs a list of its plan. */
#include "view/view.h"

view_traffic view_traffic_of(const plan *p, const plan_list *l, uint32_t kind, uint32_t mesh_axis,
                             uint32_t interval)
{
    view_traffic sum = {0};
    for (uint32_t i = 0; i < l->entries.n; i++) {
        const plan_entry *e = &l->entries.at[i];
        const plan_collective *c = e->kind == ENTRY_START ? &p->collectives.at[e->what] : NULL;
        if (!c || (kind != VIEW_ANY && c->kind != kind) ||
            (mesh_axis != VIEW_ANY && p->channels.at[c->channel].mesh_axis != mesh_axis) ||
            (interval != VIEW_ANY && e->interval != interval))
            continue;
        sum.sent += c->sent;
        sum.plain += c->plain;
        sum.starts++;
    }
    return sum;
}
