/* config/print.c: a config as text. See config.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/differ.h"
#include "config/store.h"

static void put_section(const char *section, FILE *to)
{
    fprintf(to, "%s[%s]\n", ftell(to) ? "\n" : "", section);
}

static void put_line(const char *key, const char *value, FILE *to)
{
    fprintf(to, "%s =%s%s\n", key, *value ? " " : "", value);
}

/* Declared by somebody earlier under the same name: it has its line already. */
static bool is_repeated(const config *c, const config_declaration *d)
{
    return config_declared(c, d->section, d->option->key) != d;
}

/* A number in one form; other values as they are. */
static void put_value(const config_declaration *d, const char *value, FILE *to)
{
    config_parsed v;
    char why[VALUE_WHY];
    const uint32_t type = d->option->type;
    const bool number = (type == WEFT_OPT_INT || type == WEFT_OPT_REAL || type == WEFT_OPT_BOOL) &&
                        config_read_value(d->option, value, &v, why);
    if (number && type == WEFT_OPT_REAL)
        fprintf(to, "%.17g\n", v.r);
    else if (number)
        fprintf(to, "%lld\n", (long long)v.i);
    else
        fprintf(to, "%s\n", value);
}

static void dump_section(const config *c, const char *section, FILE *to)
{
    bool begun = false;
    for (uint32_t i = 0; i < c->options.n; i++) {
        const config_declaration *d = &c->options.at[i];
        if (strcmp(d->section, section) || is_repeated(c, d))
            continue;
        const config_setting *e = config_entry(c, section, d->option->key);
        if (!e && !d->option->dflt)
            continue;
        if (!begun)
            put_section(section, to);
        begun = true;
        put_line(d->option->key, e ? e->value : d->option->dflt, to);
    }
}

char *config_dump(const config *c)
{
    mem_text out;
    mem_text_begin(&out);
    for (uint32_t i = 0; i < c->knowns.n; i++)
        dump_section(c, c->knowns.at[i], out.to);
    if (c->remark)
        fprintf(out.to, "; %s\n", c->remark);
    return mem_text_end(&out);
}

char *config_dump_used(const config *c, const char *except)
{
    mem_text out;
    mem_text_begin(&out);
    for (uint32_t i = 0; i < c->options.n; i++) {
        const config_declaration *d = &c->options.at[i];
        const config_setting *e = config_entry(c, d->section, d->option->key);
        if (d->unused || is_repeated(c, d) || config_within(d->section, except) ||
            (!e && !d->option->dflt))
            continue;
        fprintf(out.to, "%s.%s = ", d->section, d->option->key);
        put_value(d, e ? e->value : d->option->dflt, out.to);
    }
    return mem_text_end(&out);
}

char *config_written(const config *c, const char *except)
{
    mem_text out;
    mem_text_begin(&out);
    for (uint32_t i = 0; i < c->sections.n; i++) {
        const char *section = c->sections.at[i].section;
        if (config_within(section, except))
            continue;
        put_section(section, out.to);
        for (uint32_t k = 0; k < c->entries.n; k++) {
            const config_setting *e = &c->entries.at[k];
            if (!e->tuned && !strcmp(e->section, section) && config_entry(c, section, e->key) == e)
                put_line(e->key, e->value, out.to);
        }
    }
    return mem_text_end(&out);
}
