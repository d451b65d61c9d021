/* resolve/transport.c: which transport carries which mesh axis (see transport.h). */
#include "resolve/transport.h"

#include "base/err.h"
#include "config/combine.h"
#include "config/differ.h"
#include "resolve/topology.h"

#include <string.h>

static const char *const ifaces[] = {"weft.link/1", "weft.coll/1", NULL};

static const weft_option axis_plugin = {sizeof(weft_option),
                                        WEFT_OPT_STRING,
                                        "plugin",
                                        "",
                                        "transport of this axis; empty: [comm]'s",
                                        NULL,
                                        0,
                                        0};
static const weft_option axis_near = {sizeof(weft_option),
                                      WEFT_OPT_STRING,
                                      "near",
                                      "",
                                      "transport of this axis inside a machine; empty: [comm]'s",
                                      NULL,
                                      0,
                                      0};
static const weft_option axis_algorithm = {
    sizeof(weft_option),
    WEFT_OPT_STRING,
    "algorithm",
    "",
    "collective algorithm of this axis, or rules; empty: [comm]'s",
    NULL,
    0,
    0};
static const weft_option axis_compress = {sizeof(weft_option),
                                          WEFT_OPT_CHOICE,
                                          "compress",
                                          "same",
                                          "form in which gradients travel along this axis; same: "
                                          "as [comm] says",
                                          "same|none|fp16|bf16|int8",
                                          0,
                                          0};
static const weft_option *const axis_options[] = {&axis_plugin, &axis_near, &axis_algorithm,
                                                  &axis_compress, NULL};
static const weft_option *const axis_binding[] = {&axis_compress, NULL}; /* changes results */

weft_status transport_add_keys(spec *s, const component *c)
{
    const char *section = pool_printf(&s->pool, "comm.%s", c->name);
    weft_status st =
        config_add(s->cfg, section, pool_printf(&s->pool, "plugin %s", c->name), c->options);
    return st ? st : config_add(s->cfg, section, "the core", config_link_options());
}

static weft_status add_transport(spec *s, const char *name, const char *where)
{
    const component *c;
    weft_status st = host_find(s->host, "comm", name, ifaces, &c);
    if (st) {
        err_context("%s", where);
        return st;
    }
    return transport_add_keys(s, c);
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

/* The transports and algorithms that a section names, [comm] or [comm.AXIS], whether ranks of this
 * job will use them or not: a job that one rank accepts is not to fail on eight. */
static weft_status check_names(spec *s, const char *section)
{
    static const char *const roles[] = {"plugin", "near"};
    const bool of_axis = strchr(section, '.') != NULL; /* empty: as [comm] says */
    char key[128];
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < 2 && !st; i++) {
        snprintf(key, sizeof key, "%s.%s", section, roles[i]);
        const char *name = config_raw(s->cfg, key);
        if (name && (*name || !of_axis) && strcmp(name, "auto") && (!i || strcmp(name, "none")))
            st = add_transport(s, name,
                               pool_printf(&s->pool, "%s: %s", config_where(s->cfg, key), key));
    }
    snprintf(key, sizeof key, "%s.algorithm", section);
    const char *rules = config_raw(s->cfg, key);
    return !st && rules && *rules ? comm_rules_check(s->cfg, key, NULL) : st;
}

static weft_status add_axis(spec *s, const char *section)
{
    weft_status st = config_add(s->cfg, section, "the mesh axis", axis_options);
    return st ? st : check_names(s, section);
}

/* "job.ini:12: [comm.carrier]": where the section first has a key. */
static const char *section_place(spec *s, const char *section)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(s->cfg, i, &line); i++)
        if (!strcmp(line.section, section))
            return pool_printf(&s->pool, "%s: [%s]", line.where, section);
    return pool_printf(&s->pool, "[%s]", section);
}

weft_status transport_add_sections(spec *s)
{
    weft_status st = check_names(s, "comm");
    for (uint32_t a = 0; a < s->mesh.n && !st; a++) {
        const char *of_axis = pool_printf(&s->pool, "comm.%s", s->mesh.name[a]);
        st = add_axis(s, of_axis);
        if (!st)
            config_bind(s->cfg, of_axis, axis_binding);
    }
    const char *section;
    for (uint32_t i = 0; !st && (section = config_section_at(s->cfg, i)); i++) {
        if (strncmp(section, "comm.", 5) || mesh_axis(&s->mesh, section + 5) >= 0)
            continue;
        st = is_unused_axis(s, section + 5)
                 ? add_axis(s, section)
                 : add_transport(s, section + 5, section_place(s, section));
    }
    return st;
}

const weft_conf *transport_conf(spec *s, const component *c)
{
    return config_conf(s->cfg, pool_printf(&s->pool, "comm.%s", c->name), c->options);
}

static uint32_t use(spec *s, carrier far, carrier near)
{
    const bool staged = far.staged || near.staged;
    for (uint32_t i = 0; i < s->nlinks; i++)
        if (s->links[i].c == far.c && s->links[i].near.c == near.c && s->links[i].staged == staged)
            return i;
    const spec_plugin inside = {near.c, near.c ? transport_conf(s, near.c) : NULL};
    s->links[s->nlinks] = (spec_link){far.c, transport_conf(s, far.c), inside, staged};
    return s->nlinks++;
}

