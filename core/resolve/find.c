/* resolve/find.c: finds one component by its name in the INI. */
#include "base/err.h"
#include "config/differ.h"
#include "resolve/internal.h"

const char *const resolve_tokenizer_ifaces[] = {"weft.tokenizer/1", NULL};

weft_status resolve_find(resolve_state *r, const char *kind, const char *name, const char *key,
                         const char *const *ifaces, const char *section, const host_component **out)
{
    weft_status st = host_find(r->spec->host, kind, name, ifaces, out);
    if (st != WEFT_OK) {
        err_context("%s: %s", config_where(r->cfg, key), key);
        return st;
    }
    char *owner = pool_printf(&r->spec->pool, "plugin %s", name);
    st = config_add(r->cfg, section, owner, (*out)->options);
    config_set_effect(r->cfg, section, (*out)->options, resolve_effect(*out));
    return st;
}
