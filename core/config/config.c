/* config/config.c: the values of a config, for the core and for plugins. See config.h. */
#include "config/config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "config/store.h"

struct config_bound_conf {
    weft_conf conf;
    config_bound_conf *next;
    const config *config; /* NULL: config_no_options() */
    const char *section;
    const weft_option *const *options;
};

void config_remark(config *c, const char *text)
{
    c->remark = pool_text(&c->pool, text);
}

/* --- lookup --- */

static const config_setting *find_entry(const config *c, const char *name)
{
    char section[CONFIG_MAX_NAME + 1];
    const char *key = config_split(name, section);
    return config_entry(c, section, key);
}

static const config_declaration *find_declaration(const config *c, const char *name)
{
    char section[CONFIG_MAX_NAME + 1];
    const config_declaration *d = config_declared(c, section, config_split(name, section));
    if (d)
        return d;
    fprintf(stderr, "weft error: the program asked for '%s', which nothing declares\n", name);
    abort();
}

/* --- values --- */

const char *config_raw(const config *c, const char *key)
{
    const config_setting *e = find_entry(c, key);
    return e ? e->value : NULL;
}

bool config_given(const config *c, const char *key)
{
    return find_entry(c, key);
}

const char *config_text(const config *c, const char *key)
{
    return config_value(c, find_declaration(c, key));
}

static config_parsed read_value(const config *c, const char *key, uint32_t *type)
{
    const config_declaration *d = find_declaration(c, key);
    config_parsed v;
    char why[VALUE_WHY];
    *type = d->option->type;
    if (!config_read_value(d->option, config_value(c, d), &v, why)) {
        fprintf(stderr, "weft error: '%s' was asked for before the check: %s\n", key, why);
        abort();
    }
    return v;
}

bool config_is_default(const config *c, const char *key)
{
    const config_declaration *d = find_declaration(c, key);
    const char *dflt = d->option->dflt;
    return dflt && config_same_value(d->option, config_value(c, d), dflt);
}

static _Noreturn void wrong_getter(const char *key, const char *asked)
{
    fprintf(stderr, "weft error: the program asked for '%s' as %s, which it is not\n", key, asked);
    abort();
}

int64_t config_int(const config *c, const char *key)
{
    uint32_t type;
    config_parsed v = read_value(c, key, &type);
    if (type != WEFT_OPT_INT && type != WEFT_OPT_BOOL && type != WEFT_OPT_BYTES &&
        type != WEFT_OPT_AUTO_INT)
        wrong_getter(key, "a whole number");
    return v.i;
}

double config_real(const config *c, const char *key)
{
    uint32_t type;
    config_parsed v = read_value(c, key, &type);
    if (type == WEFT_OPT_REAL || type == WEFT_OPT_SECONDS)
        return v.r;
    if (type != WEFT_OPT_INT && type != WEFT_OPT_AUTO_INT && type != WEFT_OPT_BYTES)
        wrong_getter(key, "a number");
    return (double)v.i;
}

/* --- places --- */

const char *config_where(const config *c, const char *key)
{
    const config_setting *e = find_entry(c, key);
    return e ? config_place(c, e) : pool_printf(&((config *)c)->pool, "default of %s", key);
}

const char *config_origin(const config *c, const char *key)
{
    pool *names = &((config *)c)->pool; /* only the pool grows: the values do not change */
    if (!config_given(c, key))
        return pool_printf(names, "%s (default %s)", key, config_text(c, key));
    return pool_printf(names, "%s: %s", config_where(c, key), key);
}

weft_status config_fail(const config *c, const char *key, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_fail(WEFT_USAGE, "%s: %s", config_origin(c, key), text);
}

const char *config_section_at(const config *c, uint32_t i)
{
    return i < c->sections.n ? c->sections.at[i].section : NULL;
}

bool config_line_at(const config *c, uint32_t i, config_line *out)
{
    if (i >= c->entries.n)
        return false;
    const config_setting *e = &c->entries.at[i];
    *out = (config_line){.section = e->section,
                         .key = e->key,
                         .value = e->value,
                         .name = pool_printf(&((config *)c)->pool, "%s.%s", e->section, e->key),
                         .where = config_place(c, e),
                         .stale = config_entry(c, e->section, e->key) != e,
                         .typed = !e->line && !e->file && !c->shared,
                         .unused = config_unused(c, e->section, e->key),
                         .former = e->former};
    return true;
}

