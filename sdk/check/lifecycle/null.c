/* check/lifecycle/null.c: calls that give something back accept NULL where the SDK says so. */
#include "check/lifecycle/lifecycle.h"

#include <string.h>
#include <weft/coll.h>
#include <weft/device.h>
#include <weft/link.h>

static check_host h;

static void give_back_nothing(const host_component *c)
{
    const weft_link_table *link = c->table;
    const weft_device_table *device = c->table;
    const weft_coll_table *coll = c->table;
    if (!strcmp(c->iface, "weft.link/1")) {
        PLUGIN_DO(link, disconnect, NULL);
        PLUGIN_DO(link, destroy, NULL);
        if (link->deregister_memory)
            PLUGIN_DO(link, deregister_memory, NULL);
    } else if (!strcmp(c->iface, "weft.device/1")) {
        PLUGIN_DO(device, release, NULL);
        PLUGIN_DO(device, close, NULL);
    } else if (!strcmp(c->iface, "weft.coll/1")) {
        PLUGIN_DO(coll, close, NULL);
    }
}

void check_lifecycle_null(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    void *module = NULL;
    check_host_begin(&h, "the host");
    check_close(m, NULL); /* before any module */
    for (uint32_t i = 0; i < r->n; i++)
        give_back_nothing(r->components[i]);
    const weft_status st = check_open(m, &h, &module);
    if (st != WEFT_OK)
        check_fail("open() returned %s: %s", check_status(st), h.why);
    for (uint32_t i = 0; i < r->n; i++)
        give_back_nothing(r->components[i]);
    check_close(m, module);
    check_close(m, NULL);
}
