/* A strategy beside tp that moves what tp splits to another axis and back, by communication over
 * tp's mesh axis, in a GPT-2:
 *
 *   hidden values   heads of the ffn -> tokens -> ffn     (unpacked; packed)
 *   attention       heads -> head_dim -> heads            (packed and unpacked, twice)
 *   partial sums    reduce-scattered along `embed` and gathered there, in place of an all-reduce
 *
 * Between the ways an op copies, so that both directions of each have something to carry. Nothing
 * changes but where elements lie: two ranks have the bits that tp alone has. */
#include <string.h>
#include <weft/coll.h>
#include <weft/plugin.h>
#include <weft/strategy.h>

#define AXIS "tp"

static weft_status communicate(const weft_builder *b, uint32_t kind, uint32_t redop,
                               const char *axis, weft_tensor in, weft_tensor *out)
{
    const weft_comm_args args = {sizeof args, 0, kind, redop, AXIS, axis, 0, 0};
    return b->comm(b->ctx, &args, in, out);
}

static weft_status turn(const weft_builder *b, weft_tensor in, const char *axis, weft_tensor *out)
{
    return communicate(b, WEFT_ALL_TO_ALL, 0, axis, in, out);
}

/* Cut `there`, copy, and cut `back` again. */
static weft_status round_trip(const weft_builder *b, weft_tensor in, const char *there,
                              const char *back, weft_tensor *out)
{
    weft_tensor t = 0, copied = 0;
    weft_status st = turn(b, in, there, &t);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "copy", NULL, 0, &t, 1, 0, &copied, 1);
    return st == WEFT_OK ? turn(b, copied, back, out) : st;
}

static weft_status emit_gelu(void *user, const weft_builder *b)
{
    const weft_opcall *old = user;
    weft_tensor y, z = 0;
    weft_status st = b->op(b->ctx, "gelu", old->attrs, old->nattr, old->in, old->nin, 0, &y, 1);
    if (st == WEFT_OK)
        st = round_trip(b, y, "tokens", "ffn", &z);
    return st == WEFT_OK ? b->assign(b->ctx, old->out[0], z, 0) : st;
}

static weft_status emit_attention(void *user, const weft_builder *b)
{
    const weft_opcall *old = user;
    weft_tensor in[2] = {0, old->nin > 1 ? old->in[1] : 0}, out[2] = {0};
    weft_status st = round_trip(b, old->in[0], "head_dim", "heads", &in[0]);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "attention", old->attrs, old->nattr, in, old->nin, 0, out, 2);
    return st == WEFT_OK ? b->assign(b->ctx, old->out[0], out[0], 0) : st;
}

static weft_status emit_residual(void *user, const weft_builder *b)
{
    const weft_opcall *old = user;
    weft_tensor in[3] = {old->in[0], old->in[1], old->in[2]}, y;
    weft_status st = communicate(b, WEFT_REDUCE_SCATTER, WEFT_SUM, "embed", in[0], &in[0]);
    if (st == WEFT_OK)
        st = communicate(b, WEFT_ALL_GATHER, 0, "embed", in[0], &in[0]);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "bias_residual", old->attrs, old->nattr, in, 3, 0, &y, 1);
    return st == WEFT_OK ? b->assign(b->ctx, old->out[0], y, 0) : st;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    static const struct {
        const char *id;
        weft_emit emit;
    } parts[] = {
        {"gelu", emit_gelu}, {"attention", emit_attention}, {"bias_residual", emit_residual}};
    (void)module, (void)conf;
    const uint32_t ops = view->mesh(view->ctx, AXIS) < 2 ? 0 : view->ops(view->ctx);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; phase == WEFT_PHASE_SPLIT && st == WEFT_OK && i < ops; i++) {
        const char *id;
        weft_opcall call = {.struct_size = sizeof call};
        st = view->op(view->ctx, i, &id, &call);
        for (uint32_t k = 0; st == WEFT_OK && k < 3; k++)
            if (!strcmp(id, parts[k].id))
                st = edits->replace(edits->ctx, i, 0, parts[k].emit, &call);
    }
    return st;
}

static const weft_strategy strategy = {.struct_size = sizeof strategy, .edit = edit};
static const weft_component turns = {.struct_size = sizeof turns,
                                     .iface = "weft.strategy/1",
                                     .name = "test.turns",
                                     .help = "moves what tp splits",
                                     .table = &strategy};
static const weft_component *const components[] = {&turns, NULL};

WEFT_PLUGIN("weft.test.turns", "0", "", components, weft_open_host, NULL);
