/* A plugin that is linked into a test: a host of its own, and options from a list of pairs. */
#ifndef LONE_H
#define LONE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/data.h>

static char lone_why[8192]; /* the last failure; "" after lone_clear() */
static long lone_blocks;    /* that alloc() gave and free() has not taken back */
static const void *(*lone_iface)(const char *id);

static inline void *lone_alloc(void *ctx, uint64_t bytes, uint64_t align)
{
    (void)ctx, (void)align;
    lone_blocks++;
    return calloc(1, bytes ? bytes : 1);
}

static inline void lone_free(void *ctx, void *p)
{
    (void)ctx;
    lone_blocks -= p != NULL;
    free(p);
}

static inline int32_t lone_enabled(void *ctx, int32_t level)
{
    (void)ctx, (void)level;
    return 0;
}

static inline void lone_log(void *ctx, int32_t level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static inline weft_status lone_fail(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    if (!*lone_why)
        snprintf(lone_why, sizeof lone_why, "%s", text);
    return code;
}

static inline const void *lone_table(void *ctx, const char *id)
{
    (void)ctx;
    return lone_iface ? lone_iface(id) : NULL;
}

static const weft_host lone_host = {.struct_size = sizeof lone_host,
                                    .abi_major = WEFT_ABI_MAJOR,
                                    .abi_minor = WEFT_ABI_MINOR,
                                    .alloc = lone_alloc,
                                    .free = lone_free,
                                    .log_enabled = lone_enabled,
                                    .log = lone_log,
                                    .fail = lone_fail,
                                    .iface = lone_table};

static inline void lone_clear(void)
{
    *lone_why = 0;
}

/* `ctx`: "key", "value", ..., NULL. Keys that are left out have the value "". */
static inline const char *lone_text(void *ctx, const char *key)
{
    for (const char *const *p = ctx; p && *p; p += 2)
        if (!strcmp(*p, key))
            return p[1];
    return "";
}

static inline int64_t lone_integer(void *ctx, const char *key)
{
    return strtoll(lone_text(ctx, key), NULL, 10);
}

static inline double lone_real(void *ctx, const char *key)
{
    return strtod(lone_text(ctx, key), NULL);
}

static inline uint32_t lone_reals(void *ctx, const char *key, double *out, uint32_t room)
{
    (void)ctx, (void)key, (void)out, (void)room;
    return 0;
}

static inline weft_conf lone_conf(const char *const *pairs)
{
    return (weft_conf){.struct_size = sizeof(weft_conf),
                       .ctx = (void *)(uintptr_t)pairs,
                       .text = lone_text,
                       .integer = lone_integer,
                       .real = lone_real,
                       .reals = lone_reals};
}

/* The first component of the plugin that is linked in, and its module. */
static inline const weft_component *lone_open(void **module)
{
    const weft_manifest *m = weft_plugin_entry();
    return m->open(&lone_host, module) == WEFT_OK ? m->components[0] : NULL;
}

/* The table of that component, a source of data; what it reads of tokens and targets. */
static inline const weft_data_table *lone_source(void)
{
    void *module;
    return lone_open(&module)->table;
}

static inline weft_status lone_read(weft_dataset *d, uint64_t first, uint64_t count,
                                    uint64_t sequence, int32_t *tokens, int32_t *targets)
{
    void *const out[] = {tokens, targets};
    const weft_read_args args = {.struct_size = sizeof args,
                                 .first = first,
                                 .count = count,
                                 .sequence = sequence,
                                 .nfields = 2,
                                 .out = out};
    lone_clear();
    return lone_source()->read(d, &args);
}

#endif
