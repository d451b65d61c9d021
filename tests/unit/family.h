/* A model family of the build, opened through the host, with its options as numbers. */
#ifndef FAMILY_H
#define FAMILY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config/config.h"
#include "host/call.h"
#include "host/host.h"

#include <weft/model.h>

#define FAMILY_TIED_AUTO (-1)

typedef struct family_options {
    const char *family;
    int64_t layers, heads, kv_heads; /* kv_heads 0: auto */
    int64_t embed, ffn, context, vocab;
    int tied; /* 1, 0 or FAMILY_TIED_AUTO */
    int64_t batch, sequence;
    double weight;
    uint32_t want; /* 0: WEFT_MODEL_TRAIN */
    double dropout;
    double rope_theta, norm_eps; /* 0: the default */
} family_options;

static const host_component *family_component(const char *name)
{
    static const char *const ifaces[] = {"weft.model/1", NULL};
    static host *h; /* one of the process: modules stay open */
    const host_component *c = NULL;
    weft_status st = h ? WEFT_OK : host_create(NULL, &h);
    if (st == WEFT_OK)
        st = host_find(h, "model", name, ifaces, &c);
    if (st == WEFT_OK)
        st = host_open(h, c);
    return st == WEFT_OK ? c : NULL;
}

static weft_status family_set(config *cfg, const char *key, const char *format, double value)
{
    char full[64], text[64];
    snprintf(full, sizeof full, "model.%s", key);
    snprintf(text, sizeof text, format, value);
    return config_set(cfg, full, text, "test");
}

/* The config of a family with these options; the caller destroys it. */
static weft_status family_config(const host_component *c, const family_options *o, config **out)
{
    const struct {
        const char *key, *format;
        double value;
        bool given;
    } values[] = {
        {"layers", "%.0f", (double)o->layers, true},
        {"heads", "%.0f", (double)o->heads, true},
        {"kv_heads", "%.0f", (double)o->kv_heads, o->kv_heads != 0},
        {"embed", "%.0f", (double)o->embed, true},
        {"ffn", "%.0f", (double)o->ffn, true},
        {"context", "%.0f", (double)o->context, true},
        {"vocab", "%.0f", (double)o->vocab, true},
        {"tied", o->tied ? "on" : "off", 0, o->tied != FAMILY_TIED_AUTO},
        {"rope_theta", "%.17g", o->rope_theta, o->rope_theta != 0},
        {"norm_eps", "%.17g", o->norm_eps, o->norm_eps != 0},
        {"dropout", "%.17g", o->dropout, true},
    };
    weft_status st = config_load(NULL, NULL, 0, out);
    if (st != WEFT_OK)
        return st;
    st = config_add(*out, "model", "the family", c->options);
    for (size_t i = 0; st == WEFT_OK && i < sizeof values / sizeof *values; i++)
        if (values[i].given)
            st = family_set(*out, values[i].key, values[i].format, values[i].value);
    if (st == WEFT_OK)
        st = config_check(*out);
    if (st != WEFT_OK)
        config_destroy(*out);
    return st;
}

/* describe(), and with a builder build(). */
static weft_status family_run(const family_options *o, const weft_builder *b, weft_model_info *info,
                              weft_tensor *out)
{
    config *cfg;
    const host_component *c = family_component(o->family);
    weft_status st = c ? family_config(c, o, &cfg) : WEFT_USAGE;
    if (st != WEFT_OK)
        return st;
    const weft_model_table *table = c->table;
    const weft_conf *conf = config_conf(cfg, "model", c->own);
    *info = (weft_model_info){.struct_size = sizeof *info};
    st = PLUGIN_CALL(table, describe, c->module, conf, NULL, info);
    const weft_model_args args = {.struct_size = sizeof args,
                                  .want = o->want ? o->want : WEFT_MODEL_TRAIN,
                                  .vocab = info->vocab,
                                  .batch = o->batch,
                                  .sequence = o->sequence,
                                  .weight = o->weight,
                                  .conf = conf};
    if (st == WEFT_OK && b)
        st = PLUGIN_CALL(table, build, c->module, &args, b, out);
    config_destroy(cfg);
    return st;
}

static inline weft_status family_build(const weft_builder *b, const family_options *o,
                                       weft_tensor *out)
{
    weft_model_info info;
    return family_run(o, b, &info, out);
}

/* Elements of all parameters, as the family says; 0: it refuses the options. */
static inline int64_t family_params(const family_options *o)
{
    weft_model_info info;
    return family_run(o, NULL, &info, NULL) == WEFT_OK ? (int64_t)info.params : 0;
}

#endif
