/* config/config.c: loading, and the values that come out. See config.h. */
#include "config/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "config/source.h"
#include "config/store.h"

struct bound_conf {
    weft_conf conf;
    bound_conf *next;
    const config *config;
    const char *section;
    const weft_option *const *options;
};

/* --- loading --- */

config *config_new(const char *name)
{
    config *c = mem_alloc(sizeof *c);
    c->name = name ? pool_text(&c->pool, name) : NULL;
    for (const config_section *s = config_core_sections(); s->name; s++)
        if (config_add(c, s->name, "the core", s->options) != WEFT_OK)
            abort(); /* two of our own tables contradict each other */
    return c;
}

void config_destroy(config *c)
{
    if (!c)
        return;
    pool_free(&c->pool);
    free(c->entries.at);
    free(c->sections.at);
    free(c->knowns.at);
    free(c->options.at);
    free(c);
}

void config_note_section(config *c, const char *section, uint32_t line)
{
    for (uint32_t i = 0; i < c->sections.n; i++)
        if (!strcmp(c->sections.at[i].section, section))
            return;
    *vec_push(&c->sections) = (written){pool_text(&c->pool, section), line};
}

weft_status config_read_file(const char *path, const char *what, char **out, size_t *bytes)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return fail_errno(WEFT_USAGE, "cannot open the %s %s", what, path);
    char *text = mem_alloc(CONFIG_MAX_TEXT + 1);
    *bytes = fread(text, 1, CONFIG_MAX_TEXT + 1, f);
    weft_status st = WEFT_OK;
    if (ferror(f))
        st = fail_errno(WEFT_USAGE, "cannot read the %s %s", what, path);
    else if (*bytes > CONFIG_MAX_TEXT)
        st = fail(WEFT_USAGE, "%s is longer than %u bytes; it is no %s", path, CONFIG_MAX_TEXT,
                  what);
    fclose(f);
    if (st != WEFT_OK)
        free(text);
    else
        *out = text;
    return st;
}

/* "train.batch=8": the key ends at the first '=', the section at the last '.' before it. */
static weft_status read_override(config *c, const char *text)
{
    const char *equals = strchr(text, '='), *dot = NULL;
    for (const char *s = text; equals && s < equals; s++)
        if (*s == '.')
            dot = s;
    if (!dot || dot == text || dot + 1 == equals)
        return fail(WEFT_USAGE, "command line: '%.100s' is not section.key=value", text);
    size_t section = (size_t)(dot - text), key = (size_t)(equals - dot) - 1;
    if (section > CONFIG_MAX_NAME || key > CONFIG_MAX_NAME)
        return fail(WEFT_USAGE, "command line: a name in '%.100s' is longer than %d bytes", text,
                    CONFIG_MAX_NAME);
    if (strlen(equals) + key + 4 > CONFIG_MAX_LINE)
        return fail(WEFT_USAGE, "command line: the value of '%.*s' is longer than %d bytes",
                    (int)(equals - text), text, CONFIG_MAX_LINE);
    if (!config_text_lawful(equals + 1))
        return fail(WEFT_USAGE,
                    "command line: the value of '%.*s' has blanks around it, a control "
                    "character or other than UTF-8, or a ';' that would begin a comment",
                    (int)(equals - text), text);
    entry e = {.value = pool_text(&c->pool, equals + 1)};
    e.section = pool_printf(&c->pool, "%.*s", (int)section, text);
    e.key = pool_printf(&c->pool, "%.*s", (int)key, dot + 1);
    config_note_section(c, e.section, 0);
    *vec_push(&c->entries) = e;
    return WEFT_OK;
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
        st = ini_read(c, text, bytes);
    free(text);
    if (st == WEFT_OK && n > CONFIG_MAX_KEYS)
        st = fail(WEFT_USAGE, "command line: more than %d overrides", CONFIG_MAX_KEYS);
    for (uint32_t i = 0; i < n && st == WEFT_OK; i++)
        st = read_override(c, overrides[i]);
    if (st == WEFT_OK)
        st = tuned_file_read(c);
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
        return fail(WEFT_USAGE, "%s is longer than %u bytes; it is no job", name, CONFIG_MAX_TEXT);
    config *c = config_new(name);
    weft_status st = ini_read(c, text, bytes);
    if (st == WEFT_OK)
        *out = c;
    else
        config_destroy(c);
    return st;
}

void config_remark(config *c, const char *text)
{
    c->remark = pool_text(&c->pool, text);
}

/* --- finding --- */

const entry *config_entry(const config *c, const char *section, const char *key)
{
    for (uint32_t i = c->entries.n; i-- > 0;) {
        const entry *e = &c->entries.at[i];
        if (!strcmp(e->key, key) && !strcmp(e->section, section))
            return e;
    }
    return NULL;
}

/* "comm.tcp.encrypt" to "comm.tcp" and "encrypt"; a key without a dot is a bug of the caller. */
static const char *split_key(const char *name, char section[CONFIG_MAX_NAME + 1])
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

static const entry *find_entry(const config *c, const char *name)
{
    char section[CONFIG_MAX_NAME + 1];
    const char *key = split_key(name, section);
    return config_entry(c, section, key);
}

static const weft_option *find_option(const config *c, const char *name)
{
    char section[CONFIG_MAX_NAME + 1];
    const char *key = split_key(name, section);
    for (uint32_t i = 0; i < c->options.n; i++) {
        const declared *d = &c->options.at[i];
        if (!strcmp(d->option->key, key) && !strcmp(d->section, section))
            return d->option;
    }
    fprintf(stderr, "weft error: the program asked for '%s', which nothing declares\n", name);
    abort();
}

