/* resolve/groups.c: parameter groups, [optim.NAME]: parameters with values of their own for the
 * learning rate and the keys of the update rule.
 *
 * A key that a group leaves out has the value of [optim]. The schedule is that of [optim], so the
 * rate of a group is at any time the same multiple of optim.lr. */
#include "base/err.h"
#include "config/differ.h"
#include "resolve/internal.h"

#include <string.h>

#define PREFIX "optim."

/* The option with the value of [optim] as its default. */
static const weft_option *inherited(resolve_state *r, const weft_option *o)
{
    const char *value = config_raw(r->cfg, pool_printf(&r->spec->pool, PREFIX "%s", o->key));
    weft_option *own = pool_alloc(&r->spec->pool, sizeof *own);
    *own = *o;
    own->dflt = value ? pool_text(&r->spec->pool, value) : o->dflt;
    return own;
}

static const weft_option *const *options_of(resolve_state *r, const host_component *rule)
{
    const weft_option *const *core = config_group_options();
    uint32_t n = 0, at = 0;
    for (const weft_option *const *o = rule->options; o && *o; o++)
        n++;
    const weft_option **all = pool_array(&r->spec->pool, n + 3, sizeof *all);
    for (uint32_t i = 0; core[i]; i++)
        all[at++] = inherited(r, core[i]);
    for (uint32_t i = 0; i < n; i++)
        all[at++] = inherited(r, rule->options[i]);
    return all;
}

weft_status resolve_groups(resolve_state *r)
{
    spec *s = r->spec;
    const weft_option *const *options = NULL;
    const char *section;
    for (uint32_t i = 0; (section = config_section_at(r->cfg, i)); i++) {
        if (strncmp(section, PREFIX, strlen(PREFIX)))
            continue;
        const char *name = section + strlen(PREFIX);
        if (s->ngroups == SPEC_GROUPS)
            return err_fail(WEFT_UNSUPPORTED, "[%s]: a job has at most %u parameter groups",
                            section, SPEC_GROUPS);
        options = options ? options : options_of(r, s->rule.c);
        s->groups[s->ngroups++] = (spec_group){.name = pool_text(&s->pool, name)};
        const weft_status st = config_add(r->cfg, section, "the parameter group", options);
        if (st != WEFT_OK)
            return st;
        config_set_effect(r->cfg, section, options, resolve_effect(s->rule.c));
    }
    return WEFT_OK;
}

weft_status resolve_group_values(resolve_state *r)
{
    spec *s = r->spec;
    const double base = config_real(r->cfg, "optim.lr");
    for (uint32_t i = 0; i < s->ngroups; i++) {
        spec_group *g = &s->groups[i];
        const char *section = pool_printf(&s->pool, PREFIX "%s", g->name);
        const char *lr = pool_printf(&s->pool, "%s.lr", section);
        const char *params = pool_printf(&s->pool, "%s.params", section);
        g->rate = config_real(r->cfg, lr);
        g->params = config_text(r->cfg, params);
        g->conf = config_conf(r->cfg, section, s->rule.c->own);
        g->where = config_origin(r->cfg, params);
        if (!*g->params)
            return config_fail(
                r->cfg, params,
                "the parameter group [%s] names no parameters; write which they are, "
                "as params = embed.*|@norm*",
                section);
        if (base == 0 && g->rate != 0)
            return config_fail(r->cfg, lr,
                               "optim.lr is 0, and the rate of a group is a multiple of it; set "
                               "optim.lr, and 0 in the groups that stay as they are");
        g->share = base == 0 ? 1 : g->rate / base;
    }
    return WEFT_OK;
}
