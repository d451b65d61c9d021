/* A transport that reaches a GPU's memory where this machine's card can: a double of what verbs
 * asks of a driver. It is tcp underneath, which reaches no such memory, so that whatever goes
 * through it has gone through the host. Here the card of rank 1 cannot. */
#include <stdlib.h>
#include <string.h>
#include <weft/device.h>
#include <weft/link.h>

#include "../wrapped.h"

static const weft_host *host;
static const weft_manifest *tcp;
static weft_link_table table;

static weft_status probe(void *module, const weft_conf *conf, const weft_link_group *group,
                         int32_t *score)
{
    const char *rank = getenv("RANK");
    (void)module, (void)conf;
    *score = 5;
    if ((group->device_caps & WEFT_DEV_HOST_MEMORY) == 0 && rank && !strcmp(rank, "1")) {
        *score = 0;
        (void)!host->fail(host->ctx, WEFT_ABSENT, "the card cannot register it");
    }
    return WEFT_OK;
}

static weft_status module_open(const weft_host *h, void **module)
{
    host = h;
    return tcp->open(h, module);
}

const weft_manifest *weft_plugin_entry(void)
{
    tcp = wrapped_load(DOUBLE_TCP, "weft.test.far", "doublefar", &table, sizeof table);
    if (!tcp)
        return NULL;
    table.caps |= WEFT_LINK_CUDA;
    table.probe = probe;
    wrapped_manifest.open = module_open;
    return &wrapped_manifest;
}
