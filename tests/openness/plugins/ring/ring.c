/* ring: attention over sequences that are cut among ranks (Liu et al., "Ring attention with
 * blockwise transformers", 2023), as a third party would write it.
 *
 * The coordinates of the mesh axis "cp" have consecutive parts of the same sequences. Everything in
 * a transformer works on each token for itself, except attention, which is replaced by
 *
 *   round r = 0 .. cp - 1:  the own queries look at the keys and values of coordinate c - r;
 *                           the result is merged with that of the rounds before (op.c);
 *                           keys and values move one coordinate further
 *
 * The gradient is derived round by round: that of what has moved moves back along the ring and is
 * added up where it came from. Nothing of it is written here.
 *
 * Causal attention lets coordinate 0 work in one round only, while the last works in all: half of
 * the time is waiting, which parts in zigzag order would mend. Queries travel with keys and values,
 * a third of the bytes for nothing, since they are in one tensor. Backward keeps what has moved: of
 * each sequence every rank has all keys and values of a block then. */
#include "ring.h"

#include <stdio.h>

#define AXIS "cp"

static const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_SEQUENCE, AXIS, AXIS,
                                    "ranks that each have a part of every sequence"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};

typedef struct ring {
    const weft_opcall *call;
    uint32_t ranks;
} ring;

static weft_status emit(void *user, const weft_builder *b)
{
    const ring *g = user;
    const weft_opcall *old = g->call;
    const int64_t sequence = ring_attr(old->attrs, old->nattr, "sequence");
    const int64_t causal = ring_attr(old->attrs, old->nattr, "causal");
    weft_tensor in[LATER_ROUND] = {old->in[0], old->in[0]}, out[OUTPUTS];
    weft_status st = WEFT_OK;
    for (uint32_t r = 0; !st && r < g->ranks; r++) {
        const weft_attr attrs[] = {{.key = "sequence", .i = sequence},
                                   {.key = "causal", .i = causal},
                                   {.key = "round", .i = r},
                                   {.key = "rounds", .i = g->ranks}};
        if (r)
            st = b->comm(
                b->ctx,
                &(weft_comm_args){sizeof(weft_comm_args), 0, WEFT_SHIFT, 0, AXIS, NULL, 1, 0},
                in[MOVED], &in[MOVED]);
        if (!st)
            st =
                b->op(b->ctx, ATTEND, attrs, 4, in, r ? LATER_ROUND : FIRST_ROUND, 0, out, OUTPUTS);
        in[Y_BEFORE] = out[Y];
        in[LSE_BEFORE] = out[LSE];
    }
    for (uint32_t k = 0; !st && k < OUTPUTS; k++)
        st = b->assign(b->ctx, old->out[k], out[k], 0);
    return st;
}

static weft_status replace_all(const weft_host *host, const weft_view *view,
                               const weft_edits *edits, uint32_t ranks)
{
    weft_status st = WEFT_OK;
    uint32_t ops = view->ops(view->ctx);
    for (uint32_t i = 0; !st && i < ops; i++) {
        const char *id;
        weft_opcall call = {.struct_size = sizeof call};
        st = view->op(view->ctx, i, &id, &call);
        if (st || strcmp(id, "attention"))
            continue;
        if (call.nin == 2)
            return host->fail(host->ctx, WEFT_UNSUPPORTED,
                              "acme.ring does not keep attention within documents: data.documents "
                              "= joined");
        if (call.nin != 1)
            return host->fail(host->ctx, WEFT_UNSUPPORTED,
                              "acme.ring takes queries, keys and values in one tensor: "
                              "model.family = gpt2");
        ring g = {&call, ranks};
        st = edits->replace(edits->ctx, i, 0, emit, &g);
    }
    return st;
}

/* A part of the tokens of a pass is a part of one sequence: sizes are those of a rank by now. */
static weft_status check_parts(const weft_host *host, const weft_view *view, uint32_t ranks)
{
    weft_status st = WEFT_OK;
    uint32_t ops = view->ops(view->ctx);
    for (uint32_t i = 0; !st && i < ops; i++) {
        const char *id;
        weft_opcall call = {.struct_size = sizeof call};
        weft_tensor_info qkv = {.struct_size = sizeof qkv};
        st = view->op(view->ctx, i, &id, &call);
        if (st || strcmp(id, ATTEND))
            continue;
        st = view->tensor(view->ctx, call.in[QKV], &qkv);
        int64_t sequence = ring_attr(call.attrs, call.nattr, "sequence");
        if (st || qkv.shape.axes[0].size * ranks == sequence)
            continue;
        char text[256];
        snprintf(text, sizeof text,
                 "acme.ring: a rank has %lld tokens of a pass, and has to have a part of one "
                 "sequence, 1 / %u of %lld tokens: say train.microbatch = 1",
                 (long long)qkv.shape.axes[0].size, ranks, (long long)sequence);
        st = host->fail(host->ctx, WEFT_USAGE, text);
    }
    return st;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)conf;
    const uint32_t ranks = view->mesh(view->ctx, AXIS);
    weft_status st = WEFT_OK;
    if (ranks < 2)
        return WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT) {
        st = edits->split(edits->ctx, "@input", "tokens", AXIS, 0);
        return st ? st : replace_all(module, view, edits, ranks);
    }
    if (phase != WEFT_PHASE_SYNC)
        return WEFT_OK;
    st = check_parts(module, view, ranks);
    return st ? st : edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_LAST, 0, 0);
}

static const weft_strategy strategy = {.struct_size = sizeof strategy, .axes = axes, .edit = edit};

#define COMPONENT(member, kind, title, text, what)                                                 \
    static const weft_component member = {.struct_size = sizeof member,                            \
                                          .iface = kind,                                           \
                                          .name = title,                                           \
                                          .help = text,                                            \
                                          .table = &(what)}
COMPONENT(the_strategy, "weft.strategy/1", "acme.ring", "cuts sequences among ranks", strategy);
COMPONENT(the_op, "weft.op/1", ATTEND, "one round of ring attention", ring_attend);
COMPONENT(the_gradient, "weft.op/1", ATTEND_DX, "its gradient", ring_attend_dx);
COMPONENT(the_kernel, "weft.kernel/1", "acme.ring.cpu", "plain loops", ring_cpu);
COMPONENT(its_kernel, "weft.kernel/1", "acme.ring.cpu.dx", "plain loops", ring_cpu_dx);
static const weft_component *const components[] = {&the_strategy, &the_op,     &the_gradient,
                                                   &the_kernel,   &its_kernel, NULL};

WEFT_PLUGIN("org.acme.ring", "1", "", components, weft_open_host, NULL);
