/* graph/model/model.c: the table of families, and the checks that all of them share. */
#include "graph/model/model.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "config/constraints.h"
#include "graph/model/family.h"

/* A new family adds its file and a row here. */
static const model_family *const families[] = {&graph_model_gpt2, &graph_model_llama, NULL};

static weft_status unknown_family(const char *name)
{
    char list[256] = "";
    for (size_t i = 0; families[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", families[i]->name);
    }
    return err_fail(WEFT_USAGE, "model.family = %s is not a model family of this version: %s",
                    name ? name : "(none)", list);
}

/* Products of three of these and a number of layers stay far below 2^63. */
static weft_status check_sizes(const graph_model_options *o)
{
    const struct {
        const char *key;
        int64_t value, most;
    } size[] = {
        {"model.layers", o->layers, 1 << 16},
        {"model.heads", o->heads, 1 << 20},
        {"model.embed", o->embed, 1 << 20},
        {"model.ffn", o->ffn, 1 << 22},
        {"model.context", o->context, 1 << 24},
        {"model.vocab", o->vocab, 1 << 24},
        {"train.sequence", o->sequence, 1 << 24},
        {"train.microbatch", o->batch, 1 << 30},
        {"model.kv_heads", o->kv_heads ? o->kv_heads : 1, 1 << 20},
    };
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (size[i].value < 1 || size[i].value > size[i].most)
            return err_fail(WEFT_USAGE, "%s is %lld; it must be from 1 to %lld", size[i].key,
                            (long long)size[i].value, (long long)size[i].most);
    return WEFT_OK;
}

static weft_status check_shape(const graph_model_options *o)
{
    if (o->embed % o->heads)
        return config_refuse(
            CONSTRAINT_HEADS, NULL, NULL,
            (config_fact[]){{"model.heads", o->heads, NULL}, {"model.embed", o->embed, NULL}, {0}});
    if (o->sequence > o->context)
        return config_refuse(CONSTRAINT_SEQUENCE, NULL, NULL,
                             (config_fact[]){{"train.sequence", o->sequence, NULL},
                                             {"model.context", o->context, NULL},
                                             {0}});
    if (o->heads % (o->kv_heads ? o->kv_heads : o->heads))
        return config_refuse(CONSTRAINT_KV_HEADS, NULL, NULL,
                             (config_fact[]){{"model.heads", o->heads, NULL},
                                             {"model.kv_heads", o->kv_heads, NULL},
                                             {0}});
    if (!(o->dropout >= 0 && o->dropout < 1))
        return err_fail(WEFT_USAGE, "model.dropout is %g; it must be at least 0 and below 1",
                        o->dropout);
    return WEFT_OK;
}

/* The family and the options with defaults filled in. */
static weft_status find_family(const graph_model_options *asked, graph_model_options *o,
                               const model_family **out)
{
    size_t i = 0;
    while (families[i] && (!asked->family || strcmp(families[i]->name, asked->family)))
        i++;
    if (!families[i])
        return unknown_family(asked->family);
    weft_status st = check_sizes(asked);
    if (st == WEFT_OK)
        st = check_shape(asked);
    if (st != WEFT_OK)
        return st;
    *o = *asked;
    o->kv_heads = o->kv_heads ? o->kv_heads : o->heads;
    o->tied = o->tied == MODEL_TIED_AUTO ? families[i]->tied : o->tied;
    o->rope_theta = o->rope_theta != 0 ? o->rope_theta : MODEL_ROPE_THETA;
    o->norm_eps = o->norm_eps != 0 ? o->norm_eps : 1e-5;
    st = families[i]->check(o);
    if (st == WEFT_OK)
        *out = families[i];
    return st;
}

weft_status graph_model_build(const weft_builder *b, const graph_model_options *asked,
                              weft_tensor *out)
{
    const model_family *family;
    graph_model_options o;
    weft_status st = find_family(asked, &o, &family);
    return st != WEFT_OK ? st : family->build(b, &o, out);
}

int64_t graph_model_params(const graph_model_options *asked)
{
    const model_family *family;
    graph_model_options o;
    return find_family(asked, &o, &family) != WEFT_OK ? 0 : family->params(&o);
}