/* --- values --- */

const char *config_raw(const config *c, const char *key)
{
    const entry *e = find_entry(c, key);
    return e ? e->value : NULL;
}

bool config_given(const config *c, const char *key)
{
    return find_entry(c, key) != NULL;
}

const char *config_text(const config *c, const char *key)
{
    const weft_option *o = find_option(c, key);
    const char *text = config_raw(c, key);
    return text ? text : o->dflt ? o->dflt : "";
}

static parsed read_value(const config *c, const char *key, uint32_t *type)
{
    const weft_option *o = find_option(c, key);
    parsed v;
    char why[VALUE_WHY];
    *type = o->type;
    if (!value_read(o, config_text(c, key), &v, why)) {
        fprintf(stderr, "weft error: '%s' was asked for before the check: %s\n", key, why);
        abort();
    }
    return v;
}

static _Noreturn void wrong_getter(const char *key, const char *asked)
{
    fprintf(stderr, "weft error: the program asked for '%s' as %s, which it is not\n", key, asked);
    abort();
}

int64_t config_int(const config *c, const char *key)
{
    uint32_t type;
    parsed v = read_value(c, key, &type);
    if (type != WEFT_OPT_INT && type != WEFT_OPT_BOOL && type != WEFT_OPT_BYTES &&
        type != WEFT_OPT_AUTO_INT)
        wrong_getter(key, "a whole number");
    return v.i;
}

double config_real(const config *c, const char *key)
{
    uint32_t type;
    parsed v = read_value(c, key, &type);
    if (type == WEFT_OPT_REAL || type == WEFT_OPT_SECONDS)
        return v.r;
    if (type != WEFT_OPT_INT && type != WEFT_OPT_AUTO_INT && type != WEFT_OPT_BYTES)
        wrong_getter(key, "a number");
    return (double)v.i;
}

/* --- places --- */

void config_place(const config *c, const char *file, uint32_t line, char *out, size_t size)
{
    if (line)
        snprintf(out, size, "%s:%u", file ? file : c->name, line);
    else
        snprintf(out, size, "command line");
}

const char *config_where(const config *c, const char *key)
{
    const entry *e = find_entry(c, key);
    pool *names = &((config *)c)->pool; /* a note in the margin; the values do not change */
    if (!e)
        return pool_printf(names, "default of %s", key);
    char place[4200];
    config_place(c, e->file, e->line, place, sizeof place);
    return pool_text(names, place);
}

const char *config_origin(const config *c, const char *key)
{
    pool *names = &((config *)c)->pool; /* as above */
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
    return fail(WEFT_USAGE, "%s: %s", config_origin(c, key), text);
}

const char *config_section_at(const config *c, uint32_t i)
{
    return i < c->sections.n ? c->sections.at[i].section : NULL;
}

bool config_line_at(const config *c, uint32_t i, config_line *out)
{
    if (i >= c->entries.n)
        return false;
    const entry *e = &c->entries.at[i];
    char place[4200];
    config_place(c, e->file, e->line, place, sizeof place);
    *out = (config_line){e->section, e->key, e->value, pool_text(&((config *)c)->pool, place),
                         config_entry(c, e->section, e->key) != e};
    return true;
}

/* --- what a plugin sees --- */

static const weft_option *plugin_option(const bound_conf *b, const char *key, char name[128])
{
    for (const weft_option *const *o = b->options; *o; o++)
        if (key && !strcmp((*o)->key, key)) {
            snprintf(name, 128, "%s.%s", b->section, key);
            return *o;
        }
    log_line(WEFT_LOG_ERROR, "a plugin asked for '%.64s' of [%s], which it does not declare",
             key ? key : "NULL", b->section);
    return NULL;
}

static const char *conf_text(void *ctx, const char *key)
{
    const bound_conf *b = ctx;
    char name[128];
    return plugin_option(b, key, name) ? config_text(b->config, name) : NULL;
}

static int64_t conf_integer(void *ctx, const char *key)
{
    const bound_conf *b = ctx;
    char name[128], why[VALUE_WHY];
    const weft_option *o = plugin_option(b, key, name);
    parsed v = {0};
    if (o && value_read(o, config_text(b->config, name), &v, why))
        return v.i;
    return 0;
}

static double conf_real(void *ctx, const char *key)
{
    const bound_conf *b = ctx;
    char name[128], why[VALUE_WHY];
    const weft_option *o = plugin_option(b, key, name);
    parsed v = {0};
    if (o && value_read(o, config_text(b->config, name), &v, why))
        return o->type == WEFT_OPT_REAL || o->type == WEFT_OPT_SECONDS ? v.r : (double)v.i;
    return 0;
}

static uint32_t conf_reals(void *ctx, const char *key, double *out, uint32_t cap)
{
    const bound_conf *b = ctx;
    char name[128];
    const weft_option *o = plugin_option(b, key, name);
    return o ? value_reals(config_text(b->config, name), out, cap) : 0;
}

const weft_conf *config_conf(config *c, const char *section, const weft_option *const *options)
{
    static const weft_option *const none[] = {NULL};
    options = options ? options : none;
    for (bound_conf *b = c->confs; b; b = b->next)
        if (b->options == options && !strcmp(b->section, section))
            return &b->conf;
    bound_conf *b = pool_alloc(&c->pool, sizeof *b);
    *b = (bound_conf){
        .conf = {sizeof b->conf, 0, b, conf_text, conf_integer, conf_real, conf_reals},
        .next = c->confs,
        .config = c,
        .section = pool_text(&c->pool, section),
        .options = options,
    };
    c->confs = b;
    return &b->conf;
}
