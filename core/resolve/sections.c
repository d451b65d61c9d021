/* resolve/sections.c: keys and values of the sections [comm], [comm.AXIS] and [comm.TRANSPORT].
 *
 * [comm.AXIS] has the transports, algorithm, compression and checksums of one mesh axis; a key that
 * it lacks is taken from [comm]. [comm.TRANSPORT] has the keys of a plugin and those that the core
 * adds to every transport. */
#include "base/err.h"
#include "base/log.h"
#include "config/constraints.h"
#include "config/differ.h"
#include "resolve/internal.h"
#include "resolve/topology.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

const char *const resolve_ifaces[] = {"weft.link/1", "weft.coll/1", NULL};

#define AXIS_OPTION(name, type, dflt, help, choices)                                               \
    static const weft_option axis_##name = {                                                       \
        sizeof(weft_option), type, #name, dflt, help, choices, 0, 0}
AXIS_OPTION(plugin, WEFT_OPT_STRING, "", "transport of this axis; empty: [comm]'s", NULL);
AXIS_OPTION(intra, WEFT_OPT_STRING, "", "transport of this axis inside a machine; empty: [comm]'s",
            NULL);
AXIS_OPTION(algorithm, WEFT_OPT_STRING, "",
            "collective algorithm of this axis, or rules; empty: [comm]'s", NULL);
AXIS_OPTION(compress, WEFT_OPT_CHOICE, "same",
            "form in which gradients travel along this axis; same: as [comm] says",
            "same|none|fp16|bf16|int8");
AXIS_OPTION(checksum, WEFT_OPT_CHOICE, "same",
            "whether messages along this axis carry a CRC32C; same: as [comm] says", "same|off|on");
static const weft_option *const axis_options[] = {&axis_plugin,   &axis_intra,    &axis_algorithm,
                                                  &axis_compress, &axis_checksum, NULL};
static const weft_option *const axis_binding[] = {&axis_compress, NULL}; /* changes results */

/* --- words of a version before this one ---
 *
 * They are taken for a release, and a line of the log says what they are now (effects.c). */

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The rule with its first former word replaced; false: it has none, or `out` has no room. */
static bool replace_word(const char *rules, char *out, size_t size, const char **was)
{
    for (const sched_rename *x = sched_renames; x->was; x++) {
        const size_t n = strlen(x->was);
        for (const char *at = rules; (at = strstr(at, x->was)); at += n) {
            if ((at > rules && is_letter(at[-1])) || is_letter(at[n]))
                continue;
            if (snprintf(out, size, "%.*s%s%s", (int)(at - rules), rules, x->is, at + n) >=
                (int)size)
                return false;
            *was = x->was;
            return true;
        }
    }
    return false;
}

static void take_former_words(resolve_state *r, const char *section)
{
    char key[128], rules[2][4096];
    const char *was = NULL;
    config_rename(r->cfg, section, "near", "intra", NULL, "near");
    snprintf(key, sizeof key, "%s.algorithm", section);
    const char *text = config_raw(r->cfg, key);
    for (uint32_t k = 0; text && replace_word(text, rules[k % 2], sizeof *rules, &was); k++)
        text = rules[k % 2];
    if (was)
        config_rename(r->cfg, section, "algorithm", "algorithm", text, was);
}

/* --- keys --- */

weft_status resolve_transport_keys(resolve_state *r, const host_component *c)
{
    const char *section = pool_printf(&r->spec->pool, "comm.%s", c->name);
    weft_status st =
        config_add(r->cfg, section, pool_printf(&r->spec->pool, "plugin %s", c->name), c->options);
    return st != WEFT_OK ? st : config_add(r->cfg, section, "the core", config_link_options());
}

static weft_status add_transport(resolve_state *r, const char *name, const char *where)
{
    const host_component *c;
    weft_status st = host_find(r->spec->host, "comm", name, resolve_ifaces, &c);
    if (st != WEFT_OK) {
        err_context("%s", where);
        return st;
    }
    st = host_use(r->spec->host, c);
    return st == WEFT_OK ? resolve_transport_keys(r, c) : st;
}

const char *resolve_setting(const resolve_state *r, uint32_t a, const char *what, char key[128])
{
    snprintf(key, 128, "comm.%s.%s", r->spec->mesh.name[a], what);
    const char *text = config_raw(r->cfg, key);
    if (text && *text)
        return text;
    snprintf(key, 128, "comm.%s", what);
    text = config_raw(r->cfg, key);
    return text ? text : "auto";
}

