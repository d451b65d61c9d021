/* wrapped.h: a plugin that is another one but for some calls: of the transport or the device in a
 * file that the build has made. */
#ifndef TESTS_WRAPPED_H
#define TESTS_WRAPPED_H

#include <dlfcn.h>
#include <string.h>
#include <weft/plugin.h>

static weft_component wrapped_component;
static const weft_component *const wrapped_components[] = {&wrapped_component, NULL};
static weft_manifest wrapped_manifest;

/* The plugin of the file, or NULL. wrapped_manifest is the same with another id, and one component
 * of this name, whose table is `table`, a copy of `bytes` of the file's first one. */
static const weft_manifest *wrapped_load(const char *file, const char *id, const char *name,
                                         void *table, size_t bytes)
{
    void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    void *symbol = lib ? dlsym(lib, "weft_plugin_entry") : NULL;
    weft_plugin_entry_fn entry = NULL;
    memcpy(&entry, &symbol, sizeof entry);
    if (!entry)
        return NULL;
    const weft_manifest *m = entry();
    wrapped_component = *m->components[0];
    memcpy(table, wrapped_component.table, bytes);
    wrapped_component.name = name;
    wrapped_component.table = table;
    wrapped_manifest = *m;
    wrapped_manifest.id = id;
    wrapped_manifest.components = wrapped_components;
    return m;
}

#endif
