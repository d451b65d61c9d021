/* plan/lower/micro_batches.c: turns the order of blocks and micro-batches into a list.
 *
 * By default micro-batches run one after another, forward through all blocks and backward in
 * reverse; a strategy can order a stage differently. Saved slots, live-ins and live-outs are
 * allocated from the zone of activations at their first use in the list and freed after the last,
 * so the peak follows from the order. */
#include "plan/lower/walk.h"

#include "base/err.h"
#include "plan/collective.h"
#include "plan/emit.h"
#include "plan/lower/sync.h"

#include <stdlib.h>
#include <string.h>

/* --- the order of work --- */

static weft_status lower_all(plan_list_builder *w)
{
    const graph *g = w->b->g;
    uint32_t variants = w->micro_batches > 1 ? 2 : 1;
    for (uint32_t i = 0; i < g->blocks.n; i++)
        for (uint32_t backward = 0; backward <= (w->train ? 1u : 0u); backward++)
            for (uint32_t v = 0; v < variants && plan_stage_here(w->b->stages, i); v++) {
                const plan_block_pass x = {i, v, backward != 0, v == 0, 0};
                const char *name =
                    pool_printf(&w->b->p->pool, "%s %s%s", backward ? "backward" : "forward",
                                g->blocks.at[i], v ? " (adding)" : "");
                uint32_t phases =
                    backward ? 1u << PHASE_INPUTS | 1u << PHASE_PARAMS : 1u << PHASE_FORWARD;
                weft_status st =
                    plan_lower_block(w->b, i, phases, v == 0, name, plan_walk_lowered(w, &x));
                if (st != WEFT_OK)
                    return st;
            }
    return WEFT_OK;
}

/* Add the blocks of a chunk on this stage: forward in order, backward in reverse. */
static void add_cell(plan_list_builder *w, uint32_t chunk, uint32_t micro_batch, bool backward)
{
    const struct plan_stage_map *m = w->b->stages;
    uint32_t n = w->b->g->blocks.n, cell = w->nworks ? w->works[w->nworks - 1].cell + 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t block = backward ? n - 1 - i : i;
        if (plan_stage_here(m, block) && (m->axis < 0 || m->chunk[block] == chunk))
            w->works[w->nworks++] = (plan_block_pass){block, micro_batch, backward, false, cell};
    }
}

/* Use the strategy's order; by default, forward and backward of each micro-batch in turn. */
static void order_works(plan_list_builder *w)
{
    const struct plan_stage_map *m = w->b->stages;
    uint32_t chunks = m->axis < 0 ? 1 : m->chunks;
    w->works = pool_array(&w->memory, (uint64_t)w->b->g->blocks.n * 2 * w->micro_batches,
                          sizeof *w->works);
    if (m->axis >= 0 && m->orders[m->mine].work && w->train) {
        const plan_stage_order *o = &m->orders[m->mine];
        for (uint32_t i = 0; i < o->n; i++)
            add_cell(w, o->work[i].chunk, o->work[i].micro_batch,
                     o->work[i].phase == WEFT_WORK_BACKWARD);
        return;
    }
    for (uint32_t p = 0; p < w->micro_batches; p++) {
        for (uint32_t c = 0; c < chunks; c++)
            add_cell(w, c, p, false);
        for (uint32_t c = chunks; w->train && c-- > 0;)
            add_cell(w, c, p, true);
    }
}

static void mark_first(plan_list_builder *w)
{
    bool *seen = pool_array(&w->memory, (uint64_t)w->b->g->blocks.n * 2, sizeof *seen);
    for (uint32_t i = 0; i < w->nworks; i++) {
        plan_block_pass *x = &w->works[i];
        x->first = !seen[x->block * 2 + x->backward];
        seen[x->block * 2 + x->backward] = true;
    }
}

static void find_last_uses(plan_list_builder *w)
{
    const plan_builder *b = w->b;
    for (uint32_t i = 0; i < w->nworks; i++) {
        const plan_block_pass *x = &w->works[i];
        const plan_lowered_block *r = plan_walk_lowered(w, x);
        int own = plan_flat_block_of(b->f, b->g->blocks.at[x->block]);
        if (r->grads && own >= 0)
            w->grads_done[own] = i + 1;
        for (uint32_t k = 0; k < r->ninout; k++)
            if (r->inout[k].tensor)
                w->last_use[(uint64_t)r->inout[k].tensor * w->micro_batches + x->micro_batch] =
                    i + 1;
            else if (r->inout[k].grad)
                w->grads_done[r->inout[k].flat_block] = i + 1;
    }
    /* Shared parameters of stages are summed after all micro-batches: other stages must get all
     * their inputs from this one before it waits for them. */
    for (uint32_t i = 0; i < b->f->blocks.n; i++)
        if (w->grads_done[i] && plan_flat_shared(b->f, b->stages, i))
            w->grads_done[i] = w->nworks;
}

/* --- one work --- */