/* A transport that the user named: it is taken, or the job ends here. */
static weft_status take_named(spec *s, uint32_t a, const char *name, const char *key,
                              bool same_machine, carrier *out)
{
    int32_t score;
    const component *c;
    weft_status st = host_find(s->host, "comm", name, ifaces, &c);
    if (st)
        return st;
    st = carrier_named(s, a, c, same_machine, &score, out);
    if (!st && score > 0)
        return WEFT_OK;
    const bool absent = err_status() == WEFT_ABSENT;
    char *why = pool_text(&s->pool, err_text()[0] ? err_text() : "its probe said no");
    if (absent && s->meeting.on_paper) {
        err_clear();
        return WEFT_OK;
    }
    st = combine_refuse(
        COMBINE_TRANSPORT, s->cfg, key,
        (combine_fact[]){
            {"comm.plugin", 0, name}, {"axis", 0, s->mesh.name[a]}, {"reason", 0, why}, {0}});
    return absent ? WEFT_ABSENT : st;
}

/* The transport of pairs of ranks that share a machine, or that do not. */
static weft_status take(spec *s, uint32_t a, const char *what, bool same_machine, carrier *out)
{
    char key[128];
    const char *name = pool_text(&s->pool, wish(s, a, what, key));
    return strcmp(name, "auto") ? take_named(s, a, name, key, same_machine, out)
                                : carrier_best(s, a, same_machine, !strcmp(what, "near"), out);
}

/* An axis that reaches over machines and has several ranks on some of them may use two. */
static weft_status take_near(spec *s, uint32_t a, carrier far, carrier *near)
{
    char key[128];
    bool named = strcmp(wish(s, a, "plugin", key), "auto") != 0;
    const char *name = wish(s, a, "near", key);
    if (!strcmp(name, "none") || (named && !strcmp(name, "auto")))
        return WEFT_OK;
    weft_status st = take(s, a, "near", true, near);
    if (!st && !strcmp(near->c->iface, ifaces[1]))
        return config_fail(s->cfg, key,
                           "%s brings its own collectives, and can only carry a whole mesh axis",
                           name);
    if (near->c == far.c)
        *near = (carrier){0};
    return st;
}

static weft_status choose_for(spec *s, uint32_t a)
{
    carrier far = {0}, near = {0};
    uint32_t reach = where_axis(s, a);
    weft_status st = take(s, a, "plugin", reach == REACH_ONE, &far);
    if (!st && reach == REACH_BOTH && strcmp(far.c->iface, ifaces[1]))
        st = take_near(s, a, far, &near);
    if (!st)
        s->axis_link[a] = use(s, far, near);
    return st;
}

/* What `auto` goes by on the axis, where its transport was measured. */
static weft_status take_cost(spec *s, uint32_t a)
{
    comm_cost *cost = pool_alloc(&s->pool, sizeof *cost);
    comm_cost inside;
    const spec_link *l = &s->links[s->axis_link[a]];
    int known, near_known = 1;
    weft_status st = comm_cost_read(s->cfg, l->c->name, cost, &known);
    if (!st && l->near.c)
        st = comm_cost_read(s->cfg, l->near.c->name, &inside, &near_known);
    if (!st && l->near.c && near_known) {
        cost->near = inside.near;
        cost->mapped = inside.mapped;
    }
    s->axis_cost[a] = !st && known && near_known ? cost : NULL;
    return st;
}

weft_status transport_choose_axis(spec *s, uint32_t a)
{
    weft_status st = choose_for(s, a);
    return st ? st : take_cost(s, a);
}

static void take_compress(spec *s, uint32_t a)
{
    char key[128];
    const char *form = wish(s, a, "compress", key);
    if (!strcmp(form, "same")) {
        snprintf(key, sizeof key, "comm.compress");
        form = config_text(s->cfg, key);
    }
    s->compress_key[a] = pool_text(&s->pool, key);
    for (uint32_t i = COMM_TO_FP16; i <= COMM_TO_INT8; i++)
        if (!strcmp(form, comm_form_name(i)))
            s->axis_compress[a] = i;
}

weft_status transport_choose(spec *s)
{
    weft_status st = comm_rules_check(s->cfg, "comm.algorithm", NULL);
    s->feedback = config_int(s->cfg, "comm.feedback");
    for (uint32_t a = 0; a < s->mesh.n && !st; a++) {
        char key[128];
        s->axis_algorithm[a] = pool_text(&s->pool, wish(s, a, "algorithm", key));
        st = comm_rules_check(s->cfg, key, NULL);
        take_compress(s, a);
        if (!st && s->mesh.size[a] > 1)
            st = choose_for(s, a);
        if (!st && s->mesh.size[a] > 1)
            st = take_cost(s, a);
    }
    return st ? st : homes_find(s);
}
