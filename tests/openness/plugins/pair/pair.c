/* acme.pair: a model family that brings the names of its weights in other programs, as a third
 * party would write it. It predicts a token from the one before:
 *
 *   x = table [token]
 *   logits = head (gelu (up x + b))
 *
 * Its tables make `weft import hf` and `weft export hf` read and write it: names with a prefix, a
 * matrix that is transposed there, a field with a value of its own, one that must have one value.
 */
#include <stdio.h>
#include <string.h>
#include <weft/expr.h>
#include <weft/model.h>

typedef struct pair {
    weft_expr e;
    const weft_model_args *args;
} pair;

static weft_status pair_describe(void *module, const weft_conf *conf, const weft_data_info *data,
                                 weft_model_info *out)
{
    const weft_host *host = (const weft_host *)module;
    const uint64_t embed = (uint64_t)conf->integer(conf->ctx, "embed"),
                   ffn = (uint64_t)conf->integer(conf->ctx, "ffn"),
                   vocab = (uint64_t)conf->integer(conf->ctx, "vocab");
    if (data && data->vocab > vocab)
        return (host->fail)(host->ctx, WEFT_USAGE, "model.vocab: the data has more tokens");
    const weft_model_info info = {.struct_size = sizeof info,
                                  .params = vocab * (embed + ffn) + ffn * embed + ffn,
                                  .vocab = (uint32_t)vocab};
    weft_give(out, &info);
    return WEFT_OK;
}

static void block(pair *m, const char *name)
{
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->block(m->e.b->ctx, name, 0);
}

static weft_tensor input(pair *m, const char *name)
{
    weft_shape shape = {.dtype = WEFT_I32, .rank = 1};
    const weft_input_args args = {sizeof args, 0, name, &shape};
    weft_tensor out = 0;
    shape.axes[0] = (weft_axis){"tokens", m->args->batch * m->args->sequence};
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->input(m->e.b->ctx, &args, &out);
    return out;
}

/* [a, b], or [a] where b has no name. */
static weft_tensor param(pair *m, const char *name, const char *role, weft_axis a, weft_axis b)
{
    weft_shape shape = {.rank = b.name ? 2u : 1u, .axes = {a, b}};
    const weft_param_args args = {
        sizeof args, b.name ? WEFT_PARAM_MATRIX : 0, name, &shape, "normal:0.02", role};
    weft_tensor out = 0;
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->param(m->e.b->ctx, &args, &out);
    return out;
}

static weft_tensor loss_of(pair *m, weft_tensor logits)
{
    const weft_attr weight = WEFT_ATTR_REAL("weight", m->args->weight);
    weft_tensor out[2] = {0}, scale = 0;
    if (m->args->want == WEFT_MODEL_LOGITS)
        return logits;
    weft_tensor targets = input(m, "targets");
    if (m->args->want == WEFT_MODEL_EVAL)
        return weft_op_with(&m->e, "softmax_xent.loss", &weight, 1,
                            (weft_tensor[]){logits, targets}, 2);
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->scalar(m->e.b->ctx, "scale", 0, &scale);
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->op(m->e.b->ctx, "softmax_xent", &weight, 1,
                             (weft_tensor[]){logits, targets, scale}, 3, 0, out, 2);
    return out[1];
}

static weft_status pair_build(void *module, const weft_model_args *args, const weft_builder *b,
                              weft_tensor *out)
{
    weft_status st = weft_check_args((const weft_host *)module, args, sizeof *args, 0);
    const weft_conf *c = args->conf;
    const weft_axis vocab = {"vocab", args->vocab}, none = {NULL, 0};
    const weft_axis embed = {"embed", c->integer(c->ctx, "embed")},
                    ffn = {"ffn", c->integer(c->ctx, "ffn")};
    pair m = {{b, st}, args};
    block(&m, "embed");
    weft_tensor x = weft_op2(&m.e, "embedding", param(&m, "embed.tok.w", "embedding", vocab, embed),
                             input(&m, "tokens"));
    block(&m, "block.0");
    x = weft_op2(&m.e, "linear", x, param(&m, "block.0.up.w", "ffn.up", ffn, embed));
    x = weft_op2(&m.e, "gelu", x, param(&m, "block.0.up.b", "bias", ffn, none));
    block(&m, "head");
    x = weft_op2(&m.e, "linear", x, param(&m, "head.w", "head", vocab, ffn));
    x = loss_of(&m, x);
    if (m.e.st == WEFT_OK)
        *out = x;
    return m.e.st;
}

/* --- names elsewhere --- */

#define ROW(param, name, axes)                                                                     \
    &(const weft_model_tensor)                                                                     \
    {                                                                                              \
        sizeof(weft_model_tensor), 0, param, name, axes                                            \
    }
#define FIELD(flags, field, key, values, dflt)                                                     \
    &(const weft_model_field)                                                                      \
    {                                                                                              \
        sizeof(weft_model_field), flags, key, field, dflt, values                                  \
    }

static const weft_model_tensor *const tensors[] = {
    ROW("embed.tok.w", "lookup.weight", NULL),
    ROW("block.*.up.w", "stage.*.kernel", "embed ffn"),
    ROW("block.*.up.b", "stage.*.bias", NULL),
    &(const weft_model_tensor){sizeof(weft_model_tensor), WEFT_TENSOR_BARE, "head.w", "out.kernel",
                               "ffn vocab"},
    ROW(NULL, "stage.*.scratch", NULL),
    NULL};

static const weft_model_field *const fields[] = {
    FIELD(0, "model_type", NULL, "acme_pair", "acme_pair"),
    FIELD(0, "vocab_size", "vocab", NULL, NULL),
    FIELD(0, "sizes.width|width", "embed", NULL, NULL),
    FIELD(0, "sizes.inner", "ffn", NULL, "2*sizes.width"),
    FIELD(0, "sizes.area", NULL, "sizes.width*sizes.width", "sizes.width*sizes.width"),
    FIELD(0, "order", NULL, "1", "1"),
    FIELD(WEFT_FIELD_IMPLIED, "style", "style", NULL, "plain"),
    NULL};

static const weft_model_format huggingface = {.struct_size = sizeof huggingface,
                                              .format = "huggingface",
                                              .architecture = "AcmePairForCausalLM|AcmePair",
                                              .prefix = "pair.",
                                              .tensors = tensors,
                                              .fields = fields};
static const weft_model_format *const formats[] = {&huggingface, NULL};

/* --- the plugin --- */

#define INT(key, dflt, help)                                                                       \
    &(const weft_option)                                                                           \
    {                                                                                              \
        sizeof(weft_option), WEFT_OPT_INT, key, dflt, help, NULL, 1, 1048576                       \
    }

static const weft_option *const options[] = {
    INT("vocab", "256", "tokens known"), INT("embed", "32", "width of a token"),
    INT("ffn", "64", "inner width"),
    &(const weft_option){sizeof(weft_option), WEFT_OPT_CHOICE, "style", "plain",
                         "fancy is only for people", "plain|fancy", 0, 0},
    NULL};

static const weft_model_table table = {.struct_size = sizeof table,
                                       .describe = pair_describe,
                                       .build = pair_build,
                                       .formats = formats};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.model/1",
                                         .name = "acme.pair",
                                         .help = "the next token from the one before",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("com.acme.pair", "1.0", "MIT", components, weft_open_host, NULL);