/* A key of the file of comm.tuned holds where the job does not give it, under either name. */
static bool is_given(const config *c, const char *section, const char *key)
{
    for (uint32_t i = 0; i < c->entries.n; i++) {
        const config_setting *x = &c->entries.at[i];
        if (!x->tuned && !strcmp(x->section, section) && !strcmp(x->key, key))
            return true;
    }
    return false;
}

void config_rename(config *c, const char *section, const char *key, const char *now,
                   const char *value, const char *former)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < c->entries.n; i++) {
        config_setting *e = &c->entries.at[i];
        if (strcmp(e->key, key) || strcmp(e->section, section))
            continue;
        e->key = pool_text(&c->pool, now);
        e->value = value ? pool_text(&c->pool, value) : e->value;
        e->former = pool_text(&c->pool, former);
    }
    const bool given = is_given(c, section, now);
    for (uint32_t i = 0; i < c->entries.n; i++) {
        const config_setting e = c->entries.at[i];
        if (!given || !e.tuned || strcmp(e.section, section) || strcmp(e.key, now))
            c->entries.at[left++] = e;
    }
    c->entries.n = left;
}

void config_share_command_line(config *c)
{
    c->shared = true;
}

bool config_shares_command_line(const config *c)
{
    return c->shared;
}

/* --- a plugin's view --- */

/* The text of a key, and its option; NULL: the plugin does not declare it. */
static const char *plugin_value(const config_bound_conf *b, const char *key,
                                const weft_option **option)
{
    for (const weft_option *const *o = b->options; *o; o++)
        if (key && !strcmp((*o)->key, key)) {
            *option = *o;
            return config_value(b->config, config_declared(b->config, b->section, key));
        }
    key = key ? key : "NULL";
    if (b->config)
        log_line(WEFT_LOG_ERROR, "a plugin asked for '%.64s' of [%s], which it does not declare",
                 key, b->section);
    else
        log_line(WEFT_LOG_WARN,
                 "the plugin component '%s' asks for the key '%.64s', and has no options",
                 b->conf.component->name, key);
    return NULL;
}

static const char *conf_text(void *ctx, const char *key)
{
    const weft_option *o;
    return plugin_value(ctx, key, &o);
}

static int64_t conf_integer(void *ctx, const char *key)
{
    const weft_option *o;
    const char *text = plugin_value(ctx, key, &o);
    char why[VALUE_WHY];
    config_parsed v;
    return text && config_read_value(o, text, &v, why) ? v.i : 0;
}

static double conf_real(void *ctx, const char *key)
{
    const weft_option *o;
    const char *text = plugin_value(ctx, key, &o);
    char why[VALUE_WHY];
    config_parsed v;
    if (!text || !config_read_value(o, text, &v, why))
        return 0;
    return o->type == WEFT_OPT_REAL || o->type == WEFT_OPT_SECONDS ? v.r : (double)v.i;
}

static uint32_t conf_reals(void *ctx, const char *key, double *out, uint32_t cap)
{
    const weft_option *o;
    const char *text = plugin_value(ctx, key, &o);
    return text ? config_read_reals(text, out, cap) : 0;
}

static config_bound_conf *bind_conf(pool *p, const config *c, const char *section,
                                    const weft_component *component)
{
    static const weft_option *const none[] = {NULL};
    config_bound_conf *b = pool_alloc(p, sizeof *b);
    *b = (config_bound_conf){
        .conf = {sizeof b->conf, 0, b, component, conf_text, conf_integer, conf_real, conf_reals},
        .config = c,
        .section = section,
        .options = c && component->options ? component->options : none,
    };
    return b;
}

const weft_conf *config_conf(config *c, const char *section, const weft_component *component)
{
    for (config_bound_conf *b = c->confs; b; b = b->next)
        if (b->conf.component == component && !strcmp(b->section, section))
            return &b->conf;
    config_bound_conf *b = bind_conf(&c->pool, c, pool_text(&c->pool, section), component);
    b->next = c->confs;
    c->confs = b;
    return &b->conf;
}

const weft_conf *config_no_options(pool *p, const weft_component *component)
{
    return &bind_conf(p, NULL, NULL, component)->conf;
}
