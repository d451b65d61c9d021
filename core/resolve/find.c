/* resolve/find.c: what names the plugins of a job, and finding one of them by its name. */
#include "base/err.h"
#include "config/differ.h"
#include "resolve/internal.h"

#include <stddef.h>
#include <weft/data.h>
#include <weft/sink.h>

const resolve_selector resolve_selectors[] = {
    {"weft.model/1", "model", "model family", "model.family", CONFIG_BINDS | CONFIG_ALONE,
     offsetof(weft_model_table, flags)},
    {"weft.data/1", "data", "data source", "data.source", CONFIG_ALONE,
     offsetof(weft_data_table, flags)},
    {"weft.tokenizer/1", "tokenizer", "tokenizer", "data.tokenizer", CONFIG_ALONE,
     offsetof(weft_tokenizer_table, flags)},
    {"weft.device/1", "device", "device", "device.plugin", 0, 0},
    {"weft.strategy/1", "parallel", "strategy", "parallel.strategy", 0,
     offsetof(weft_strategy, flags)},
    {"weft.rule/1", "optim", "update rule", "optim.rule", CONFIG_BINDS | CONFIG_ALONE, 0},
    {"weft.placement/1", "optim", "placement", "optim.placement", 0,
     offsetof(weft_placement, flags)},
    {"weft.sink/1", "sink", "sink", "log.sinks", 0, offsetof(weft_sink_table, flags)},
    {0}};

const resolve_selector *resolve_selector_of(const host_component *c)
{
    for (const resolve_selector *s = resolve_selectors; c->iface && s->iface; s++)
        if (!strcmp(s->iface, c->iface))
            return s;
    return NULL;
}

uint32_t resolve_effect(const host_component *c)
{
    const resolve_selector *by = resolve_selector_of(c);
    return by ? by->effect : 0;
}

const char *resolve_section_of(resolve_state *r, const host_component *c)
{
    return strcmp(c->kind, "sink") ? c->kind : pool_printf(&r->spec->pool, "sink.%s", c->name);
}

static weft_status check_flags(const resolve_selector *by, const host_component *c)
{
    uint32_t flags = 0;
    if (by->flags)
        memcpy(&flags, (const uint8_t *)c->table + by->flags, sizeof flags);
    return flags ? err_fail(WEFT_USAGE, "%s: the table of %s %s has flags 0x%x; 0 is expected",
                            c->path, by->noun, c->name, flags)
                 : WEFT_OK;
}

weft_status resolve_find(resolve_state *r, const char *key, const char *name,
                         const host_component **out)
{
    const resolve_selector *by = resolve_selectors;
    while (strcmp(by->key, key) != 0)
        by++;
    weft_status st =
        host_find(r->spec->host, by->kind, name, (const char *const[]){by->iface, NULL}, out);
    if (st != WEFT_OK)
        return st;
    const char *section = resolve_section_of(r, *out);
    st = config_add(r->cfg, section, pool_printf(&r->spec->pool, "plugin %s", name),
                    (*out)->options);
    config_set_effect(r->cfg, section, (*out)->options, by->effect);
    return st == WEFT_OK ? check_flags(by, *out) : st;
}

weft_status resolve_take(resolve_state *r, const char *key, const char *name,
                         const host_component **out)
{
    weft_status st = resolve_find(r, key, name ? name : config_text(r->cfg, key), out);
    if (st == WEFT_OK)
        st = host_use(r->spec->host, *out);
    if (st != WEFT_OK)
        err_context("%s: %s", config_where(r->cfg, key), key);
    return st;
}
