/* ulysses: attention over sequences that are cut among ranks, by all-to-all (Jacobs et al.,
 * "DeepSpeed Ulysses", 2023), as a third party would write it.
 *
 * The coordinates of the mesh axis "cp" have consecutive parts of the same sequences. Everything in
 * a transformer works on each token for itself, except attention, which works on each head for
 * itself:
 *
 *   all-to-all    queries, keys and values: all heads of some tokens -> some heads of all tokens
 *   attention     of those heads, as it was
 *   all-to-all    its result: back to all heads of some tokens
 *
 * Rotary embeddings, which need a token's position in its sequence, move to the same place. Nothing
 * is written of the backward pass: the gradient of an all-to-all is the one back.
 *
 * Cost: a rank sends (cp - 1) / cp of its queries, keys, values and results, once a block and pass
 * forward and once backward; a ring sends all keys and values cp - 1 times. It loses where cp has
 * to be larger than the heads of keys and values allow, which it divides. */
#include <string.h>
#include <weft/coll.h>
#include <weft/plugin.h>
#include <weft/strategy.h>

#define AXIS "cp"

static const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_SEQUENCE, AXIS, AXIS,
                                    "ranks that each have a part of every sequence"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};

static weft_status all_to_all(const weft_builder *b, const char *cut, weft_tensor in,
                              weft_tensor *out)
{
    const weft_comm_args args = {sizeof args, 0, WEFT_ALL_TO_ALL, 0, AXIS, cut, 0, 0};
    return b->comm(b->ctx, &args, in, out);
}

/* [tokens, ..., heads, head_dim]: from parts of the tokens to parts of the heads. */
static weft_status to_heads(const weft_builder *b, weft_tensor in, weft_tensor *out)
{
    weft_shape s;
    weft_status st = b->shape(b->ctx, in, &s);
    return st ? st : all_to_all(b, s.axes[s.rank - 2].name, in, out);
}

/* Rotary embedding of some heads of all tokens; its result stays like that for attention. */
static weft_status emit_rope(void *user, const weft_builder *b)
{
    const weft_opcall *old = user;
    weft_tensor x, y;
    weft_status st = to_heads(b, old->in[0], &x);
    if (!st)
        st = b->op(b->ctx, "rope", old->attrs, old->nattr, &x, 1, 0, &y, 1);
    return st ? st : b->assign(b->ctx, old->out[0], y, 0);
}

/* Queries, keys and values are one input; or three, of which rotary embeddings have moved two. */
static weft_status emit_attention(void *user, const weft_builder *b)
{
    const weft_opcall *old = user;
    weft_tensor in[3], out[2], y;
    weft_shape s;
    memcpy(in, old->in, old->nin * sizeof *in);
    weft_status st = to_heads(b, in[old->nin - 1], &in[old->nin - 1]);
    if (!st)
        st = b->op(b->ctx, "attention", old->attrs, old->nattr, in, old->nin, 0, out, 2);
    if (!st)
        st = b->shape(b->ctx, out[0], &s);
    if (!st)
        st = all_to_all(b, s.axes[0].name, out[0], &y);
    return st ? st : b->assign(b->ctx, old->out[0], y, 0);
}

static weft_status replace_all(const weft_host *host, const weft_view *view,
                               const weft_edits *edits)
{
    const uint32_t ops = view->ops(view->ctx);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; !st && i < ops; i++) {
        const char *id;
        weft_opcall call = {.struct_size = sizeof call};
        st = view->op(view->ctx, i, &id, &call);
        if (!st && !strcmp(id, "rope"))
            st = edits->replace(edits->ctx, i, 0, emit_rope, &call);
        else if (!st && !strcmp(id, "attention") && call.nin % 2 == 0)
            st = host->fail(host->ctx, WEFT_UNSUPPORTED,
                            "acme.ulysses does not keep attention within documents: data.documents "
                            "= joined");
        else if (!st && !strcmp(id, "attention"))
            st = edits->replace(edits->ctx, i, 0, emit_attention, &call);
    }
    return st;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)conf;
    if (view->mesh(view->ctx, AXIS) < 2)
        return WEFT_OK;
    if (phase == WEFT_PHASE_SYNC)
        return edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_LAST, 0, 0);
    if (phase != WEFT_PHASE_SPLIT)
        return WEFT_OK;
    weft_status st = edits->split(edits->ctx, "@input", "tokens", AXIS, 0);
    return st ? st : replace_all(module, view, edits);
}

static const weft_strategy strategy = {.struct_size = sizeof strategy, .axes = axes, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "acme.ulysses",
                                         .help = "cuts sequences among ranks, and heads for "
                                                 "attention",
                                         .table = &strategy};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.ulysses", "1", "", components, weft_open_host, NULL);
