/* config/store.c: entries, sections and declared options of a config. See store.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "config/differ.h"
#include "config/store.h"

config *config_new(const char *name)
{
    config *c = mem_alloc(sizeof *c);
    c->name = name ? pool_text(&c->pool, name) : NULL;
    for (const config_section *s = config_core_sections(); s->name; s++)
        if (config_add(c, s->name, "the core", s->options) != WEFT_OK)
            abort(); /* two tables of the core contradict each other */
    return c;
}

void config_destroy(config *c)
{
    if (!c)
        return;
    pool_free(&c->pool);
    free(c->entries.at);
    free(c->code.at);
    free(c->sections.at);
    free(c->knowns.at);
    free(c->options.at);
    free(c);
}

/* --- entries --- */

void config_note_section(config *c, const char *section, uint32_t line)
{
    for (uint32_t i = 0; i < c->sections.n; i++)
        if (!strcmp(c->sections.at[i].section, section))
            return;
    *vec_push(&c->sections) = (config_heading){pool_text(&c->pool, section), line};
}

const config_setting *config_entry(const config *c, const char *section, const char *key)
{
    for (uint32_t i = c->entries.n; i-- > 0;) {
        const config_setting *e = &c->entries.at[i];
        if (!strcmp(e->key, key) && !strcmp(e->section, section))
            return e;
    }
    return NULL;
}

void config_put(config *c, config_setting e)
{
    e.section = pool_text(&c->pool, e.section);
    e.key = pool_text(&c->pool, e.key);
    e.value = pool_text(&c->pool, e.value);
    e.file = e.file ? pool_text(&c->pool, e.file) : NULL;
    e.former = e.former ? pool_text(&c->pool, e.former) : NULL;
    *vec_push(&c->entries) = e;
}

/* "comm.tcp.encrypt" to "comm.tcp" and "encrypt"; a key without a dot is a bug of the caller. */
const char *config_split(const char *name, char section[CONFIG_MAX_NAME + 1])
{
    const char *dot = strrchr(name, '.');
    size_t n = dot ? (size_t)(dot - name) : 0;
    if (!n || n > CONFIG_MAX_NAME) {
        fprintf(stderr, "weft error: '%s' is not section.key\n", name);
        abort();
    }
    memcpy(section, name, n);
    section[n] = 0;
    return dot + 1;
}

const char *config_place(const config *c, const config_setting *e)
{
    pool *names = &((config *)c)->pool;
    return e->line ? pool_printf(names, "%s:%u", e->file ? e->file : c->name, e->line)
                   : pool_text(names, e->file ? e->file : "command line");
}

bool config_within(const char *section, const char *name)
{
    const size_t n = name ? strlen(name) : 0;
    return n && !strncmp(section, name, n) && (!section[n] || section[n] == '.');
}

/* --- keys that say which code is loaded, and data that does not --- */

bool config_names_code(const char *section, const char *key)
{
    return (!strcmp(section, "run") && !strcmp(key, "plugins")) || !strcmp(key, "library") ||
           !strcmp(key, "libraries");
}

void config_leave_out_code(config *c)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < c->entries.n; i++) {
        const config_setting e = c->entries.at[i];
        if (!config_names_code(e.section, e.key))
            c->entries.at[left++] = e;
        else if (*e.value && strcmp(e.value, "auto"))
            *vec_push(&c->code) = e;
    }
    c->entries.n = left;
}

void config_warn_code(const config *c)
{
    for (uint32_t i = 0; i < c->code.n; i++) {
        const config_setting *e = &c->code.at[i];
        if (!config_entry(c, e->section, e->key))
            log_line(WEFT_LOG_WARN,
                     "%s: its job says %s.%s = %s, which is not used: it names code, and data does "
                     "not say which code is loaded; if you trust it, give %s.%s=%s",
                     c->name, e->section, e->key, e->value, e->section, e->key, e->value);
    }
}

/* --- declared options --- */

bool config_knows(const config *c, const char *section)
{
    for (uint32_t i = 0; i < c->knowns.n; i++)
        if (!strcmp(c->knowns.at[i], section))
            return true;
    return false;
}

const config_declaration *config_declared(const config *c, const char *section, const char *key)
{
    for (uint32_t i = 0; i < c->options.n; i++) {
        const config_declaration *d = &c->options.at[i];
        if (!strcmp(d->option->key, key) && !strcmp(d->section, section))
            return d;
    }
    return NULL;
}

const char *config_value(const config *c, const config_declaration *d)
{
    const config_setting *e = config_entry(c, d->section, d->option->key);
    return e ? e->value : d->option->dflt ? d->option->dflt : "";
}

/* add_option() has merged what each owner says into the first. */
bool config_unused(const config *c, const char *section, const char *key)
{
    const config_declaration *d = config_declared(c, section, key);
    return d && d->unused;
}

static weft_status add_option(config *c, const char *section, const char *owner,
                              const weft_option *o, bool unused)
{
    for (uint32_t i = 0; i < c->options.n; i++) {
        config_declaration *d = &c->options.at[i];
        if (strcmp(d->option->key, o->key) || strcmp(d->section, section))
            continue;
        d->unused = d->unused && unused;
        if (d->option == o)
            return WEFT_OK;
        if (d->option->type != o->type) {
            char one[400], two[400];
            config_type_text(d->option, one, sizeof one);
            config_type_text(o, two, sizeof two);
            return err_fail(WEFT_USAGE,
                            "[%s] %s: %s declares it as '%s', %s as '%s'; the two cannot be "
                            "used together",
                            section, o->key, d->owner, one, owner, two);
        }
    }
    *vec_push(&c->options) =
        (config_declaration){section, owner, o, config_option_effect(o), unused};
    return WEFT_OK;
}

static weft_status add_options(config *c, const char *section, const char *owner,
                               const weft_option *const *options, bool unused)
{
    section = pool_text(&c->pool, section);
    owner = pool_text(&c->pool, owner);
    if (!config_knows(c, section))
        *vec_push(&c->knowns) = section;
    weft_status st = WEFT_OK;
    for (; options && *options && st == WEFT_OK; options++)
        st = add_option(c, section, owner, *options, unused);
    return st;
}

weft_status config_add(config *c, const char *section, const char *owner,
                       const weft_option *const *options)
{
    return add_options(c, section, owner, options, false);
}

weft_status config_add_unused(config *c, const char *section, const char *owner,
                              const weft_option *const *options)
{
    return add_options(c, section, owner, options, true);
}
