/* config/load.c: from text to entries: files, overrides, copies. See config.h. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config/source.h"
#include "config/store.h"

config *config_copy(const config *c, const char *except)
{
    config *copy = config_new(c->name);
    for (uint32_t i = 0; i < c->sections.n; i++) {
        const config_heading *w = &c->sections.at[i];
        if (!config_within(w->section, except))
            config_note_section(copy, w->section, w->line);
    }
    for (uint32_t i = 0; i < c->entries.n; i++)
        if (!config_within(c->entries.at[i].section, except))
            config_put(copy, c->entries.at[i]);
    if (c->remark)
        config_remark(copy, c->remark);
    return copy;
}

static void put_entry(config *c, const char *section, size_t section_bytes, const char *key,
                      size_t key_bytes, const char *value, const char *where)
{
    config_setting e = {.value = value, .file = where};
    e.section = pool_printf(&c->pool, "%.*s", (int)section_bytes, section);
    e.key = pool_printf(&c->pool, "%.*s", (int)key_bytes, key);
    config_note_section(c, e.section, 0);
    config_put(c, e);
}

/* "train.batch=8": the key ends at the first '=', the section at the last '.' before it. */
static weft_status read_override(config *c, const char *text, const char *where)
{
    const char *equals = strchr(text, '='), *dot = NULL, *from = where ? where : "command line";
    for (const char *s = text; equals && s < equals; s++)
        if (*s == '.')
            dot = s;
    if (!dot || dot == text || dot + 1 == equals)
        return err_fail(WEFT_USAGE, "%s: '%.100s' is not section.key=value", from, text);
    size_t section = (size_t)(dot - text), key = (size_t)(equals - dot) - 1;
    if (section > CONFIG_MAX_NAME || key > CONFIG_MAX_NAME)
        return err_fail(WEFT_USAGE, "%s: a name in '%.100s' is longer than %d bytes", from, text,
                        CONFIG_MAX_NAME);
    if (strlen(equals) + key + 4 > CONFIG_MAX_LINE)
        return err_fail(WEFT_USAGE, "%s: the value of '%.*s' is longer than %d bytes", from,
                        (int)(equals - text), text, CONFIG_MAX_LINE);
    if (!config_text_lawful(equals + 1))
        return err_fail(
            WEFT_USAGE,
            "%s: the value of '%.*s' has blanks around it, a control character or other "
            "than UTF-8, or a ';' that would begin a comment",
            from, (int)(equals - text), text);
    put_entry(c, text, section, dot + 1, key, equals + 1, where);
    return WEFT_OK;
}

weft_status config_set(config *c, const char *key, const char *value, const char *where)
{
    pool text = {0};
    weft_status st = read_override(c, pool_printf(&text, "%s=%s", key, value), where);
    pool_free(&text);
    if (st != WEFT_OK || strcmp(key, "comm.tuned"))
        return st;
    uint32_t left = 0; /* the keys of the file that was named before */
    for (uint32_t i = 0; i < c->entries.n; i++)
        if (!c->entries.at[i].tuned)
            c->entries.at[left++] = c->entries.at[i];
    c->entries.n = left;
    return config_read_tuned(c);
}

weft_status config_load(const char *path, const char *const *overrides, uint32_t n, config **out)
{
    char *text = NULL;
    size_t bytes = 0;
    weft_status st = path ? config_source_read(path, &text, &bytes) : WEFT_OK;
    if (st != WEFT_OK)
        return st;
    config *c = config_new(path ? config_source_name(path) : NULL);
    if (path)
        st = config_read_ini(c, text, bytes);
    free(text);
    if (st == WEFT_OK && n > CONFIG_MAX_KEYS)
        st = err_fail(WEFT_USAGE, "command line: more than %d overrides", CONFIG_MAX_KEYS);
    for (uint32_t i = 0; i < n && st == WEFT_OK; i++)
        st = read_override(c, overrides[i], NULL);
    if (st == WEFT_OK)
        st = config_read_tuned(c);
    if (st == WEFT_OK)
        *out = c;
    else
        config_destroy(c);
    return st;
}

weft_status config_load_text(const char *text, const char *name, config **out)
{
    size_t bytes = strlen(text);
    if (bytes > CONFIG_MAX_TEXT)
        return err_fail(WEFT_USAGE, "%s is longer than %u bytes; this is not a job", name,
                        CONFIG_MAX_TEXT);
    config *c = config_new(name);
    c->dumped = true;
    weft_status st = config_read_ini(c, text, bytes);
    if (st == WEFT_OK)
        *out = c;
    else
        config_destroy(c);
    return st;
}

weft_status config_load_saved(const char *text, const char *name, config **out)
{
    weft_status st = config_load_text(text, name, out);
    if (st == WEFT_OK)
        config_leave_out_code(*out);
    return st;
}
