/* model.c: a family, the bigram model: the logits of the next token are a row of a table, chosen by
 * the token. With `cap` they pass acme.softcap, an op of another plugin (op.c). */
#include <weft/expr.h>
#include <weft/model.h>

static weft_status describe(void *module, const weft_conf *conf, const weft_data_info *data,
                            weft_model_info *out)
{
    const weft_host *host = module;
    uint32_t vocab = (uint32_t)conf->integer(conf->ctx, "vocab");
    const weft_status st = data ? weft_check_args(host, data, sizeof *data, 0) : WEFT_OK;
    if (st != WEFT_OK)
        return st;
    if (!vocab && data)
        vocab = data->vocab;
    if (!vocab || (data && data->vocab > vocab))
        return (host->fail)(host->ctx, WEFT_USAGE,
                            "model.vocab: the model needs as many ids as the data has; 0 takes "
                            "what the data says, and needs data with ids");
    const weft_model_info info = {sizeof info, 0, (uint64_t)vocab * vocab, 0, vocab, 0};
    weft_give(out, &info);
    return WEFT_OK;
}

static weft_tensor input(weft_expr *e, const char *name, int64_t rows)
{
    const weft_shape shape = {WEFT_I32, 1, 0, 0, {{"tokens", rows}}};
    const weft_input_args args = {sizeof args, 0, name, &shape};
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->input(e->b->ctx, &args, &out);
    return out;
}

static weft_tensor table_of(weft_expr *e, int64_t vocab)
{
    const weft_shape shape = {0, 2, 0, 0, {{"ids", vocab}, {"vocab", vocab}}};
    const weft_param_args args = {sizeof args, WEFT_PARAM_MATRIX, "w",
                                  &shape,      "normal:0.02",     "embedding"};
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->param(e->b->ctx, &args, &out);
    return out;
}

static weft_tensor loss_of(weft_expr *e, const weft_model_args *args, weft_tensor logits)
{
    const weft_attr weight[] = {WEFT_ATTR_REAL("weight", args->weight)};
    weft_tensor in[3] = {logits, input(e, "targets", args->batch * args->sequence), 0};
    weft_tensor out[2] = {0, 0};
    if (args->want == WEFT_MODEL_EVAL)
        return weft_op_with(e, "softmax_xent.loss", weight, 1, in, 2);
    if (e->st == WEFT_OK)
        e->st = e->b->scalar(e->b->ctx, "scale", 0, &in[2]);
    if (e->st == WEFT_OK)
        e->st = e->b->op(e->b->ctx, "softmax_xent", weight, 1, in, 3, 0, out, 2);
    return out[1];
}

static weft_status build(void *module, const weft_model_args *args, const weft_builder *b,
                         weft_tensor *out)
{
    weft_expr e = {b, weft_check_args((const weft_host *)module, args, sizeof *args, 0)};
    if (e.st == WEFT_OK && (args->want < WEFT_MODEL_TRAIN || args->want > WEFT_MODEL_LOGITS))
        e.st = weft_refuse_unknown((const weft_host *)module);
    const double cap = args->conf->real(args->conf->ctx, "cap");
    const weft_attr capped[] = {WEFT_ATTR_REAL("cap", cap)};
    if (e.st == WEFT_OK)
        e.st = b->block(b->ctx, "table", 0);
    const weft_tensor table = table_of(&e, args->vocab);
    const weft_tensor tokens = input(&e, "tokens", args->batch * args->sequence);
    const weft_tensor row = weft_op2(&e, "embedding", table, tokens);
    const weft_tensor logits = cap > 0 ? weft_op_with(&e, "acme.softcap", capped, 1, &row, 1) : row;
    const weft_tensor result = args->want == WEFT_MODEL_LOGITS ? logits : loss_of(&e, args, logits);
    if (e.st == WEFT_OK)
        *out = result;
    return e.st;
}

static const weft_model_tensor weight = {sizeof weight, 0, "w", "bigram.weight", NULL};
static const weft_model_tensor *const tensors[] = {&weight, NULL};
static const weft_model_field size = {sizeof size, 0, "vocab", "vocab_size", NULL, NULL};
static const weft_model_field *const fields[] = {&size, NULL};
static const weft_model_format format = {sizeof format, 0,       "huggingface", "BigramLM",
                                         "model.",      tensors, fields};
static const weft_model_format *const formats[] = {&format, NULL};

static const weft_option vocab = {sizeof vocab,
                                  WEFT_OPT_INT,
                                  "vocab",
                                  "0",
                                  "ids that the model tells apart; 0: what the data says",
                                  NULL,
                                  0,
                                  1 << 20};
static const weft_option cap = {
    sizeof cap, WEFT_OPT_REAL, "cap", "0", "logits lie between -cap and cap; 0: no cap", NULL, 0,
    1e6};
static const weft_option *const options[] = {&vocab, &cap, NULL};
static const weft_model_table table = {sizeof table, 0, describe, build, formats};
static const weft_component bigram = {sizeof bigram,
                                      0,
                                      "weft.model/1",
                                      "acme.bigram",
                                      "logits of the next token from a table",
                                      options,
                                      &table,
                                      NULL};
static const weft_component *const components[] = {&bigram, NULL};
WEFT_PLUGIN("org.acme.bigram", "1", "", components, weft_open_host, NULL);