static weft_status input_base(const plan_list_builder *w, weft_tensor t, uint32_t micro_batch,
                              uint64_t *out)
{
    const graph_tensor *x = graph_tensor_at(w->b->g, t);
    for (uint32_t i = 0; i < w->b->p->inputs.n; i++) {
        const plan_input_slot *s = &w->b->p->inputs.at[i];
        if (!strcmp(s->name, x->name) && s->dtype == x->shape.dtype) {
            *out = s->offset + s->stride * micro_batch;
            return WEFT_OK;
        }
    }
    return err_fail(WEFT_USAGE,
                    "nothing fills the input '%s' of type %u: the graph of a training step has no "
                    "such input",
                    x->name, x->shape.dtype);
}

static weft_status cache_base(const plan_list_builder *w, weft_tensor t, uint64_t *out)
{
    const char *name = graph_tensor_at(w->b->g, t)->name;
    for (uint32_t i = 0; i < w->b->p->caches.n; i++)
        if (!strcmp(w->b->p->caches.at[i].name, name)) {
            *out = w->b->p->caches.at[i].offset;
            return WEFT_OK;
        }
    return err_fail(WEFT_USAGE, "the graph of one row has %s, which that of a prompt has not",
                    name);
}

static weft_status inout_base(plan_list_builder *w, const plan_block_pass *x,
                              const plan_live_inout *c, uint64_t *out)
{
    plan_builder *b = w->b;
    if (!c->tensor) {
        *out = (c->grad ? b->bases.grads : b->bases.params)[c->flat_block];
        return WEFT_OK;
    }
    if (graph_tensor_at(b->g, c->tensor)->kind == WEFT_T_INPUT)
        return input_base(w, c->tensor, x->micro_batch, out);
    if (graph_tensor_at(b->g, c->tensor)->kind == WEFT_T_STATE)
        return cache_base(w, c->tensor, out);
    uint64_t key = (uint64_t)c->tensor * w->micro_batches + x->micro_batch;
    if (!w->place[key])
        w->place[key] =
            1 + plan_space_take(&b->zones.activations, graph_local_bytes(w->b->g, c->tensor));
    *out = b->zones.zone + w->place[key] - 1;
    return WEFT_OK;
}

static weft_status set_bases(plan_list_builder *w, const plan_block_pass *x,
                             const plan_lowered_block *r, uint64_t *bases, uint64_t *frame)
{
    plan_builder *b = w->b;
    int own = plan_flat_block_of(b->f, b->g->blocks.at[x->block]);
    uint64_t slot = (uint64_t)x->block * w->micro_batches + x->micro_batch;
    if (!x->backward && b->live.saved[x->block])
        w->slot[slot] = plan_space_take(&b->zones.activations, b->live.saved[x->block]);
    for (uint32_t k = 0; k < r->ninout; k++) {
        weft_status st = inout_base(w, x, &r->inout[k], &bases[BASE_FIRST + k]);
        if (st != WEFT_OK)
            return st;
    }
    *frame = r->frame ? plan_space_take(&b->zones.activations, r->frame) : 0;
    bases[BASE_ABSOLUTE] = 0;
    bases[BASE_PARAM] = own < 0 ? 0 : b->bases.params[own];
    bases[BASE_GRAD] = own < 0 ? 0 : b->bases.grads[own];
    bases[BASE_SAVED] = b->zones.zone + w->slot[slot];
    bases[BASE_FRAME] = b->zones.zone + *frame;
    return WEFT_OK;
}

static void give_back(plan_list_builder *w, const plan_block_pass *x, uint32_t at,
                      const plan_lowered_block *r, uint64_t frame)
{
    plan_builder *b = w->b;
    if (r->frame)
        plan_space_give(&b->zones.activations, frame, r->frame);
    for (uint32_t k = 0; k < r->ninout; k++) {
        uint64_t key = (uint64_t)r->inout[k].tensor * w->micro_batches + x->micro_batch;
        if (r->inout[k].tensor && w->place[key] && w->last_use[key] == at + 1 && !w->held[key])
            plan_space_give(&b->zones.activations, w->place[key] - 1,
                            graph_local_bytes(w->b->g, r->inout[k].tensor));
    }
    uint64_t slot = (uint64_t)x->block * w->micro_batches + x->micro_batch;
    if ((x->backward || !w->train) && b->live.saved[x->block])
        plan_space_give(&b->zones.activations, w->slot[slot], b->live.saved[x->block]);
}

static weft_status emit_comm(plan_list_builder *w, const plan_block_pass *x, const plan_item *it,
                             const uint64_t *bases)
{
    plan *p = w->b->p;
    const graph *g = w->b->g;
    const graph_node *n = it->comm;
    const graph_group *k = n->group ? &g->groups[n->group - 1] : NULL;
    const weft_tensor larger = n->comm == WEFT_ALL_GATHER ? n->out[0] : n->in[0];
    plan_collective c = {.kind = n->comm,
                         .redop = n->redop,
                         .root = n->root,
                         .dtype = graph_tensor_at(g, larger)->shape.dtype,
                         .count = graph_local_elements(g, larger),
                         .in = bases[it->in.base] + it->in.offset,
                         .out = bases[it->out.base] + it->out.offset};
    c.channel = k ? plan_channel_some(p, pool_printf(&p->pool, "%s.pass", k->name), k->mesh_axis,
                                      k->coords, k->n)
                  : plan_channel_number(p, "pass", n->mesh_axis);
    c.name = pool_printf(&p->pool, "%s of %s", sched_kind_name(n->comm),
                         graph_tensor_at(g, n->in[0])->name);
    return plan_emit_collective(w->b, w->l, &c, x->micro_batch);
}

