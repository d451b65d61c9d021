/* plan/edits/edit.c: code shared by all edits: arguments, phase, failures, lines for the user. */
#include "plan/edits/emitters.h"

#include "base/err.h"
#include "base/sized.h"
#include "graph/arguments.h"

#include <stdlib.h>
#include <string.h>

weft_status plan_edits_null(const plan_edit_state *e, const char *call, const char *what)
{
    if (!e)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call, "ctx is NULL; pass the table's own");
    (void)!err_fail_in(WEFT_USAGE, ERR_CALL, call, "%s is NULL", what);
    err_put_name(ERR_OWNER, e->owner);
    return WEFT_USAGE;
}

void plan_edits_begin(plan_edit_state *e)
{
    e->edits = 0;
    e->failed = WEFT_OK;
    e->why = NULL;
    e->g->now.looking = "edit"; /* except while an emit() is called */
}

weft_status plan_edits_answer(plan_edit_state *e, weft_status st)
{
    e->g->now.looking = NULL;
    if (st == WEFT_OK && e->failed != WEFT_OK)
        return err_fail(e->failed, "%s (its edit() went on and returned WEFT_OK)", e->why);
    return graph_check_return(st, ERR_OWNER, e->owner, "edit");
}

weft_status plan_edit_begin(plan_edit_state *e, const char *call, uint32_t flags, uint32_t phase)
{
    if (!e)
        return plan_edits_null(e, call, "ctx");
    if (e->g->now.replacing || e->g->now.state_of)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call,
                           "called while emit() writes graph; emit edits one by one");
    if (e->edits++ >= EDITS_MAX)
        return err_fail_in(WEFT_NO_MEMORY, ERR_CALL, call,
                           "the plugin has emitted %u edits in one call of phase %u, which is the "
                           "limit; check for an endless loop",
                           EDITS_MAX, e->phase);
    const weft_status st = sized_check_flags(call, flags, 0);
    if (st != WEFT_OK || !phase || e->phase == phase)
        return st;
    return err_fail(WEFT_USAGE, "this is phase %u; the edit belongs to phase %u", e->phase, phase);
}

weft_status plan_edit_end(plan_edit_state *e, const char *call, weft_status st)
{
    if (st == WEFT_OK || !e)
        return st;
    err_put_name(ERR_CALL, call);
    err_put_name(ERR_OWNER, e->owner);
    if (e->failed == WEFT_OK) {
        e->failed = st;
        e->why = pool_text(e->pool, err_text());
    }
    return st;
}

weft_status plan_edit_glob(weft_status st, const char *call, const char *what, const char *text)
{
    return st != WEFT_OK ? st : graph_check_text(call, what, text, EDITS_MAX_GLOB);
}

void plan_edits_show_groups(plan_edit_state *e)
{
    e->g->groups = e->groups.at;
    e->g->ngroups = e->groups.n;
}

weft_status plan_edit_axis(weft_status st, const plan_edit_state *e, const char *call,
                           const char *name, uint32_t *out)
{
    if (st == WEFT_OK)
        st = graph_check_text(call, "mesh_axis", name, WEFT_MAX_NAME - 1);
    if (st != WEFT_OK)
        return st;
    int a = graph_mesh_axis(&e->s->mesh, name);
    for (uint32_t i = 0; a < 0 && i < e->groups.n; i++)
        if (!strcmp(e->groups.at[i].name, name))
            a = (int)(FIRST_GROUP + i);
    if (a < 0)
        return err_fail(WEFT_USAGE, "no strategy of this job brings the mesh axis '%s'", name);
    *out = (uint32_t)a;
    return WEFT_OK;
}

/* Is there a line that begins with `text` or (whole) equals it? */
static bool has_line(const char *lines, const char *text, bool whole)
{
    const size_t n = strlen(text);
    for (const char *at = lines; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (!strncmp(at, text, n) && (!whole || at[n] == '\n' || !at[n]))
            return true;
    return false;
}

void plan_edits_note_change(plan_edit_state *e, const char *line)
{
    if (has_line(e->changes, line, true)) /* a graph is planned more than once */
        return;
    e->changes =
        e->changes ? pool_printf(e->pool, "%s\n%s", e->changes, line) : pool_text(e->pool, line);
}

bool plan_edits_has_noted(const plan_edit_state *e, const char *owner)
{
    pool p = {0};
    const bool told = has_line(e->changes, pool_printf(&p, "%s: ", owner), false);
    pool_free(&p);
    return told;
}

void plan_edits_free(plan_edit_state *e)
{
    free(e->syncs.at);
    free(e->stores.at);
    free(e->updates.at);
    free(e->lists.at);
    free(e->groups.at);
}
