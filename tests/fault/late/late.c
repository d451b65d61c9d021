/* A transport whose set-up takes long on one rank: tcp, but link creation sleeps LATE_MS
 * milliseconds on the rank LATE_RANK. So that rank tells its address late, while the others have
 * each other's. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/link.h>

static const weft_link_table *below;
static weft_link_table table;
static weft_component component;
static const weft_component *const components[] = {&component, NULL};
static weft_manifest manifest;

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    const char *rank = getenv("LATE_RANK"), *ms = getenv("LATE_MS");
    if (rank && ms && args->rank == (uint32_t)atoi(rank)) {
        struct timespec t = {atoi(ms) / 1000, (long)(atoi(ms) % 1000) * 1000000};
        nanosleep(&t, NULL);
    }
    return below->create(module, args, out);
}

const weft_manifest *weft_plugin_entry(void)
{
    void *lib = dlopen(LATE_TCP, RTLD_NOW | RTLD_LOCAL);
    const weft_manifest *(*entry)(void) = NULL;
    void *symbol = lib ? dlsym(lib, "weft_plugin_entry") : NULL;
    memcpy(&entry, &symbol, sizeof entry);
    if (!entry)
        return NULL;
    component = *entry()->components[0];
    below = component.table;
    memcpy(&table, below, sizeof table);
    table.create = create;
    component.name = "late";
    component.table = &table;
    manifest = *entry();
    manifest.id = "weft.test.late";
    manifest.components = components;
    return &manifest;
}
