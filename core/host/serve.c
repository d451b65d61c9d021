/* host/serve.c: the table that a plugin calls, and the life cycle of its module. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "host/call.h"
#include "host/object.h"
#include "host/watch.h"

/* A plugin's text as one line of the log. */
static void one_line(const char *text, char out[1024])
{
    size_t n = 0;
    for (; text && text[n] && n < 1023; n++)
        out[n] = (unsigned char)text[n] < 32 || text[n] == 127 ? ' ' : text[n];
    out[n] = 0;
}

/* Whether the plugin may hold so many bytes more in the call that it is in. The first refusal is
 * logged; the plugin reports a lack of memory, or crashes and is named. */
static bool may_hold(host_object *o, uint64_t bytes)
{
    const uint64_t held = atomic_load_explicit(&o->held, memory_order_relaxed);
    const uint64_t max = host_limits_bytes();
    char who[1200];
    if ((held <= max && bytes <= max - held) || !host_limits_plans())
        return true;
    if (!atomic_exchange(&o->refused, 1) && host_call_describe_current(who, sizeof who))
        log_line(WEFT_LOG_ERROR,
                 "%s holds %llu MiB of the core's memory and asks for %llu bytes more, which it "
                 "does not get: while planning a plugin may hold %llu MiB (run.planning_mb)",
                 who, (unsigned long long)(held >> 20), (unsigned long long)bytes,
                 (unsigned long long)(max >> 20));
    return false;
}

static void *serve_alloc(void *ctx, uint64_t bytes, uint64_t align)
{
    host_object *o = ctx;
    void *p = NULL;
    align = align < 16 ? 16 : align;
    if ((align & (align - 1)) || bytes > INT64_MAX || !may_hold(o, bytes) ||
        posix_memalign(&p, align, bytes ? bytes : 1))
        return NULL;
    memset(p, 0, bytes ? bytes : 1);
    atomic_fetch_add(&o->blocks, 1);
    atomic_fetch_add_explicit(&o->held, malloc_usable_size(p), memory_order_relaxed);
    return p;
}

static void serve_free(void *ctx, void *p)
{
    host_object *o = ctx;
    if (p) {
        atomic_fetch_sub(&o->blocks, 1);
        atomic_fetch_sub_explicit(&o->held, malloc_usable_size(p), memory_order_relaxed);
    }
    free(p);
}

static int32_t serve_log_enabled(void *ctx, int32_t level)
{
    (void)ctx;
    return level <= log_level();
}

static void serve_log(void *ctx, int32_t level, const char *text)
{
    const host_object *o = ctx;
    char line[1024];
    if (level < WEFT_LOG_ERROR)
        level = WEFT_LOG_ERROR;
    if (level > log_level())
        return;
    one_line(text, line);
    log_line(level > WEFT_LOG_DEBUG ? WEFT_LOG_DEBUG : level, "%s: %s", o->manifest->id, line);
}

/* The key that a sentence begins with, as "data.train: ..." or "model.heads = 3: ...". */
static void note_key(const char *text)
{
    char key[2 * WEFT_MAX_NAME];
    const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    if (n >= sizeof key || !memchr(text, '.', n) || (text[n] != ':' && text[n] != ' '))
        return;
    snprintf(key, sizeof key, "%.*s", (int)n, text);
    err_set_name(ERR_KEY, key);
}

/* The first record of a failure stays; later ones, from outer callers, are put before it. A record
 * of another plugin is of a failure that has been handled, such as a probe that found nothing. */
static weft_status serve_fail(void *ctx, weft_status code, const char *text)
{
    const char *id = ((const host_object *)ctx)->manifest->id, *of = err_name(ERR_PLUGIN);
    char line[1024];
    if (code == WEFT_OK || code == WEFT_BUSY)
        return code;
    one_line(text && text[0] ? text : "no reason given", line);
    if (err_text()[0] && (!*of || !strcmp(of, id))) {
        err_context("%s", line);
    } else {
        (void)!err_fail_in(code, ERR_PLUGIN, id, "%s", line);
    }
    note_key(line);
    return code;
}

static const void *serve_iface(void *ctx, const char *id)
{
    const host_object *o = ctx;
    const host *h = o->owner;
    for (uint32_t i = 0; id && i < h->served.n; i++) {
        const host_served *s = &h->served.at[i];
        if (!strcmp(s->id, id))
            return s->make ? s->make(s->ctx, o->manifest->id) : s->table;
    }
    return NULL;
}

/* The entry of `id`, added if there is none. */
static host_served *entry_of(host *h, const char *id)
{
    for (uint32_t i = 0; i < h->served.n; i++)
        if (!strcmp(h->served.at[i].id, id))
            return &h->served.at[i];
    host_served *s = vec_push(&h->served);
    *s = (host_served){.id = pool_text(&h->pool, id)};
    return s;
}

void host_serve(host *h, const char *id, const void *table)
{
    host_served *s = entry_of(h, id);
    *s = (host_served){.id = s->id, .table = table};
}

void host_serve_each(host *h, const char *id, host_make_table make, void *ctx)
{
    host_served *s = entry_of(h, id);
    *s = (host_served){.id = s->id, .make = make, .ctx = ctx};
}

/* --- the life of a module --- */

static void show_module(host_object *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        o->components[i].shown.module = o->module;
}

weft_status host_open(host *h, const host_component *c)
{
    host_object *o = ((const host_adopted *)c)->from;
    if (o->opened)
        return WEFT_OK;
    if (o->opening)
        return err_fail(WEFT_USAGE, "plugin %s opens itself, directly or through other components",
                        o->manifest->id);
    o->table = (weft_host){
        sizeof o->table, WEFT_ABI_MAJOR,    WEFT_ABI_MINOR, o,          serve_alloc,
        serve_free,      serve_log_enabled, serve_log,      serve_fail, serve_iface,
    };
    void *module = NULL;
    log_line(WEFT_LOG_DEBUG, "plugin %s is loaded from %s", o->manifest->id, o->path);
    err_clear();
    const uint32_t mark = err_count;
    call_enter(o, "open");
    o->opening = true;
    weft_status st = o->manifest->open(&o->table, &module);
    o->opening = false;
    call_leave();
    st = call_check(o, "open", st, mark, CALL_PLAIN);
    if (st != WEFT_OK)
        return st;
    o->module = module;
    o->opened = true;
    show_module(o);
    *vec_push(&h->opened) = o;
    return WEFT_OK;
}

void host_object_close(host_object *o)
{
    call_enter(o, "close");
    if (o->manifest->close)
        o->manifest->close(o->module);
    call_leave();
    o->opened = false;
    o->module = NULL;
    show_module(o);
    long long left = atomic_load(&o->blocks);
    if (left)
        log_line(WEFT_LOG_WARN, "plugin %s has closed without giving back %lld blocks of memory",
                 o->manifest->id, left);
}