static weft_status emit_items(plan_list_builder *w, const plan_block_pass *x,
                              const plan_lowered_block *r, const uint64_t *bases)
{
    plan *p = w->b->p;
    const char *name = pool_printf(&p->pool, "%s %s", x->backward ? "backward" : "forward",
                                   w->b->g->blocks.at[x->block]);
    for (uint32_t i = 0; i < r->items.n; i++) {
        const plan_item *it = &r->items.at[i];
        if (it->comm) {
            weft_status st = emit_comm(w, x, it, bases);
            if (st != WEFT_OK)
                return st;
            continue;
        }
        const plan_segment *seg = &p->segments.at[it->segment];
        plan_list_call(p, w->l, it->segment, bases, seg->nbases, x->micro_batch, name);
        p->flops_step += w->train ? seg->flops : 0;
    }
    return WEFT_OK;
}

static weft_status emit_work(plan_list_builder *w, uint32_t at)
{
    const plan_block_pass *x = &w->works[at];
    const plan_lowered_block *r = plan_walk_lowered(w, x);
    uint64_t bases[MAX_BASES] = {0}, frame = 0;
    weft_status st = plan_zero_before(w, at);
    if (st == WEFT_OK)
        st = plan_boundary_before(w, at);
    if (st == WEFT_OK)
        st = set_bases(w, x, r, bases, &frame);
    if (st == WEFT_OK)
        st = emit_items(w, x, r, bases);
    if (st == WEFT_OK)
        st = plan_boundary_after(w, at);
    give_back(w, x, at, r, frame);
    if (st == WEFT_OK)
        st = plan_zero_after(w, at);
    return st != WEFT_OK || !w->train ? st : plan_sync_work_done(w, at);
}

static void note_cells(const plan_list_builder *w)
{
    plan *p = w->b->p;
    for (uint32_t i = 0; i < w->nworks; i++) {
        const plan_block_pass *x = &w->works[i];
        if (!i || x->cell != w->works[i - 1].cell)
            *vec_push(&p->cells) =
                (plan_cell){w->b->stages->axis < 0 ? 0 : w->b->stages->chunk[x->block],
                            x->micro_batch, x->backward, 0};
        const plan_lowered_block *r = plan_walk_lowered(w, x);
        for (uint32_t k = 0; k < r->items.n; k++)
            if (!r->items.at[k].comm)
                p->cells.at[p->cells.n - 1].flops += p->segments.at[r->items.at[k].segment].flops;
    }
}

static void walk_free(plan_list_builder *w)
{
    for (uint64_t i = 0; i < (uint64_t)w->b->g->blocks.n * 4; i++)
        free(w->lowered[i].items.at);
    plan_boundary_free(w);
    plan_zero_free(w);
    pool_free(&w->memory);
}

weft_status plan_micro_batches(plan_builder *b, plan_list *l, bool train, uint32_t micro_batches)
{
    plan_list_builder w = {.b = b, .l = l, .micro_batches = micro_batches, .train = train};
    uint64_t blocks = b->g->blocks.n, cells = (uint64_t)(b->g->tensors.n + 1) * micro_batches;
    w.lowered = pool_array(&w.memory, blocks * 4, sizeof *w.lowered);
    w.last_use = pool_array(&w.memory, cells, sizeof *w.last_use);
    w.grads_done = pool_array(&w.memory, b->f->blocks.n, sizeof *w.grads_done);
    w.place = pool_array(&w.memory, cells, sizeof *w.place);
    w.held = pool_array(&w.memory, cells, sizeof *w.held);
    w.slot = pool_array(&w.memory, blocks * micro_batches, sizeof *w.slot);
    weft_status st = lower_all(&w);
    if (st == WEFT_OK) {
        order_works(&w);
        mark_first(&w);
        find_last_uses(&w);
        st = plan_boundary_prepare(&w);
    }
    if (st == WEFT_OK)
        st = plan_zero_begin(&w);
    if (st == WEFT_OK && train)
        note_cells(&w);
    for (uint32_t i = 0; st == WEFT_OK && i < w.nworks; i++)
        st = emit_work(&w, i);
    if (st == WEFT_OK) {
        plan_boundary_finish(&w);
        st = plan_zero_finish(&w);
    }
    if (st == WEFT_OK && train)
        st = plan_sync_flush(b, l);
    if (st == WEFT_OK && b->live.result &&
        w.place[(uint64_t)b->live.root[b->live.result] * micro_batches])
        b->p->logits =
            b->zones.zone + w.place[(uint64_t)b->live.root[b->live.result] * micro_batches] - 1;
    walk_free(&w);
    return st;
}
