/* options.c: the keys of [model] that the families share; see layers.h. */
#include "layers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const weft_option layers_key_layers =
    LAYERS_KEY(WEFT_OPT_INT, "layers", "12", "transformer blocks", NULL, 1, 1024);
const weft_option layers_key_heads =
    LAYERS_KEY(WEFT_OPT_INT, "heads", "12", "attention heads; they divide embed", NULL, 1, 65536);
const weft_option layers_key_embed =
    LAYERS_KEY(WEFT_OPT_INT, "embed", "768", "width of the residual stream", NULL, 1, 1048576);
const weft_option layers_key_ffn = LAYERS_KEY(
    WEFT_OPT_INT, "ffn", "3072", "inner width of the feed-forward part", NULL, 1, 4194304);
const weft_option layers_key_context =
    LAYERS_KEY(WEFT_OPT_INT, "context", "1024", "longest sequence, in tokens", NULL, 1, 16777216);
const weft_option layers_key_vocab = LAYERS_KEY(
    WEFT_OPT_INT, "vocab", "50257",
    "tokens known, at least as many as in the data; 0: what the data says, which is needed then",
    NULL, 0, 16777216);
const weft_option layers_key_norm_eps =
    LAYERS_KEY(WEFT_OPT_REAL, "norm_eps", "1e-5",
               "added to the variance before normalisations divide by it", NULL, 1e-12, 1);
const weft_option layers_key_dropout =
    LAYERS_KEY(WEFT_OPT_REAL, "dropout", "0",
               "training: probability that an element is dropped from the embedding and from what "
               "attention and ffn add to the residual stream; attention weights have no dropout",
               NULL, 0, 0.99);

void layers_read(const weft_conf *c, bool tied, layers_options *o)
{
    *o = (layers_options){
        .layers = c->integer(c->ctx, "layers"),
        .heads = c->integer(c->ctx, "heads"),
        .kv_heads = c->integer(c->ctx, "kv_heads"),
        .embed = c->integer(c->ctx, "embed"),
        .ffn = c->integer(c->ctx, "ffn"),
        .context = c->integer(c->ctx, "context"),
        .vocab = c->integer(c->ctx, "vocab"),
        .rope_theta = c->real(c->ctx, "rope_theta"),
        .norm_eps = c->real(c->ctx, "norm_eps"),
        .dropout = c->real(c->ctx, "dropout"),
    };
    const char *word = c->text(c->ctx, "tied");
    o->tied = strcmp(word, "auto") ? !strcmp(word, "on") : tied;
    o->kv_heads = o->kv_heads ? o->kv_heads : o->heads;
}

weft_status layers_refuse(const weft_host *host, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return host->fail(host->ctx, WEFT_USAGE, text);
}

weft_status layers_check(const weft_host *host, const weft_data_info *data, layers_options *o)
{
    weft_status st = data ? weft_check_args(host, data, sizeof *data, 0) : WEFT_OK;
    if (st != WEFT_OK)
        return st;
    if (!o->head_dim && o->embed % o->heads)
        return layers_refuse(host, "model.heads: %lld heads do not divide model.embed = %lld",
                             (long long)o->heads, (long long)o->embed);
    o->head_dim = o->head_dim ? o->head_dim : o->embed / o->heads;
    if (o->heads % o->kv_heads)
        return layers_refuse(host,
                             "model.kv_heads: model.heads is %lld and model.kv_heads is %lld: "
                             "heads must be a multiple of kv_heads",
                             (long long)o->heads, (long long)o->kv_heads);
    o->vocab = o->vocab || !data ? o->vocab : data->vocab;
    if (!o->vocab)
        return layers_refuse(host, "model.vocab: 0 means what the data says, but %s",
                             data ? "this data has no ids of tokens; give a number"
                                  : "the job has no data; name data.train, or give a number");
    if (data && data->vocab > o->vocab)
        return layers_refuse(host,
                             "model.vocab: the data has tokens up to %u, the model only %lld: the "
                             "data was made with another tokenizer, or, for a new model, 0 takes "
                             "what the data says",
                             data->vocab - 1, (long long)o->vocab);
    return WEFT_OK;
}
