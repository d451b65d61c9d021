/* config/check.c: checks the text against the declared options. See config.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "config/store.h"

/* --- messages --- */

static weft_status unknown_section(const config *c, const char *section, const config_setting *at)
{
    const char *near = config_nearest(section, c->knowns.at, c->knowns.n);
    const char *place = config_place(c, at);
    if (near)
        return err_fail(WEFT_USAGE, "%s: unknown section [%s]; did you mean [%s]?", place, section,
                        near);
    return err_fail(WEFT_USAGE,
                    "%s: unknown section [%s]; neither the core nor a plugin that the job "
                    "names has it",
                    place, section);
}

/* Whether an earlier option than `at` is a key of the section by the same owner. */
static bool listed(const config *c, const char *section, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (!strcmp(c->options.at[i].section, section) &&
            !strcmp(c->options.at[i].owner, c->options.at[at].owner))
            return true;
    return false;
}

/* "the core and plugin adamw": every owner that declares a key of the section, once. */
static void list_owners(const config *c, const char *section, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < c->options.n && used < size; i++) {
        const config_declaration *d = &c->options.at[i];
        if (strcmp(d->section, section) || listed(c, section, i))
            continue;
        int n = snprintf(out + used, size - used, "%s%s", used ? " and " : "", d->owner);
        used += n < 0 ? 0 : (size_t)n;
    }
}

/* The first other section that has the key; NULL: none. */
static const char *section_of(const config *c, const char *key)
{
    for (uint32_t i = 0; i < c->options.n; i++)
        if (!strcmp(c->options.at[i].option->key, key))
            return c->options.at[i].section;
    return NULL;
}

static weft_status unknown_key(const config *c, const config_setting *e)
{
    char owners[600];
    uint32_t n = 0;
    const char **names = mem_alloc(c->options.n * sizeof *names);
    for (uint32_t i = 0; i < c->options.n; i++)
        if (!strcmp(c->options.at[i].section, e->section))
            names[n++] = c->options.at[i].option->key;
    const char *near = config_nearest(e->key, names, n);
    free(names);
    const char *place = config_place(c, e);
    if (near)
        return err_fail(WEFT_USAGE, "%s: unknown key '%s' in [%s]; did you mean '%s'?", place,
                        e->key, e->section, near);
    const char *other = section_of(c, e->key);
    if (other)
        return err_fail(WEFT_USAGE, "%s: unknown key '%s' in [%s]; [%s] has a key of that name",
                        place, e->key, e->section, other);
    list_owners(c, e->section, owners, sizeof owners);
    if (!owners[0])
        return err_fail(WEFT_USAGE, "%s: unknown key '%s' in [%s], which has no keys", place,
                        e->key, e->section);
    return err_fail(WEFT_USAGE, "%s: unknown key '%s' in [%s]; its keys are those of %s", place,
                    e->key, e->section, owners);
}

/* --- text that other programs would change --- */

/* "$NAME" or "${NAME}" at the begin of a part of a path; NULL: none. */
static const char *variable_of(const char *text)
{
    for (const char *at = strchr(text, '$'); at; at = strchr(at + 1, '$'))
        if ((at == text || strchr("/:,", at[-1])) &&
            (at[1] == '{' || at[1] == '_' || isalpha((unsigned char)at[1])))
            return at;
    return NULL;
}

/* "~/" or "~name" at the begin, or "~/" at that of a later name of a list; NULL: none. */
static const char *home_of(const char *text)
{
    if (text[0] == '~' && (!text[1] || text[1] == '/' || isalpha((unsigned char)text[1])))
        return text;
    for (const char *at = strstr(text, "~/"); at; at = strstr(at + 1, "~/"))
        if (strchr(":,", at[-1]) || (at - text > 1 && at[-1] == ' ' && at[-2] == ','))
            return at;
    return NULL;
}

