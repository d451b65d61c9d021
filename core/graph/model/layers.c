/* graph/model/layers.c: see layers.h. */
#include "graph/model/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft/random.h>

void graph_layer_block(graph_layers *m, const char *name)
{
    if (m->st == WEFT_OK)
        m->st = m->b->block(m->b->ctx, name, 0);
}

weft_tensor graph_layer_input(graph_layers *m, const char *name)
{
    weft_shape shape = {.dtype = WEFT_I32, .rank = 1};
    shape.axes[0] = (weft_axis){"tokens", m->o->batch * m->o->sequence};
    weft_tensor out = 0;
    if (m->st == WEFT_OK)
        m->st = m->b->input(m->b->ctx, &(weft_input_args){sizeof(weft_input_args), 0, name, &shape},
                            &out);
    return out;
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

weft_tensor graph_layer_param(graph_layers *m, const char *name, uint32_t rank,
                              const weft_axis *axes, const char *init)
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

weft_tensor graph_layer_op(graph_layers *m, const char *id, const weft_attr *attrs, uint32_t nattr,
                           const weft_tensor in[GRAPH_LAYER_INPUTS], uint32_t nout)
{
    uint32_t nin = 0;
    while (nin < GRAPH_LAYER_INPUTS && in[nin])
        nin++;
    weft_tensor out[WEFT_MAX_OPERANDS] = {0};
    if (m->st == WEFT_OK)
        m->st = m->b->op(m->b->ctx, id, attrs, nattr, in, nin, 0, out, nout);
    return out[0];
}

weft_tensor graph_layer_linear(graph_layers *m, weft_tensor x, weft_tensor w, weft_tensor b)
{
    return graph_layer_op(m, "linear", NULL, 0, (weft_tensor[GRAPH_LAYER_INPUTS]){x, w, b}, 1);
}

static weft_tensor add(graph_layers *m, weft_tensor x, weft_tensor y)
{
    return graph_layer_op(m, "add", NULL, 0, (weft_tensor[GRAPH_LAYER_INPUTS]){x, y}, 1);
}

weft_tensor graph_layer_dropout(graph_layers *m, const char *name, weft_tensor x, weft_tensor b,
                                weft_tensor r)
{
    char stream[WEFT_MAX_NAME];
    weft_expr e = {m->b, m->st};
    snprintf(stream, sizeof stream, "%s%s", m->prefix, name);
    const weft_attr attrs[] = {WEFT_ATTR_INT("stream", weft_stream_of(stream)),
                               WEFT_ATTR_REAL("p", m->o->dropout)};
    if (m->o->dropout == 0 || m->o->want != MODEL_TRAIN) {
        const weft_tensor in[GRAPH_LAYER_INPUTS] = {x, b, r};
        return b ? graph_layer_op(m, "bias_residual", NULL, 0, in, 1) : r ? add(m, r, x) : x;
    }
    const weft_tensor in[GRAPH_LAYER_INPUTS] = {x, weft_first_token(&e), b, r};
    m->st = e.st;
    x = graph_layer_op(m, "dropout", attrs, 2, in, 1);
    return !b && r ? add(m, r, x) : x;
}

void graph_layer_begin(graph_layers *m, int64_t i, char prefix[GRAPH_LAYER_PREFIX])
{
    char block[GRAPH_LAYER_PREFIX - 1];
    snprintf(block, sizeof block, "block.%lld", (long long)i);
    snprintf(prefix, GRAPH_LAYER_PREFIX, "%s.", block);
    m->prefix = prefix;
    graph_layer_block(m, block);
}

void graph_layer_residual_init(const graph_model_options *o, char init[48])
{
    snprintf(init, 48, "normal:%.17g", 0.02 / sqrt(2.0 * (double)o->layers));
}

weft_tensor graph_layer_loss(graph_layers *m, weft_tensor logits)
{
    weft_attr weight = {.key = "weight", .f = m->o->weight};
    weft_tensor scale = 0, out[2] = {0};
    if (m->o->want == MODEL_LOGITS)
        return logits;
    weft_tensor targets = graph_layer_input(m, "targets");
    if (m->o->want == MODEL_EVAL)
        return graph_layer_op(m, "softmax_xent.loss", &weight, 1,
                              (weft_tensor[GRAPH_LAYER_INPUTS]){logits, targets}, 1);
    if (m->st == WEFT_OK)
        m->st = m->b->scalar(m->b->ctx, "scale", 0, &scale);
    if (m->st == WEFT_OK)
        m->st = m->b->op(m->b->ctx, "softmax_xent", &weight, 1,
                         (weft_tensor[]){logits, targets, scale}, 3, 0, out, 2);
    return out[1];
}
