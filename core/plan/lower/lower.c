/* plan/lower/lower.c: lowers a block's forward or backward to instructions with addressed operands.
 *
 * The readers of a tensor determine its address:
 *
 *   parameter, gradient   its region; relative to the block when it is the block's own
 *   saved                 produced by the block's forward, read by its backward: the block's slot
 *   live-in, live-out     read or produced by another block, or an input: a base of its own
 *   frame                 everything else: temporaries of the call
 *
 * An output shares the memory of its input if the op can work in place and is its last reader. */
#include "plan/lower/lower.h"

#include "base/err.h"
#include "plan/emit.h"
#include "plan/lower/fusion.h"
#include "plan/lower/repack.h"
#include "plan/position.h"
#include "plan/scalar.h"

#include <stdlib.h>
#include <string.h>

/* --- one call --- */

typedef struct lowering {
    plan_builder *b;
    plan_lowered_block *r;
    pool memory;
    const char *name; /* of its segments */
    uint32_t seg;     /* the open one; UINT32_MAX: none */
    uint32_t *nodes, nnodes;
    plan_unit_list units;     /* the nodes after fusion */
    VEC(plan_lifetime) frame; /* what: the tensor; 0: the temporary of communication */
    bool first;
} lowering;

static bool is_inout(const plan_builder *b, weft_tensor root)
{
    const graph_tensor *t = graph_tensor_at(b->g, root);
    return t->kind == WEFT_T_INPUT || t->kind == WEFT_T_STATE ||
           b->live.saved_at[root] == LIVE_INOUT;
}

static bool in_frame(const plan_builder *b, weft_tensor root)
{
    return graph_tensor_at(b->g, root)->kind == WEFT_T_ACTIVATION &&
           b->live.saved_at[root] == LIVE_FRAME;
}

/* Where the frame has the tensor; NULL: not yet. */
static plan_lifetime *find_in_frame(const lowering *l, weft_tensor root)
{
    for (uint32_t i = 0; i < l->frame.n; i++)
        if (l->frame.at[i].what == root)
            return &l->frame.at[i];
    return NULL;
}

static void frame_touch(lowering *l, weft_tensor t, uint32_t when)
{
    weft_tensor root = plan_root_of(l->b, t);
    if (!in_frame(l->b, root))
        return;
    plan_lifetime *x = find_in_frame(l, root);
    if (x)
        x->to = when;
    else
        *vec_push(&l->frame) =
            (plan_lifetime){graph_local_bytes(l->b->g, root), 0, when, when, root};
}

/* The temporary of communication that packs or unpacks: at unit `when` alone. */
static void frame_repack(lowering *l, const graph_node *n, uint32_t when)
{
    plan_repack r;
    plan_repack_find(l->b->g, n, &r);
    if (r.bytes)
        *vec_push(&l->frame) = (plan_lifetime){r.bytes, 0, when, when, 0};
}

static void place_frame(lowering *l)
{
    for (uint32_t i = 0; i < l->units.n; i++) {
        const plan_unit *u = &l->units.at[i];
        const graph_node *n = &l->b->g->nodes.at[u->node[0]];
        if (n->comm)
            frame_repack(l, n, i);
        for (uint32_t k = 0; k < u->nin; k++)
            if (!graph_node_shape_only(n, k))
                frame_touch(l, u->in[k], i);
        for (uint32_t k = 0; k < u->nout; k++)
            if (u->out[k])
                frame_touch(l, u->out[k], i);
    }
    l->r->frame = plan_lifetimes_place(l->frame.at, l->frame.n);
}

/* The base of a live-in or live-out. */
static weft_status inout_ref(lowering *l, const plan_live_inout *c, uint32_t *base)
{
    plan_lowered_block *r = l->r;
    for (uint32_t i = 0; i < r->ninout; i++)
        if (r->inout[i].tensor == c->tensor && r->inout[i].flat_block == c->flat_block &&
            r->inout[i].grad == c->grad) {
            *base = BASE_FIRST + i;
            return WEFT_OK;
        }
    if (BASE_FIRST + r->ninout == MAX_BASES)
        return err_fail(WEFT_UNSUPPORTED, "a block exchanges more than %u tensors with others",
                        MAX_BASES - BASE_FIRST);
    r->inout[r->ninout] = *c;
    *base = BASE_FIRST + r->ninout++;
    return WEFT_OK;
}