/* [comm.AXIS] is allowed for an axis of an installed strategy that this job does not use, as the
 * strategy's own keys are. */
static bool is_unused_axis(const resolve_state *r, const char *name)
{
    const host_component **all;
    uint32_t n;
    host_list(r->spec->host, "parallel", &all, &n);
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

/* Check the transports and algorithms that [comm] or [comm.AXIS] names, whether or not ranks of
 * this job will use them: a config that is valid on one rank must be valid on eight. */
static weft_status check_names(resolve_state *r, const char *section)
{
    take_former_words(r, section);
    static const char *const roles[] = {"plugin", "intra"};
    const bool of_axis = strchr(section, '.'); /* empty: as in [comm] */
    char key[128];
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < 2 && st == WEFT_OK; i++) {
        snprintf(key, sizeof key, "%s.%s", section, roles[i]);
        const char *name = config_raw(r->cfg, key);
        if (name && (*name || !of_axis) && strcmp(name, "auto") && (!i || strcmp(name, "none")))
            st = add_transport(
                r, name, pool_printf(&r->spec->pool, "%s: %s", config_where(r->cfg, key), key));
    }
    snprintf(key, sizeof key, "%s.algorithm", section);
    const char *rules = config_raw(r->cfg, key);
    return st == WEFT_OK && rules && *rules ? sched_rules_check(r->cfg, key, NULL) : st;
}

static weft_status add_axis(resolve_state *r, const char *section, bool used)
{
    weft_status st =
        (used ? config_add : config_add_unused)(r->cfg, section, "the mesh axis", axis_options);
    return st != WEFT_OK ? st : check_names(r, section);
}

/* "job.ini:12: [comm.carrier]": where the section first has a key. */
static const char *section_place(resolve_state *r, const char *section)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(r->cfg, i, &line); i++)
        if (!strcmp(line.section, section))
            return pool_printf(&r->spec->pool, "%s: [%s]", line.where, section);
    return pool_printf(&r->spec->pool, "[%s]", section);
}

weft_status resolve_sections(resolve_state *r)
{
    weft_status st = check_names(r, "comm");
    for (uint32_t a = 0; a < r->spec->mesh.n && st == WEFT_OK; a++) {
        const char *of_axis = pool_printf(&r->spec->pool, "comm.%s", r->spec->mesh.name[a]);
        st = add_axis(r, of_axis, true);
        if (st == WEFT_OK)
            config_set_effect(r->cfg, of_axis, axis_binding, CONFIG_BINDS);
    }
    const char *section;
    for (uint32_t i = 0; st == WEFT_OK && (section = config_section_at(r->cfg, i)); i++) {
        if (strncmp(section, "comm.", 5) || graph_mesh_axis(&r->spec->mesh, section + 5) >= 0)
            continue;
        st = is_unused_axis(r, section + 5)
                 ? add_axis(r, section, false)
                 : add_transport(r, section + 5, section_place(r, section));
    }
    return st;
}

const weft_conf *resolve_transport_conf(resolve_state *r, const host_component *c)
{
    return config_conf(r->cfg, pool_printf(&r->spec->pool, "comm.%s", c->name), c->own);
}

/* --- keys of a transport that carries nothing --- */

/* A transport may wrap another one, which a text option of it names. */
static bool wraps(const config *cfg, const host_component *c, const char *name)
{
    char key[128];
    bool found = false;
    for (const weft_option *const *o = c->options; o && *o; o++) {
        snprintf(key, sizeof key, "comm.%s.%s", c->name, (*o)->key);
        found |= (*o)->type == WEFT_OPT_STRING && !strcmp(config_text(cfg, key), name);
    }
    return found;
}

static bool carries(const config *cfg, const spec *s, const char *name)
{
    bool found = false;
    for (uint32_t i = 0; i < 2 * s->nlinks; i++) {
        const host_component *c = i % 2 ? s->links[i / 2].intra.c : s->links[i / 2].c;
        found |= c && (!strcmp(c->name, name) || wraps(cfg, c, name));
    }
    return found;
}

/* Does the job leave a transport to the machine? Then another machine may use the one of the key.
 * `intra` is not asked: it chooses only where `plugin` is auto. */
static bool leaves_open(const config *cfg, const spec *s)
{
    bool open = false;
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        const char *own = resolve_own_value(cfg, s, a, "plugin");
        open |= !strcmp(*own ? own : config_text(cfg, "comm.plugin"), "auto");
    }
    return open;
}

