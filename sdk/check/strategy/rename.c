/* check/strategy/rename.c: a model family whose blocks and parameters have other names, with the
 * same graph: every word is written backwards, numbers stay. */
#include "check/strategy/strategy.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static struct {
    spec_plugin family; /* whose graph it is */
    weft_builder builder;
    const weft_builder *b;
    host_component own;
} at;

static void backwards(const char *from, char *out, size_t size)
{
    snprintf(out, size, "%s", from);
    for (size_t i = 0, n; out[i]; i += n ? n : 1) {
        for (n = 0; isalpha((unsigned char)out[i + n]);)
            n++;
        for (size_t k = 0; k < n / 2; k++) {
            const char c = out[i + k];
            out[i + k] = out[i + n - 1 - k];
            out[i + n - 1 - k] = c;
        }
    }
}

static weft_status r_block(void *ctx, const char *name, uint32_t flags)
{
    char text[WEFT_MAX_NAME];
    backwards(name, text, sizeof text);
    return at.b->block(ctx, text, flags);
}

static weft_status r_param(void *ctx, const weft_param_args *args, weft_tensor *out)
{
    char text[WEFT_MAX_NAME];
    weft_param_args own = *args;
    backwards(args->name, text, sizeof text);
    own.name = text;
    return at.b->param(ctx, &own, out);
}

static weft_status describe(void *module, const weft_conf *conf, const weft_data_info *data,
                            weft_model_info *out)
{
    const weft_model_table *t = at.family.c->table;
    (void)module;
    return PLUGIN_GET(t, describe, at.family.c->module, conf, data, out);
}

static weft_status build(void *module, const weft_model_args *args, const weft_builder *b,
                         weft_tensor *out)
{
    const weft_model_table *t = at.family.c->table;
    (void)module;
    at.b = b;
    at.builder = *b;
    at.builder.block = r_block;
    at.builder.param = r_param;
    return PLUGIN_GET(t, build, at.family.c->module, args, &at.builder, out);
}

static const weft_model_table table = {
    .struct_size = sizeof table, .describe = describe, .build = build};

void check_rename(spec *s)
{
    at.family = s->family;
    at.own = *s->family.c;
    at.own.table = &table;
    s->family.c = &at.own;
}
