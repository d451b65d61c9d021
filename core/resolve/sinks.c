/* resolve/sinks.c: the sinks that log.sinks names, and their keys in [sink.NAME]. */
#include "base/err.h"
#include "resolve/internal.h"

static weft_status add_sink(resolve_state *r, const char *name)
{
    spec *s = r->spec;
    for (uint32_t i = 0; i < s->nsinks; i++)
        if (!strcmp(s->sinks[i]->name, name))
            return config_fail(r->cfg, "log.sinks", "'%s' is named twice", name);
    if (s->nsinks == SPEC_SINKS)
        return err_fail(WEFT_UNSUPPORTED, "%s: '%s' is one too many: a job has at most %u sinks",
                        config_origin(r->cfg, "log.sinks"), name, SPEC_SINKS);
    weft_status st = resolve_take(r, "log.sinks", name, &s->sinks[s->nsinks]);
    s->nsinks += st == WEFT_OK;
    return st;
}

weft_status resolve_sinks(resolve_state *r)
{
    const char *list = config_text(r->cfg, "log.sinks");
    char *rest = *list ? pool_text(&r->spec->pool, list) : NULL;
    for (char *word; (word = resolve_next_word(&rest));) {
        weft_status st = add_sink(r, word);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}
