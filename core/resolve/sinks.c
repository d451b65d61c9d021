/* resolve/sinks.c: the sinks that log.sinks names, and their keys in [sink.NAME]. */
#include "base/err.h"
#include "config/config.h"
#include "resolve/internal.h"

#include <weft/sink.h>

static const char *const sink_ifaces[] = {"weft.sink/1", NULL};

static weft_status check(const resolve_state *r, const host_component *c)
{
    const spec *s = r->spec;
    for (uint32_t i = 0; i < s->nsinks; i++)
        if (s->sinks[i] == c)
            return err_fail(WEFT_USAGE, "'%s' is named twice", c->name);
    if (s->nsinks == SPEC_SINKS)
        return err_fail(WEFT_UNSUPPORTED, "'%s' is one too many: a job has at most %u sinks",
                        c->name, SPEC_SINKS);
    return resolve_check_flags(c, "sink", ((const weft_sink_table *)c->table)->flags);
}

static weft_status add_sink(resolve_state *r, const char *name)
{
    const host_component *c;
    pool *p = &r->spec->pool;
    weft_status st = host_find(r->spec->host, "sink", name, sink_ifaces, &c);
    if (st == WEFT_OK)
        st = check(r, c);
    if (st == WEFT_OK)
        st = host_use(r->spec->host, c);
    if (st != WEFT_OK)
        return st;
    r->spec->sinks[r->spec->nsinks++] = c;
    return config_add(r->cfg, pool_printf(p, "sink.%s", name), pool_printf(p, "plugin %s", name),
                      c->options);
}

weft_status resolve_sinks(resolve_state *r)
{
    const char *list = config_text(r->cfg, "log.sinks");
    char *rest = *list ? pool_text(&r->spec->pool, list) : NULL;
    for (char *word; (word = resolve_next_word(&rest));) {
        weft_status st = add_sink(r, word);
        if (st != WEFT_OK) {
            err_context("%s: log.sinks", config_where(r->cfg, "log.sinks"));
            return st;
        }
    }
    return WEFT_OK;
}
