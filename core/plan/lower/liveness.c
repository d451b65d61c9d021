/* plan/lower/liveness.c: which tensors share memory, which a block saves, live-ins and live-outs.
 *
 * An output shares the memory of its input if the op can work in place and is the input's last
 * reader. A tensor that a block's forward produces and its backward reads is saved in the block's
 * slot. A tensor that two blocks use is a live-in or live-out of both. */
#include "plan/builder.h"
#include "plan/lower/repack.h"

weft_tensor plan_root_of(const plan_builder *b, weft_tensor t)
{
    while (b->live.root[t] != t)
        t = b->live.root[t];
    return t;
}

bool plan_node_adds(const plan_builder *b, uint32_t at, bool first)
{
    const graph_node *n = &b->g->nodes.at[at];
    bool sum = false, adds = false;
    for (uint32_t k = 0; k < n->nout; k++) {
        const plan_flat_param *p = plan_flat_of_grad(b->f, b->g, n->out[k]);
        sum |= graph_tensor_at(b->g, n->out[k])->sum;
        first |= p && b->f->blocks.at[p->block].level >= FLAT_GRADS; /* in each micro-batch */
        adds |= p && p->adds;
    }
    return sum && (adds || !(first && b->live.first_sum[at]));
}

weft_operand plan_lower_operand(const graph *g, weft_tensor t)
{
    weft_shape s = graph_local_shape(g, t);
    weft_operand o = {.dtype = s.dtype, .rank = s.rank};
    for (uint32_t i = 0; i < s.rank; i++)
        o.size[i] = s.axes[i].size;
    return o;
}

/* k > 0: the output may share the memory of input k - 1. A collective that packs and unpacks, or
 * neither, would overwrite parts of an all-to-all that it has not sent. */
static uint32_t in_place(const graph *g, const graph_node *n)
{
    if (!n->comm)
        return n->op ? n->op->in_place : 0;
    plan_repack r;
    plan_repack_find(g, n, &r);
    return n->comm != WEFT_SHIFT && (n->comm != WEFT_ALL_TO_ALL || r.packs != r.unpacks);
}

static void share_places(plan_builder *b)
{
    graph *g = b->g;
    uint32_t *last = pool_array(&g->pool, g->tensors.n + 1, sizeof *last);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i].nin; k++)
            last[g->nodes.at[i].in[k]] = i;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        uint32_t k = in_place(g, n);
        if (!k || k > n->nin)
            continue;
        weft_tensor from = n->in[k - 1], to = n->out[0];
        const graph_tensor *f = graph_tensor_at(g, from), *t = graph_tensor_at(g, to);
        bool twice = false;
        for (uint32_t j = 0; j < n->nin; j++)
            twice |= j != k - 1 && n->in[j] == from;
        if (f->kind == WEFT_T_ACTIVATION && t->kind == WEFT_T_ACTIVATION && last[from] == i &&
            f->producer && f->block == n->block && !twice &&
            graph_local_bytes(g, from) == graph_local_bytes(g, to))
            b->live.root[to] = plan_root_of(b, from);
    }
}

typedef struct usage { /* of a root tensor over the whole graph */
    uint32_t block;
    uint8_t forward, backward; /* used in these parts of its own block */
    uint8_t elsewhere;         /* used by another block */
} usage;

static void note(plan_builder *b, usage *u, weft_tensor t, const graph_node *n)
{
    usage *x = &u[plan_root_of(b, t)];
    if (x->block == UINT32_MAX)
        x->block = n->block;
    else if (x->block != n->block)
        x->elsewhere = 1;
    if (n->phase == PHASE_FORWARD)
        x->forward = 1;
    else
        x->backward = 1;
}

void plan_liveness_find(plan_builder *b)
{
    graph *g = b->g;
    uint32_t n = g->tensors.n + 1;
    b->live.root = pool_array(&g->pool, n, sizeof *b->live.root);
    b->live.saved = pool_array(&g->pool, g->blocks.n, sizeof *b->live.saved);
    b->live.saved_at = pool_array(&g->pool, n, sizeof *b->live.saved_at);
    b->live.first_sum = pool_array(&g->pool, g->nodes.n, sizeof *b->live.first_sum);
    b->live.reads = pool_array(&g->pool, n, sizeof *b->live.reads);
    for (uint32_t t = 0; t < n; t++) {
        b->live.root[t] = t;
        b->live.saved_at[t] = LIVE_FRAME;
    }
    share_places(b);
    usage *u = pool_array(&g->pool, n, sizeof *u);
    bool *summed = pool_array(&g->pool, n, sizeof *summed);
    for (uint32_t t = 0; t < n; t++)
        u[t].block = UINT32_MAX;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *x = &g->nodes.at[i];
        for (uint32_t k = 0; k < x->nin; k++)
            if (!graph_node_shape_only(x, k)) {
                note(b, u, x->in[k], x);
                b->live.reads[x->in[k]]++;
            }
        for (uint32_t k = 0; k < x->nout; k++) {
            note(b, u, x->out[k], x);
            b->live.first_sum[i] |= graph_tensor_at(g, x->out[k])->sum && !summed[x->out[k]];
        }
        for (uint32_t k = 0; k < x->nout; k++)
            summed[x->out[k]] |= plan_stage_here(b->stages, x->block);
    }
    if (b->live.result)
        u[b->live.root[b->live.result]].elsewhere = 1;
    for (weft_tensor t = 1; t < n; t++) {
        const bool own = graph_tensor_at(g, t)->kind == WEFT_T_ACTIVATION && b->live.root[t] == t;
        if (u[t].elsewhere) {
            b->live.saved_at[t] = LIVE_INOUT;
        } else if (own && u[t].forward && u[t].backward) {
            b->live.saved_at[t] = b->live.saved[u[t].block];
            b->live.saved[u[t].block] += (graph_local_bytes(g, t) + 63) & ~(uint64_t)63;
        }
    }
}
