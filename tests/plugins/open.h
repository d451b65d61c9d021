/* A component of a plugin that the build has made, opened without the host, and options for it. */
#ifndef OPEN_H
#define OPEN_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/plugin.h>

static const weft_component *open_component(const char *kind, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, PLUGINS "/%s/%s.so", kind, name);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    weft_plugin_entry_fn entry;
    *(void **)&entry = dlsym(so, "weft_plugin_entry");
    return entry()->components[0];
}

/* Values in place of defaults: "momentum=0.9;weight_decay=0.1". */
typedef struct option_values {
    const weft_component *of;
    const char *given;
} option_values;

static const char *option_text(void *ctx, const char *key)
{
    const option_values *v = ctx;
    size_t n = strlen(key);
    for (const char *p = v->given; p && *p; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL)
        if (!strncmp(p, key, n) && p[n] == '=')
            return p + n + 1;
    for (const weft_option *const *o = v->of->options; o && *o; o++)
        if (!strcmp((*o)->key, key))
            return (*o)->dflt;
    fprintf(stderr, "undeclared option %s\n", key);
    abort();
}

static double option_real(void *ctx, const char *key)
{
    return strtod(option_text(ctx, key), NULL);
}

static uint32_t option_reals(void *ctx, const char *key, double *out, uint32_t cap)
{
    char *p = (char *)option_text(ctx, key);
    uint32_t n = 0;
    for (;; p++) {
        const double value = strtod(p, &p);
        if (n++ < cap)
            out[n - 1] = value;
        if (*p != ',')
            return n;
    }
}

static int64_t option_integer(void *ctx, const char *key)
{
    return strtoll(option_text(ctx, key), NULL, 10);
}

static weft_conf conf_of(option_values *v)
{
    return (weft_conf){sizeof(weft_conf), 0,           v,           v->of, option_text,
                       option_integer,    option_real, option_reals};
}

#endif
