/* plugins/keys.c: see keys.h. */
#include "plugins/keys.h"

#include "base/mem.h"
#include "config/differ.h"
#include "resolve/resolve.h"

#include <stdio.h>
#include <string.h>

const char *plugins_section_of(const host_component *c, char out[128])
{
    const bool own = !strcmp(c->kind, "comm") || !strcmp(c->kind, "sink");
    snprintf(out, 128, "%s%s%s", c->kind, own ? "." : "", own ? c->name : "");
    return out;
}

cli_column plugins_column_of(const host_component *c)
{
    return resolve_effect(c) & CONFIG_BINDS ? CLI_BIND : CLI_FREE;
}

const weft_option **plugins_keys_of(const host_component *c, weft_option capacity[WEFT_MAX_MESH])
{
    const weft_strategy *s = strcmp(c->iface, "weft.strategy/1") ? NULL : c->table;
    uint32_t n = 0, naxes = 0;
    while (c->options && c->options[n])
        n++;
    const weft_option **keys = mem_alloc((n + WEFT_MAX_MESH + 1) * sizeof *keys);
    for (; s && s->axes && s->axes[naxes] && naxes < WEFT_MAX_MESH; naxes++) {
        capacity[naxes] = resolve_axis_option(s->axes[naxes]);
        keys[naxes] = &capacity[naxes];
    }
    for (uint32_t i = 0; i < n; i++)
        keys[naxes + i] = c->options[i];
    return keys;
}
