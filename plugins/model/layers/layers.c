/* layers.c: see layers.h. */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft/random.h>

layers layers_begin(const weft_host *host, const weft_model_args *args, const weft_builder *b,
                    const layers_options *o)
{
    layers m = {.b = b, .o = o, .args = args, .prefix = ""};
    m.st = weft_check_args(host, args, sizeof *args, 0);
    if (m.st == WEFT_OK && (args->want < WEFT_MODEL_TRAIN || args->want > WEFT_MODEL_LOGITS))
        m.st = b->fail(b->ctx, WEFT_UNSUPPORTED,
                       "the program asks for something that this model family does not build: it "
                       "is newer than the plugin");
    return m;
}

void layers_block(layers *m, const char *name)
{
    if (m->st == WEFT_OK)
        m->st = m->b->block(m->b->ctx, name, 0);
}

weft_tensor layers_input(layers *m, const char *name)
{
    weft_shape shape = {.dtype = WEFT_I32, .rank = 1};
    shape.axes[0] = (weft_axis){"tokens", m->args->batch * m->args->sequence};
    weft_tensor out = 0;
    if (m->st == WEFT_OK)
        m->st = m->b->input(m->b->ctx, &(weft_input_args){sizeof(weft_input_args), 0, name, &shape},
                            &out);
    return out;
}

void layers_documents(layers *m)
{
    static const char name[] = "document_positions";
    for (uint32_t i = 0; m->args->fields && i < m->args->nfields; i++)
        if (!strcmp(m->args->fields[i].name, name))
            m->places = layers_input(m, name);
}

/* What a parameter is (weft_param_args.role), by its name in the block: every family uses these
 * names. */
static const char *role_of(const char *name)
{
    static const struct {
        const char *name, *role;
    } roles[] = {
        {"embed.tok.w", "embedding"},
        {"embed.pos.w", "position"},
        {"ln1.g", "norm"}, /* of gpt2 */
        {"ln1.b", "norm"},
        {"ln2.g", "norm"},
        {"ln2.b", "norm"},
        {"ln.g", "norm"},
        {"ln.b", "norm"},
        {"attn.qkv.w", "attention.qkv"},
        {"attn.qkv.b", "bias"},
        {"attn.out.w", "attention.out"},
        {"attn.out.b", "bias"},
        {"ffn.in.w", "ffn.up"},
        {"ffn.in.b", "bias"},
        {"ffn.out.w", "ffn.down"},
        {"ffn.out.b", "bias"},
        {"norm1.g", "norm"}, /* of llama */
        {"norm2.g", "norm"},
        {"norm.g", "norm"},
        {"attn.q.w", "attention.query"},
        {"attn.k.w", "attention.key"},
        {"attn.v.w", "attention.value"},
        {"attn.q.b", "bias"},
        {"attn.k.b", "bias"},
        {"attn.v.b", "bias"},
        {"attn.q_norm.g", "norm"},
        {"attn.k_norm.g", "norm"},
        {"ffn.gate.w", "ffn.gate"},
        {"ffn.up.w", "ffn.up"},
        {"ffn.down.w", "ffn.down"},
        {"w", "head"},
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(roles[i].name, name))
            return roles[i].role;
    return NULL;
}

weft_tensor layers_param(layers *m, const char *name, uint32_t rank, const weft_axis *axes,
                         const char *init)
{
    char full[WEFT_MAX_NAME];
    snprintf(full, sizeof full, "%s%s", m->prefix, name);
    weft_shape shape = {.rank = rank};
    memcpy(shape.axes, axes, rank * sizeof *axes);
    uint32_t flags = strncmp(init, "normal", 6) ? 0 : WEFT_PARAM_MATRIX;
    if (rank == 2 && (!strcmp(axes[0].name, "vocab") || !strcmp(axes[0].name, "context")))
        flags |= WEFT_PARAM_PAD; /* rows that are looked up, or whose logits the loss ignores */
    weft_tensor out = 0;
    if (m->st == WEFT_OK)
        m->st = m->b->param(
            m->b->ctx,
            &(weft_param_args){sizeof(weft_param_args), flags, full, &shape, init, role_of(name)},
            &out);
    return out;
}

weft_tensor layers_op(layers *m, const char *id, const weft_attr *attrs, uint32_t nattr,
                      const weft_tensor in[LAYERS_INPUTS], uint32_t nout)
{
    uint32_t nin = 0;
    while (nin < LAYERS_INPUTS && in[nin])
        nin++;
    weft_tensor out[WEFT_MAX_OPERANDS] = {0};
    if (m->st == WEFT_OK)
        m->st = m->b->op(m->b->ctx, id, attrs, nattr, in, nin, 0, out, nout);
    return out[0];
}

weft_tensor layers_linear(layers *m, weft_tensor x, weft_tensor w, weft_tensor b)
{
    return layers_op(m, "linear", NULL, 0, (weft_tensor[LAYERS_INPUTS]){x, w, b}, 1);
}

static weft_tensor add(layers *m, weft_tensor x, weft_tensor y)
{
    return layers_op(m, "add", NULL, 0, (weft_tensor[LAYERS_INPUTS]){x, y}, 1);
}

weft_tensor layers_dropout(layers *m, const char *name, weft_tensor x, weft_tensor b, weft_tensor r)
{
    char stream[WEFT_MAX_NAME];
    weft_expr e = {m->b, m->st};
    snprintf(stream, sizeof stream, "%s%s", m->prefix, name);
    const weft_attr attrs[] = {WEFT_ATTR_INT("stream", weft_stream_of(stream)),
                               WEFT_ATTR_REAL("p", m->o->dropout)};
    if (m->o->dropout == 0 || m->args->want != WEFT_MODEL_TRAIN) {
        const weft_tensor in[LAYERS_INPUTS] = {x, b, r};
        return b ? layers_op(m, "bias_residual", NULL, 0, in, 1) : r ? add(m, r, x) : x;
    }
    const weft_tensor in[LAYERS_INPUTS] = {x, weft_first_token(&e), b, r};
    m->st = e.st;
    x = layers_op(m, "dropout", attrs, 2, in, 1);
    return !b && r ? add(m, r, x) : x;
}

void layers_next(layers *m, int64_t i, char prefix[LAYERS_PREFIX])
{
    char block[LAYERS_PREFIX - 1];
    snprintf(block, sizeof block, "block.%lld", (long long)i);
    snprintf(prefix, LAYERS_PREFIX, "%s.", block);
    m->prefix = prefix;
    layers_block(m, block);
}

void layers_residual_init(const layers_options *o, char init[48])
{
    snprintf(init, 48, "normal:%.17g", 0.02 / sqrt(2.0 * (double)o->layers));
}

weft_tensor layers_loss(layers *m, weft_tensor logits)
{
    weft_attr weight = {.key = "weight", .f = m->args->weight};
    weft_tensor scale = 0, out[2] = {0};
    if (m->args->want == WEFT_MODEL_LOGITS)
        return logits;
    weft_tensor targets = layers_input(m, "targets");
    if (m->args->want == WEFT_MODEL_EVAL)
        return layers_op(m, "softmax_xent.loss", &weight, 1,
                         (weft_tensor[LAYERS_INPUTS]){logits, targets}, 1);
    if (m->st == WEFT_OK)
        m->st = m->b->scalar(m->b->ctx, "scale", 0, &scale);
    if (m->st == WEFT_OK)
        m->st = m->b->op(m->b->ctx, "softmax_xent", &weight, 1,
                         (weft_tensor[]){logits, targets, scale}, 3, 0, out, 2);
    return out[1];
}
