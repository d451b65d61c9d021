/* resolve/plugins.c: finds the plugins that a job names, and checks the INI against their keys. */
#include "base/err.h"
#include "config/constraints.h"
#include "resolve/internal.h"

#include <string.h>

#define AXIS_FLAGS (WEFT_AXIS_SEQUENCE | WEFT_AXIS_BATCH | WEFT_AXIS_MODEL)

weft_option resolve_axis_option(const weft_mesh_axis *axis)
{
    return (weft_option){.struct_size = sizeof(weft_option),
                         .type = WEFT_OPT_AUTO_INT,
                         .key = axis->size_key,
                         .dflt = "auto",
                         .help = axis->help,
                         .min = 1,
                         .max = 1048576};
}

void resolve_axis_flags(spec *s, const weft_mesh_axis *axis)
{
    const uint64_t bit = (uint64_t)1 << s->mesh.n;
    s->sequence_axes |= axis->flags & WEFT_AXIS_SEQUENCE ? bit : 0;
    s->batch_axes |= axis->flags & WEFT_AXIS_BATCH ? bit : 0;
    s->undeclared_axes |= axis->flags ? 0 : bit;
}

static const weft_option *const *axis_options(resolve_state *r, const weft_mesh_axis *axis)
{
    weft_option *o = pool_alloc(&r->spec->pool, sizeof *o);
    *o = resolve_axis_option(axis);
    const weft_option **list = pool_array(&r->spec->pool, 2, sizeof *list);
    list[0] = o;
    return list;
}

#define WORD "abcdefghijklmnopqrstuvwxyz0123456789_"

static bool is_word(const char *text)
{
    const size_t n = text ? strnlen(text, WEFT_MAX_NAME) : 0;
    return n && n < WEFT_MAX_NAME && strspn(text, WORD) == n;
}

/* Check a mesh axis, which is constant data of the plugin, like its options. */
static weft_status check_axis(const host_component *c, const weft_mesh_axis *axis)
{
    if (axis->struct_size < WEFT_END_OF(weft_mesh_axis, help))
        return err_fail(WEFT_USAGE,
                        "%s: strategy %s: a mesh axis of %u bytes; %zu is the size here", c->path,
                        c->name, axis->struct_size, sizeof *axis);
    if (!is_word(axis->name) || !is_word(axis->size_key))
        return err_fail(
            WEFT_USAGE,
            "%s: strategy %s: the %s of a mesh axis is not made of a-z, 0-9 and '_', 1 to "
            "%d bytes",
            c->path, c->name, is_word(axis->name) ? "size_key" : "name", WEFT_MAX_NAME - 1);
    if (!axis->help || !*axis->help)
        return err_fail(WEFT_USAGE, "%s: strategy %s: the mesh axis %s has no line of help",
                        c->path, c->name, axis->name);
    if (axis->flags & ~AXIS_FLAGS)
        return err_fail(WEFT_USAGE, "%s: strategy %s: the mesh axis %s has the unknown flags 0x%x",
                        c->path, c->name, axis->name, axis->flags & ~AXIS_FLAGS);
    if (axis->flags & (axis->flags - 1))
        return err_fail(WEFT_USAGE,
                        "%s: strategy %s: the mesh axis %s has the flags 0x%x, of which one may be "
                        "set",
                        c->path, c->name, axis->name, axis->flags);
    return WEFT_OK;
}