static weft_status ref_param(lowering *l, const char *name, bool grad, plan_ref *out)
{
    const plan_flat *f = l->b->f;
    const plan_flat_param *p = plan_flat_find(f, name);
    if (!p)
        return err_fail(WEFT_INTERNAL, "parameter %s has no place", name);
    uint64_t size = grad ? f->grad_size : f->compute_size;
    const char *here = l->b->g->blocks.at[l->b->g->nodes.at[l->nodes[0]].block];
    *out = (plan_ref){grad ? BASE_GRAD : BASE_PARAM, 0,
                      (p->first - f->blocks.at[p->block].first) * size};
    if (strcmp(f->blocks.at[p->block].name, here))
        return inout_ref(l, &(plan_live_inout){0, p->block, grad}, &out->base);
    l->r->params |= !grad;
    l->r->grads |= grad;
    return WEFT_OK;
}

static weft_status ref_of(lowering *l, weft_tensor t, plan_ref *out)
{
    plan_builder *b = l->b;
    const graph_tensor *x = graph_tensor_at(b->g, t);
    if (x->kind == WEFT_T_PARAM)
        return ref_param(l, x->name, false, out);
    if (x->kind == WEFT_T_GRAD)
        return ref_param(l, graph_tensor_at(b->g, x->of)->name, true, out);
    if (x->kind == WEFT_T_SCALAR) {
        uint64_t at = plan_scalar_offset(b->p, x->name, x->constant ? x->value : 0);
        *out = (plan_ref){BASE_ABSOLUTE, 0, at};
        return WEFT_OK;
    }
    weft_tensor root = plan_root_of(b, t);
    if (is_inout(b, root)) {
        *out = (plan_ref){0, 0, 0};
        return inout_ref(l, &(plan_live_inout){root, 0, 0}, &out->base);
    }
    if (b->live.saved_at[root] != LIVE_FRAME) {
        *out = (plan_ref){BASE_SAVED, 0, b->live.saved_at[root]};
        return WEFT_OK;
    }
    const plan_lifetime *place = find_in_frame(l, root);
    if (!place)
        return err_fail(WEFT_INTERNAL, "tensor %s has no place", x->name);
    *out = (plan_ref){BASE_FRAME, 0, place->offset};
    return WEFT_OK;
}

/* Make a one-step program of a single elementwise op. */
static void single_step(const graph_node *n, weft_ew_step *step, uint16_t *reg, weft_ew_program *p)
{
    *step = (weft_ew_step){(uint16_t)n->op->ew, (uint16_t)n->nin, 0, 1, 2, 0, 0};
    step->b = n->nin > 1 ? 1 : 0;
    step->c = n->nin > 2 ? 2 : 0;
    *reg = (uint16_t)n->nin;
    *p = (weft_ew_program){sizeof *p, 1, n->nin + 1, -1, step, reg};
}

/* The number of the open segment, which begins here if there is none. */
static uint32_t segment(lowering *l)
{
    if (l->seg == UINT32_MAX)
        l->seg = plan_segment_begin(l->b->p, l->name);
    return l->seg;
}

static weft_status lower_compute(lowering *l, const plan_unit *u)
{
    const graph *g = l->b->g;
    const graph_node *n = &g->nodes.at[u->node[0]];
    plan_ref refs[2 * WEFT_MAX_OPERANDS];
    plan_unit_call c;
    double flops = 0;
    for (uint32_t m = 0; m < u->n; m++) {
        const graph_node *member = &g->nodes.at[u->node[m]];
        flops += member->recomputed ? 0 : graph_node_flops(g, member);
    }
    for (uint32_t k = 0; k < u->nin + u->nout; k++) {
        const weft_tensor t = k < u->nin ? u->in[k] : u->out[k - u->nin];
        const bool absent = !t || (k < u->nin && graph_node_shape_only(n, k));
        refs[k] = (plan_ref){BASE_ABSOLUTE, 1, 0};
        weft_status st = absent ? WEFT_OK : ref_of(l, t, &refs[k]);
        if (st != WEFT_OK)
            return st;
    }
    plan_unit_spec(l->b, u, plan_node_adds(l->b, u->node[0], l->first), &c);
    weft_ew_step step;
    uint16_t reg;
    weft_ew_program program;
    if (n->op->flags & WEFT_OP_ELEMENTWISE) { /* never fused, nor is what has a position */
        single_step(n, &step, &reg, &program);
        c.op.id = "ew";
        c.op.program = &program;
    }
    uint64_t begins[WEFT_MAX_MESH];
    weft_attr attrs[POSITION_ATTRS];
    const uint32_t nattr = plan_position(l->b->p, g, n, NULL, attrs, begins);
    if (nattr) {
        c.op.attrs = attrs;
        c.op.nattr = nattr;
    }
    return plan_segment_add(l->b->p, segment(l), &c.op, flops, refs, begins);
}