/* All axes of the strategy have one coordinate: what it would split stays whole. NULL: not so. */
static const char *idle_axis(const spec *s, const host_component *c)
{
    const weft_strategy *table = c->table;
    const char *key = NULL;
    for (uint32_t k = 0; table->axes && table->axes[k]; k++) {
        const int a = graph_mesh_axis(&s->mesh, table->axes[k]->name);
        if (a < 0 || s->mesh.size[a] > 1)
            return NULL;
        key = s->size_key[a];
    }
    return key;
}

/* Typed options of strategies that split nothing; a script that goes through sizes has them. */
static void tell_of_strategies(const config *cfg, const spec *s)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        for (uint32_t k = 0; k < s->nstrategies; k++) {
            const host_component *c = s->strategies[k].c;
            const char *size = line.typed && !line.stale && !strcmp(line.section, "parallel") &&
                                       resolve_has_option(c, line.key)
                                   ? idle_axis(s, c)
                                   : NULL;
            if (size)
                log_line(WEFT_LOG_WARN, "%s: %s has no effect: %s is 1", line.where, line.name,
                         size);
        }
}

bool resolve_joins_ranks(const config_line *line)
{
    static const char *const keys[] = {"comm.*",           "run.key",         "run.listen",
                                       "run.join_timeout", "train.bucket_mb", "run.address"};
    for (uint32_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (!line->stale && !line->unused && !fnmatch(keys[k], line->name, 0))
            return true;
    return false;
}

/* In a job of one rank: a script that goes through sizes types them. */
static void tell_of_one_rank(const config *cfg)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (line.typed && resolve_joins_ranks(&line))
            log_line(WEFT_LOG_WARN, "%s: %s has no effect: the job has one rank", line.where,
                     line.name);
}

/* A transport inside a machine, for axes of which none spans machines. */
static bool is_idle_intra(const spec *s, const config_line *line)
{
    const char *axis = !strcmp(line->section, "comm") ? NULL : line->section + strlen("comm.");
    bool idle = !fnmatch("comm*.intra", line->name, 0) && !line->stale && !line->unused &&
                *line->value && strcmp(line->value, "auto") && strcmp(line->value, "none");
    for (uint32_t a = 0; idle && a < s->mesh.n; a++)
        idle = (axis && strcmp(axis, s->mesh.name[a])) || resolve_reach(s, a) != REACH_MIXED;
    return idle;
}

weft_status resolve_check_layout_keys(const config *cfg, const spec *s, bool tell)
{
    const bool open = leaves_open(cfg, s);
    config_line line;
    if (tell)
        tell_of_strategies(cfg, s);
    if (tell && !s->nlinks)
        tell_of_one_rank(cfg);
    for (uint32_t i = 0; s->nlinks && config_line_at(cfg, i, &line); i++) {
        char why[160] = "no axis has ranks both inside a machine and on others";
        const char *name = strncmp(line.section, "comm.", 5) ? NULL : line.section + 5;
        const bool idle = is_idle_intra(s, &line);
        if (!idle && (!name || line.stale || line.unused || graph_mesh_axis(&s->mesh, name) >= 0 ||
                      carries(cfg, s, name)))
            continue;
        if (!idle)
            snprintf(why, sizeof why, "no mesh axis of this job goes over %s", name);
        if (line.typed && (idle || !open))
            return resolve_refuse_line(cfg, &line, why);
        if (tell && (line.typed || (s->want == SPEC_TRAIN && !config_shares_command_line(cfg))))
            log_line(line.typed ? WEFT_LOG_WARN : WEFT_LOG_INFO, "%s: %s has no effect: %s",
                     line.where, line.name, why);
    }
    return WEFT_OK;
}

weft_status resolve_check_buckets(const config *cfg, bool splits_batch, bool tell)
{
    config_line line;
    const char *why = splits_batch ? "this layout leaves no gradient to sum in buckets"
                                   : "no strategy of the job sums gradients in buckets";
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++) {
        if (line.stale || strcmp(line.name, "train.bucket_mb"))
            continue;
        if (line.typed && !splits_batch)
            return resolve_refuse_line(cfg, &line, why);
        if (tell && (line.typed || !config_shares_command_line(cfg)))
            log_line(WEFT_LOG_WARN, "%s: %s has no effect: %s", line.where, line.name, why);
    }
    return WEFT_OK;
}