/* '# note' behind a value of the file; NULL: none, or a path of that name is there. */
static const char *remark_of(const char *text)
{
    const char *at = strchr(text, '#');
    if (at && access(text, F_OK) == 0)
        return NULL;
    while (at && at > text && at[-1] != ' ' && at[-1] != '\t')
        at = strchr(at + 1, '#');
    return at == text ? NULL : at;
}

/* What a shell or another reader of such files would make of the text, and weft does not. Command
 * lines have been through a shell, which leaves a '#' there on purpose. */
static bool is_literal(const config_setting *e, char why[VALUE_WHY])
{
    const char *text = e->value, *found;
    const size_t n = strlen(text);
    if (n > 1 && (text[0] == '"' || text[0] == '\'') && text[n - 1] == text[0])
        snprintf(why, VALUE_WHY, "the quotes would be part of the value; write %.*s",
                 n > 160 ? 160 : (int)n - 2, text + 1);
    else if (home_of(text))
        snprintf(why, VALUE_WHY,
                 "weft does not expand '~' in '%.160s'; write the whole path, or ./~ for a folder "
                 "of that name",
                 text);
    else if ((found = variable_of(text)))
        snprintf(why, VALUE_WHY,
                 "weft does not expand '%.*s' in '%.160s'; write the whole path, or let the shell "
                 "expand it on the command line: %.48s.%.48s=\"...\"",
                 (int)strcspn(found, "/:,"), found, text, e->section, e->key);
    else if (e->line && (found = remark_of(text)))
        snprintf(why, VALUE_WHY,
                 "'%.160s' would be part of the value: behind a value a comment begins with a "
                 "blank and ';', and '#' begins one only at the start of a line",
                 found);
    else
        return true;
    return false;
}

/* --- the check --- */

static weft_status check_entry(const config *c, const config_setting *e)
{
    if (!config_knows(c, e->section))
        return unknown_section(c, e->section, e);
    if (!config_declared(c, e->section, e->key))
        return unknown_key(c, e);
    for (uint32_t i = 0; i < c->options.n; i++) {
        const config_declaration *d = &c->options.at[i];
        config_parsed v;
        char why[VALUE_WHY];
        if (strcmp(d->option->key, e->key) || strcmp(d->section, e->section) ||
            (config_read_value(d->option, e->value, &v, why) &&
             (d->option->type != WEFT_OPT_STRING || c->dumped || is_literal(e, why))))
            continue;
        return err_fail(WEFT_USAGE, "%s: %s.%s: %s", config_place(c, e), e->section, e->key, why);
    }
    return WEFT_OK;
}

static weft_status check_required(const config *c)
{
    for (uint32_t i = 0; i < c->options.n; i++) {
        const config_declaration *d = &c->options.at[i];
        if (d->option->dflt || config_entry(c, d->section, d->option->key) ||
            config_declared(c, d->section, d->option->key)->option->dflt)
            continue;
        return err_fail(WEFT_USAGE, "%s%s%s.%s is required (%s): %s", c->name ? c->name : "",
                        c->name ? ": " : "", d->section, d->option->key, d->owner, d->option->help);
    }
    return WEFT_OK;
}

/* Checks entries in the order of the text, so that the first wrong line is reported. Entries from
 * other places (command line, tuned file) come after it; they are reported by their key. */
weft_status config_check(config *c)
{
    uint32_t s = 0;
    for (uint32_t i = 0; i <= c->entries.n; i++) {
        const config_setting *e = i < c->entries.n ? &c->entries.at[i] : NULL;
        for (; s < c->sections.n; s++) {
            const config_heading *w = &c->sections.at[s];
            if (!w->line || (e && e->line && !e->file && w->line > e->line))
                break;
            if (!config_knows(c, w->section))
                return unknown_section(c, w->section, &(config_setting){.line = w->line});
        }
        weft_status st = e ? check_entry(c, e) : check_required(c);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

weft_status config_check_section(const config *c, const char *section)
{
    for (uint32_t i = 0; i < c->entries.n; i++) {
        const config_setting *e = &c->entries.at[i];
        weft_status st = strcmp(e->section, section) ? WEFT_OK : check_entry(c, e);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}