/* Add the INI keys of a strategy's mesh axes: a number, or auto. */
static weft_status add_axes(resolve_state *r, const host_component *c)
{
    const weft_strategy *table = c->table;
    for (uint32_t i = 0; table->axes && table->axes[i]; i++) {
        const weft_mesh_axis *axis = table->axes[i];
        weft_status valid = check_axis(c, axis);
        if (valid != WEFT_OK)
            return valid;
        if (r->spec->mesh.n == WEFT_MAX_MESH)
            return err_fail(WEFT_UNSUPPORTED, "the job has more than %d mesh axes", WEFT_MAX_MESH);
        if (graph_mesh_axis(&r->spec->mesh, axis->name) >= 0)
            return config_refuse(
                CONSTRAINT_AXIS_TWICE, r->cfg, NULL,
                (config_fact[]){{"parallel.strategy", 0, config_text(r->cfg, "parallel.strategy")},
                                {"axis", 0, axis->name},
                                {0}});
        r->spec->size_key[r->spec->mesh.n] =
            pool_printf(&r->spec->pool, "parallel.%s", axis->size_key);
        resolve_axis_flags(r->spec, axis);
        r->spec->mesh.name[r->spec->mesh.n++] = axis->name;
        weft_status st =
            config_add(r->cfg, "parallel", pool_printf(&r->spec->pool, "plugin %s", c->name),
                       axis_options(r, axis));
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

#define MAX_LIST 1024u /* bytes of a list of strategies */

static weft_status check_unit(const host_component *c)
{
    const weft_rule *rule = c->table;
    if (rule->unit >= WEFT_UNIT_ELEMENT && rule->unit <= WEFT_UNIT_MATRIX)
        return WEFT_OK;
    return err_fail(
        WEFT_USAGE,
        "%s: update rule %s has unit = %u; there are WEFT_UNIT_ELEMENT (1), _TENSOR (2) "
        "and _MATRIX (3)",
        c->path, c->name, rule->unit);
}

/* Add the strategies of a list; one that represents a list is replaced by it. */
static weft_status add_strategies(resolve_state *r, const char *list, bool nested)
{
    char *rest = pool_text(&r->spec->pool, list);
    for (char *word; (word = resolve_next_word(&rest));) {
        const host_component *c;
        weft_status st = resolve_take(r, "parallel.strategy", word, &c);
        if (st != WEFT_OK)
            return st;
        const weft_strategy *table = c->table;
        if (table->list && strnlen(table->list, MAX_LIST) == MAX_LIST)
            return err_fail(WEFT_USAGE, "%s: strategy %s expands to a list of %u bytes or more",
                            c->path, word, MAX_LIST);
        if (table->list && nested)
            return err_fail(WEFT_USAGE, "strategy %s expands to a list inside a list", word);
        if (table->list) {
            st = add_strategies(r, table->list, true);
            if (st != WEFT_OK)
                return st;
            continue;
        }
        if (r->spec->nstrategies == WEFT_MAX_MESH)
            return err_fail(WEFT_UNSUPPORTED, "%s: more than %d strategies",
                            config_where(r->cfg, "parallel.strategy"), WEFT_MAX_MESH);
        r->spec->strategies[r->spec->nstrategies++].c = c;
        st = add_axes(r, c);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

static weft_status find_strategies(resolve_state *r)
{
    const char *text = config_text(r->cfg, "parallel.strategy");
    return strcmp(text, "none") ? add_strategies(r, text, false) : WEFT_OK;
}

static void add_unused_axes(resolve_state *r, const host_component *c)
{
    const weft_strategy *table = c->table;
    for (uint32_t i = 0; i < WEFT_MAX_MESH && table->axes && table->axes[i]; i++)
        if (check_axis(c, table->axes[i]) == WEFT_OK)
            (void)!config_add_unused(r->cfg, "parallel",
                                     pool_printf(&r->spec->pool, "plugin %s", c->name),
                                     axis_options(r, table->axes[i]));
        else
            err_clear(); /* a plugin that this job does not use */
}

/* A rule's keys may stand in parameter groups, too. */
static void add_unused_rule(resolve_state *r, const host_component *c)
{
    for (uint32_t i = 0; i < r->spec->ngroups; i++)
        (void)!config_add_unused(r->cfg,
                                 pool_printf(&r->spec->pool, "optim.%s", r->spec->groups[i].name),
                                 pool_printf(&r->spec->pool, "plugin %s", c->name), c->options);
}

static void add_unused(resolve_state *r)
{
    const host_component **all;
    uint32_t n;
    host_list(r->spec->host, NULL, &all, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (!all[i]->iface || !strcmp(all[i]->kind, "comm") || !strcmp(all[i]->kind, "op"))
            continue;
        (void)!config_add_unused(r->cfg, resolve_section_of(r, all[i]),
                                 pool_printf(&r->spec->pool, "plugin %s", all[i]->name),
                                 all[i]->options);
        if (!strcmp(all[i]->iface, "weft.strategy/1"))
            add_unused_axes(r, all[i]);
        if (!strcmp(all[i]->iface, "weft.rule/1"))
            add_unused_rule(r, all[i]);
    }
}

weft_status resolve_check_keys(resolve_state *r)
{
    if (config_check(r->cfg) == WEFT_OK)
        return WEFT_OK;
    /* Keys of installed plugins that this job does not use are allowed, so that a backend is
     * swapped by editing one line. They are looked up only if a key was unknown. */
    add_unused(r);
    return config_check(r->cfg);
}

weft_status resolve_device(resolve_state *r)
{
    return resolve_take(r, "device.plugin", NULL, &r->spec->device.c);
}

static weft_status find_rule(resolve_state *r)
{
    spec *s = r->spec;
    weft_status st = resolve_take(r, "optim.rule", NULL, &s->rule.c);
    if (st == WEFT_OK)
        st = check_unit(s->rule.c);
    return st == WEFT_OK ? resolve_groups(r) : st;
}

static weft_status find_placement(resolve_state *r)
{
    return strcmp(config_text(r->cfg, "optim.placement"), "none")
               ? resolve_take(r, "optim.placement", NULL, &r->spec->placement.c)
               : WEFT_OK;
}

weft_status resolve_use(resolve_state *r)
{
    char *rest = pool_text(&r->spec->pool, config_text(r->cfg, "run.use"));
    rest = *rest ? rest : NULL;
    for (char *word; (word = resolve_next_word(&rest));) {
        weft_status st = host_use_named(r->spec->host, word, NULL);
        if (st != WEFT_OK) {
            err_context("%s: run.use", config_where(r->cfg, "run.use"));
            return st;
        }
    }
    return WEFT_OK;
}

weft_status resolve_plugins(config *cfg, host *h, spec *out)
{
    *out = (spec){.host = h};
    resolve_state r = {.cfg = cfg, .spec = out};
    resolve_serve_components(&r);
    weft_status st = host_use_ops(h);
    if (st == WEFT_OK)
        st = find_strategies(&r);
    if (st == WEFT_OK)
        st = resolve_take(&r, "model.family", NULL, &out->family.c);
    if (st == WEFT_OK)
        st = resolve_data(&r);
    if (st == WEFT_OK)
        st = resolve_device(&r);
    if (st == WEFT_OK)
        st = find_rule(&r);
    if (st == WEFT_OK)
        st = find_placement(&r);
    if (st == WEFT_OK)
        st = resolve_sections(&r);
    if (st == WEFT_OK)
        st = resolve_sinks(&r);
    if (st == WEFT_OK)
        st = resolve_use(&r);
    return st == WEFT_OK ? resolve_check_keys(&r) : st;
}

weft_status resolve_text(config *cfg, host *h, spec *out)
{
    *out = (spec){.host = h};
    resolve_state r = {.cfg = cfg, .spec = out};
    weft_status st = resolve_tokenizer(&r);
    return st == WEFT_OK ? resolve_check_keys(&r) : st;
}
