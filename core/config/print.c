/* config/print.c: a config or a table of options as text. See config.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/differ.h"
#include "config/store.h"

/* --- the job as text --- */

typedef VEC(char) text;

static void add(text *t, const char *s)
{
    for (; *s; s++)
        *vec_push(t) = *s;
}

/* Declared by somebody earlier under the same name: it has its line already. */
static bool is_repeated(const config *c, uint32_t i)
{
    const config_declaration *d = &c->options.at[i];
    for (uint32_t j = 0; j < i; j++)
        if (!strcmp(c->options.at[j].option->key, d->option->key) &&
            !strcmp(c->options.at[j].section, d->section))
            return true;
    return false;
}

/* A number in one form; other values as they are. */
static void add_value(text *out, const config_declaration *d, const char *value)
{
    config_parsed v;
    char why[VALUE_WHY], number[40] = "";
    const uint32_t type = d->option->type;
    if ((type == WEFT_OPT_INT || type == WEFT_OPT_REAL || type == WEFT_OPT_BOOL) &&
        config_read_value(d->option, value, &v, why)) {
        if (type == WEFT_OPT_REAL)
            snprintf(number, sizeof number, "%.17g", v.r);
        else
            snprintf(number, sizeof number, "%lld", (long long)v.i);
    }
    add(out, *number ? number : value);
}

static void dump_section(const config *c, const char *section, text *out)
{
    bool begun = false;
    for (uint32_t i = 0; i < c->options.n; i++) {
        const config_declaration *d = &c->options.at[i];
        if (strcmp(d->section, section) || is_repeated(c, i))
            continue;
        const config_setting *e = config_entry(c, section, d->option->key);
        if (!e && !d->option->dflt)
            continue;
        if (!begun) {
            add(out, out->n ? "\n[" : "[");
            add(out, section);
            add(out, "]\n");
            begun = true;
        }
        const char *value = e ? e->value : d->option->dflt;
        add(out, d->option->key);
        add(out, value[0] ? " = " : " =");
        add(out, value);
        add(out, "\n");
    }
}

char *config_dump(const config *c)
{
    text out = {0};
    for (uint32_t i = 0; i < c->knowns.n; i++)
        dump_section(c, c->knowns.at[i].section, &out);
    if (c->remark) {
        add(&out, "; ");
        add(&out, c->remark);
        add(&out, "\n");
    }
    *vec_push(&out) = 0;
    return out.at;
}

static bool is_within(const char *section, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(section, name, n) && (!section[n] || section[n] == '.');
}

char *config_dump_used(const config *c, const char *except)
{
    text out = {0};
    for (uint32_t i = 0; i < c->options.n; i++) {
        const config_declaration *d = &c->options.at[i];
        const config_setting *e = config_entry(c, d->section, d->option->key);
        if (d->unused || is_repeated(c, i) || (except && is_within(d->section, except)) ||
            (!e && !d->option->dflt))
            continue;
        add(&out, d->section);
        add(&out, ".");
        add(&out, d->option->key);
        add(&out, " = ");
        add_value(&out, d, e ? e->value : d->option->dflt);
        add(&out, "\n");
    }
    *vec_push(&out) = 0;
    return out.at;
}

char *config_written(const config *c, const char *except)
{
    text out = {0};
    for (uint32_t i = 0; i < c->sections.n; i++) {
        const char *section = c->sections.at[i].section;
        if (is_within(section, except))
            continue;
        add(&out, out.n ? "\n[" : "[");
        add(&out, section);
        add(&out, "]\n");
        for (uint32_t k = 0; k < c->entries.n; k++) {
            const config_setting *e = &c->entries.at[k];
            if (e->tuned || strcmp(e->section, section) || config_entry(c, section, e->key) != e)
                continue;
            add(&out, e->key);
            add(&out, e->value[0] ? " = " : " =");
            add(&out, e->value);
            add(&out, "\n");
        }
    }
    *vec_push(&out) = 0;
    return out.at;
}

/* --- tables of options --- */

static const char *column_of(config_column column, const weft_option *o)
{
    bool binds =
        column == CONFIG_BIND || (column == CONFIG_OWN && config_option_effect(o) & CONFIG_BINDS);
    return binds ? "binds" : "free";
}

void config_print_options(FILE *to, const weft_option *const *options, int markdown,
                          config_column column)
{
    size_t key_width = 3, type_width = 5, default_width = 7;
    char type[512];
    for (const weft_option *const *o = options; o && *o; o++) {
        const char *dflt = (*o)->dflt ? (*o)->dflt : "(needed)";
        config_type_text(*o, type, sizeof type);
        size_t k = strlen((*o)->key), t = strlen(type), d = strlen(dflt);
        key_width = k > key_width ? k : key_width;
        type_width = t > type_width ? t : type_width;
        default_width = d > default_width ? d : default_width;
    }
    const char *row =
        markdown ? "| %-*s | %-*s | %-*s%s%-*s | %s |\n" : "  %-*s  %-*s  %-*s%s%-*s  %s\n";
    const char *bar = column == CONFIG_PLAIN ? "" : markdown ? " | " : "  ";
    int width = column == CONFIG_PLAIN ? 0 : 6;
    fprintf(to, row, (int)key_width, "key", (int)type_width, "value", (int)default_width, "default",
            bar, width, width ? "resume" : "", "meaning");
    if (markdown)
        fprintf(to, "|---|---|---|%s---|\n", width ? "---|" : "");
    for (const weft_option *const *o = options; o && *o; o++) {
        config_type_text(*o, type, sizeof type);
        fprintf(to, row, (int)key_width, (*o)->key, (int)type_width, type, (int)default_width,
                (*o)->dflt ? (*o)->dflt : "(needed)", bar, width,
                width ? column_of(column, *o) : "", (*o)->help);
    }
}
