/* plan/transport.c: which transport carries which mesh axis (see transport.h). */
#include "plan/transport.h"

#include "base/err.h"
#include "config/combine.h"

#include <string.h>

static const char *const link_ifaces[] = {"weft.link/1", NULL};

static const weft_option axis_plugin = {sizeof(weft_option),
                                        WEFT_OPT_STRING,
                                        "plugin",
                                        "",
                                        "transport of this axis; empty: [comm]'s",
                                        NULL,
                                        0,
                                        0};
static const weft_option axis_algorithm = {sizeof(weft_option),
                                           WEFT_OPT_STRING,
                                           "algorithm",
                                           "",
                                           "collective algorithm of this axis; empty: [comm]'s",
                                           NULL,
                                           0,
                                           0};
static const weft_option *const axis_options[] = {&axis_plugin, &axis_algorithm, NULL};

/* [comm.NAME] has the plugin's keys and those of the core. */
static weft_status add_keys(spec *s, const component *c)
{
    const char *section = pool_printf(&s->pool, "comm.%s", c->name);
    weft_status st =
        config_add(s->cfg, section, pool_printf(&s->pool, "plugin %s", c->name), c->options);
    return st ? st : config_add(s->cfg, section, "the core", config_link_options());
}

static weft_status add_transport(spec *s, const char *name, const char *where)
{
    const component *c;
    weft_status st = host_find(s->host, "comm", name, link_ifaces, &c);
    if (st) {
        err_context("%s", where);
        return st;
    }
    return add_keys(s, c);
}

/* The text of the key that settles axis `a`, and that key. */
static const char *wish(const spec *s, uint32_t a, const char *what, char key[128])
{
    snprintf(key, 128, "comm.%s.%s", s->mesh.name[a], what);
    const char *text = config_raw(s->cfg, key);
    if (text && *text)
        return text;
    snprintf(key, 128, "comm.%s", what);
    text = config_raw(s->cfg, key);
    return text ? text : "auto";
}

/* [comm.AXIS] of an axis that an installed strategy brings and this job does not use may stand
 * there, as such a strategy's own keys may. */
static bool is_unused_axis(const spec *s, const char *name)
{
    const component **all;
    uint32_t n;
    if (host_list(s->host, &all, &n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const weft_strategy *table = all[i]->table;
        if (!all[i]->iface || strcmp(all[i]->iface, "weft.strategy/1"))
            continue;
        for (uint32_t k = 0; table->axes && table->axes[k]; k++)
            if (!strcmp(table->axes[k]->name, name))
                return true;
    }
    return false;
}

weft_status transport_add_sections(spec *s)
{
    char key[128];
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        weft_status st = config_add(s->cfg, pool_printf(&s->pool, "comm.%s", s->mesh.name[a]),
                                    "the mesh axis", axis_options);
        const char *name = wish(s, a, "plugin", key);
        if (!st && strcmp(name, "auto"))
            st = add_transport(s, name, config_where(s->cfg, key));
        if (st)
            return st;
    }
    const char *section;
    for (uint32_t i = 0; (section = config_section_at(s->cfg, i)); i++) {
        if (strncmp(section, "comm.", 5) || mesh_axis(&s->mesh, section + 5) >= 0)
            continue;
        weft_status st = is_unused_axis(s, section + 5)
                             ? config_add(s->cfg, section, "the mesh axis", axis_options)
                             : add_transport(s, section + 5, section);
        if (st)
            return st;
    }
    return WEFT_OK;
}

static weft_status probe(spec *s, const component *c, const weft_conf *conf, bool same_machine,
                         int32_t *score)
{
    const weft_link_table *link = c->table;
    const weft_device_table *device = s->device.c->table;
    weft_link_group group = {sizeof group, 0, same_machine, (uint32_t)device->caps};
    weft_status st = host_open(s->host, c);
    *score = 0;
    err_clear();
    return st ? st : link->probe(c->module, conf, &group, score);
}

static uint32_t use(spec *s, const component *c, const weft_conf *conf)
{
    for (uint32_t i = 0; i < s->nlinks; i++)
        if (s->links[i].c == c)
            return i;
    s->links[s->nlinks] = (spec_plugin){c, conf};
    return s->nlinks++;
}

static const weft_conf *conf_of(spec *s, const component *c)
{
    return config_conf(s->cfg, pool_printf(&s->pool, "comm.%s", c->name), c->options);
}

static weft_status take_named(spec *s, uint32_t a, const char *name, const char *key,
                              bool same_machine)
{
    const component *c;
    int32_t score;
    weft_status st = host_find(s->host, "comm", name, link_ifaces, &c);
    if (!st)
        st = probe(s, c, conf_of(s, c), same_machine, &score);
    if (!st && !score)
        return combine_refuse(COMBINE_TRANSPORT, s->cfg, key,
                              (combine_fact[]){{"comm.plugin", 0, name},
                                               {"axis", 0, s->mesh.name[a]},
                                               {"reason", 0,
                                                err_text()[0] ? pool_text(&s->pool, err_text())
                                                              : "its probe said no"},
                                               {0}});
    if (!st)
        s->axis_link[a] = use(s, c, conf_of(s, c));
    return st;
}

/* The best of all installed, and why each better one was passed over. */
static weft_status take_best(spec *s, uint32_t a, bool same_machine)
{
    const component **all, *best = NULL;
    uint32_t n;
    int32_t top = 0;
    char *why = pool_text(&s->pool, "");
    weft_status st = host_list(s->host, &all, &n);
    for (uint32_t i = 0; !st && i < n; i++) {
        const component *c;
        int32_t score;
        if (strcmp(all[i]->kind, "comm") || !all[i]->iface || strcmp(all[i]->iface, link_ifaces[0]))
            continue;
        st = host_find(s->host, "comm", all[i]->name, link_ifaces, &c);
        if (st)
            return st;
        st = add_keys(s, c);
        if (st)
            return st;
        if (probe(s, c, conf_of(s, c), same_machine, &score) || !score)
            why = pool_printf(&s->pool, "%s; not %s: %s", why, c->name, err_text());
        else if (score > top) {
            top = score;
            best = c;
        }
    }
    if (!st && !best)
        return fail(WEFT_ABSENT, "no installed transport can carry the mesh axis %s here%s",
                    s->mesh.name[a], why);
    if (!st) {
        s->axis_link[a] = use(s, best, conf_of(s, best));
        s->comm_choice = pool_printf(&s->pool, "mesh axis %s goes over %s (score %d%s)",
                                     s->mesh.name[a], best->name, top, why);
    }
    return st;
}

/* What `auto` goes by on the axis, where its transport was measured. */
static weft_status take_cost(spec *s, uint32_t a)
{
    comm_cost *cost = pool_alloc(&s->pool, sizeof *cost);
    int known;
    weft_status st = comm_cost_read(s->cfg, s->links[s->axis_link[a]].c->name, cost, &known);
    s->axis_cost[a] = !st && known ? cost : NULL;
    return st;
}

weft_status transport_choose(spec *s, bool same_machine)
{
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        char key[128];
        s->axis_algorithm[a] = pool_text(&s->pool, wish(s, a, "algorithm", key));
        if (s->mesh.size[a] < 2)
            continue;
        const char *name = pool_text(&s->pool, wish(s, a, "plugin", key));
        weft_status st = strcmp(name, "auto") ? take_named(s, a, name, key, same_machine)
                                              : take_best(s, a, same_machine);
        if (!st)
            st = take_cost(s, a);
        if (st)
            return st;
    }
    return WEFT_OK;
}
