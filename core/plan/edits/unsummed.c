/* plan/edits/unsummed.c: mesh axes over which gradients are never summed (WEFT_SYNC_NEVER).
 *
 * Each coordinate of such an axis trains separate parameters, so results depend on the axis' size.
 * That must be intended: a periodic list synchronizes the parameters, or the strategy states the
 * effect. The user is told in any case. */
#include "plan/edits/edits.h"

#include "base/err.h"

/* Does the edit leave gradients unsummed? */
static bool never_summed(const plan_flat *f, const plan_sync_edit *x)
{
    for (uint32_t i = 0; x->when == WEFT_SYNC_NEVER && i < f->params.n; i++) {
        const plan_flat_param *p = &f->params.at[i];
        if ((p->never_axes & p->partial_axes) >> x->mesh_axis & 1 &&
            graph_glob_match_role(x->glob, p->name, p->role))
            return true;
    }
    return false;
}

weft_status plan_edits_check_unsummed(const plan_flat *f, plan_edit_state *e)
{
    for (uint32_t i = 0; i < e->syncs.n; i++) {
        const plan_sync_edit *x = &e->syncs.at[i];
        if (!never_summed(f, x) || plan_edits_has_noted(e, x->owner))
            continue;
        const char *axis = e->s->mesh.name[x->mesh_axis];
        if (!e->lists.n)
            return err_fail(
                WEFT_USAGE,
                "%s: sync() with WEFT_SYNC_NEVER leaves gradients over the mesh axis %s "
                "unsummed, no periodic_list() synchronizes the parameters, and changes_results() "
                "was not called: each coordinate would train a different model. Sum the gradients, "
                "add a periodic list, or call changes_results()",
                x->owner, axis);
        plan_edits_note_change(
            e, pool_printf(e->pool, "%s: gradients are never summed over %s", x->owner, axis));
    }
    return WEFT_OK;
}