static weft_status add_repack(lowering *l, const plan_repack *r, const int64_t from[3],
                              const plan_ref refs[2])
{
    weft_operand io[2];
    const weft_opspec op = plan_repack_spec(r, from, io);
    return plan_segment_add(l->b->p, segment(l), &op, 0, refs, NULL);
}

static void end_segment(lowering *l)
{
    if (l->seg == UINT32_MAX)
        return;
    const uint32_t number = plan_segment_end(l->b->p, l->seg, BASE_FIRST + l->r->ninout);
    *vec_push(&l->r->items) = (plan_item){.segment = number};
    l->seg = UINT32_MAX;
}

/* The address of the temporary at unit `when`. */
static plan_ref temporary(const lowering *l, uint32_t when)
{
    uint32_t i = 0;
    while (l->frame.at[i].what || l->frame.at[i].from != when)
        i++;
    return (plan_ref){BASE_FRAME, 0, l->frame.at[i].offset};
}

/* Before communication over a group all ranks copy: those outside the group keep what they have. */
static weft_status add_group_copy(lowering *l, const graph_node *n, const plan_ref refs[2])
{
    const weft_operand io[2] = {plan_lower_operand(l->b->g, n->in[0]),
                                plan_lower_operand(l->b->g, n->out[0])};
    const weft_opspec op = plan_copy_spec(io);
    return plan_segment_add(l->b->p, segment(l), &op, 0, refs, NULL);
}

/* Communication, with the copies before and after it (repack.h). The second copy begins the segment
 * that follows. With both copies the first goes straight to the output, and the temporary is what
 * arrives. */
static weft_status lower_comm(lowering *l, const graph_node *n, uint32_t when)
{
    plan_repack r;
    plan_ref in, out;
    plan_repack_find(l->b->g, n, &r);
    if (!r.packs && !n->group)
        end_segment(l);
    weft_status st = ref_of(l, n->in[0], &in);
    if (st == WEFT_OK)
        st = ref_of(l, n->out[0], &out);
    const plan_ref temp = r.bytes ? temporary(l, when) : (plan_ref){0};
    const plan_ref from = !r.packs ? in : r.unpacks ? out : temp, to = r.unpacks ? temp : out;
    if (st == WEFT_OK && r.packs)
        st = add_repack(l, &r, r.pack, (plan_ref[]){in, from});
    if (st == WEFT_OK && n->group)
        st = add_group_copy(l, n, (plan_ref[]){in, out});
    end_segment(l);
    *vec_push(&l->r->items) =
        (plan_item){.comm = n, .in = n->group && n->comm != WEFT_SHIFT ? to : from, .out = to};
    return st != WEFT_OK || !r.unpacks ? st : add_repack(l, &r, r.unpack, (plan_ref[]){temp, out});
}

weft_status plan_lower_block(plan_builder *b, uint32_t block, uint32_t phases, bool first,
                             const char *name, plan_lowered_block *out)
{
    lowering l = {.b = b, .r = out, .name = name, .seg = UINT32_MAX, .first = first};
    *out = (plan_lowered_block){0};
    l.nodes = pool_array(&l.memory, b->g->nodes.n, sizeof *l.nodes);
    for (uint32_t i = 0; i < b->g->nodes.n; i++)
        if (b->g->nodes.at[i].block == block && (phases >> b->g->nodes.at[i].phase & 1))
            l.nodes[l.nnodes++] = i;
    weft_status st = plan_fuse_nodes(b, l.nodes, l.nnodes, first, &l.memory, &l.units);
    place_frame(&l);
    for (uint32_t i = 0; st == WEFT_OK && i < l.units.n; i++) {
        const graph_node *n = &b->g->nodes.at[l.units.at[i].node[0]];
        st = n->comm ? lower_comm(&l, n, i) : lower_compute(&l, &l.units.at[i]);
    }
    if (st == WEFT_OK)
        end_segment(&l);
    else
        err_context("block %s", b->g->blocks.at[block]);
    free(l.frame.at);
    pool_free(&l.memory);
    return st;
}
