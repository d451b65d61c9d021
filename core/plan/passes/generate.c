/* plan/passes/generate.c: lists that continue a sequence.
 *
 * Two graphs of the same model work on the same parameters and caches: one for a chunk of a prompt,
 * one for a single row. Both are the family's graph of logits, with caches put in after it has been
 * placed (graph/cached.h). The chunk needs no logits, since the last token of a prompt is a row
 * like those that follow it; what only makes logits is left out of its list. */
#include "plan/passes/passes.h"

#include "base/err.h"
#include "graph/cached.h"
#include "plan/collective.h"
#include "plan/emit.h"
#include "plan/lower/walk.h"

#include <inttypes.h>

#define MAX_CHUNK 64 /* rows: a product of so many is no longer bound by reading its weights */

static weft_status build(plan_job *m, int64_t rows)
{
    const plan_graph_sizes size = {1, rows, 1};
    weft_status st = plan_graph_build(m, &m->g, &size, WEFT_MODEL_LOGITS, &m->result);
    if (st == WEFT_OK && rows > 1)
        st = graph_cached_check(&m->g, rows);
    uint32_t end = m->g.nodes.n;
    if (st == WEFT_OK)
        st = graph_propagate(&m->g, 0, &end);
    return st == WEFT_OK ? graph_cached_make(&m->g, m->s->sequence) : st;
}

weft_status plan_pass_prompt(plan_job *m)
{
    const int64_t context = m->s->sequence;
    if (context < 2)
        return err_fail(WEFT_UNSUPPORTED, "the model has a context of one token");
    m->p->chunk = (uint32_t)(context < MAX_CHUNK ? context : MAX_CHUNK);
    return build(m, m->p->chunk);
}

weft_status plan_pass_caches(plan_job *m)
{
    plan *p = m->p;
    uint64_t at = m->b.zones.zone;
    for (weft_tensor t = 1; t <= m->g.tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(&m->g, t);
        if (x->kind != WEFT_T_STATE || !plan_stage_here(m->b.stages, x->block))
            continue;
        const uint64_t bytes = graph_local_bytes(&m->g, t);
        *vec_push(&p->caches) = (plan_cache_slot){pool_text(&p->pool, x->name), at, bytes};
        at += (bytes + 4095) & ~(uint64_t)4095;
    }
    p->bytes.state += at - m->b.zones.zone;
    m->b.zones.zone = at;
    return WEFT_OK;
}

weft_status plan_pass_prompt_list(plan_job *m)
{
    m->p->step.name = "prompt";
    graph_cached_prune(&m->g);
    plan_liveness_find(&m->b);
    return plan_micro_batches(&m->b, &m->p->step, false, 1);
}

weft_status plan_pass_decode(plan_job *m)
{
    graph_free(&m->g);
    plan_liveness_free(&m->b.live);
    return build(m, 1);
}

weft_status plan_pass_decode_list(plan_job *m)
{
    plan_logits capacity;
    m->p->eval.name = "decode";
    m->b.live.result = m->result;
    plan_liveness_find(&m->b);
    weft_status st = plan_logits_capacity(m, &capacity);
    if (st == WEFT_OK)
        st = plan_micro_batches(&m->b, &m->p->eval, false, 1);
    return st == WEFT_OK ? plan_logits_share(m, &m->p->eval, &capacity) : st;
}

/* --- logits, whole on every rank --- */

static bool gathers(const plan_job *m, uint32_t a)
{
    const weft_place p = graph_tensor_at(&m->g, m->result)->place[a];
    return m->s->mesh.size[a] > 1 && p.kind == WEFT_SPLIT;
}

/* Parts of a row follow each other in the order of the coordinates, and padding is at the end. */
static weft_status check_places(const plan_job *m)
{
    const graph_tensor *t = graph_tensor_at(&m->g, m->result);
    uint32_t splits = 0;
    for (uint32_t a = 0; a < m->s->mesh.n; a++) {
        if (!gathers(m, a))
            continue;
        if (t->place[a].axis != 1 || t->shape.axes[0].size != 1 || splits++)
            return err_fail(WEFT_UNSUPPORTED,
                            "the logits are split over %s in a way that this version does not put "
                            "together; sample on fewer ranks",
                            m->s->size_key[a]);
    }
    return WEFT_OK;
}

weft_status plan_logits_capacity(plan_job *m, plan_logits *capacity)
{
    const uint64_t size = weft_dtype_size(m->s->compute);
    const bool here = plan_stage_here(m->b.stages, graph_tensor_at(&m->g, m->result)->block);
    uint64_t n = graph_local_elements(&m->g, m->result);
    *capacity = (plan_logits){0};
    weft_status st = check_places(m);
    for (uint32_t a = 0; st == WEFT_OK && a < m->s->mesh.n; a++) {
        if (!gathers(m, a))
            continue;
        n *= m->s->mesh.size[a];
        if (here)
            capacity->part[a] = 1 + plan_space_take(&m->b.zones.activations, n * size);
    }
    if (st == WEFT_OK && !here)
        capacity->sent = 1 + plan_space_take(&m->b.zones.activations, n * size);
    return st;
}

static weft_status gather(plan_job *m, plan_list *l, uint32_t a, uint64_t *n, uint64_t to)
{
    plan *p = m->p;
    plan_collective c = {.kind = WEFT_ALL_GATHER,
                         .channel = plan_channel_number(p, "logits", a),
                         .dtype = m->s->compute,
                         .name = "all-gather of logits",
                         .in = p->logits,
                         .out = to};
    *n *= m->s->mesh.size[a];
    c.count = *n;
    p->logits = to;
    return plan_emit_collective(&m->b, l, &c, 0);
}

static weft_status complete(plan_job *m, plan_list *l, uint32_t a, uint64_t n)
{
    const plan_collective c = {.kind = WEFT_ALL_REDUCE,
                               .redop = WEFT_SUM,
                               .channel = plan_channel_number(m->p, "logits", a),
                               .dtype = m->s->compute,
                               .name = "all-reduce of logits",
                               .in = m->p->logits,
                               .out = m->p->logits,
                               .count = n};
    return plan_emit_collective(&m->b, l, &c, 0);
}

weft_status plan_logits_share(plan_job *m, plan_list *l, const plan_logits *capacity)
{
    const graph_tensor *t = graph_tensor_at(&m->g, m->result);
    const struct plan_stage_map *stages = m->b.stages;
    const bool here = plan_stage_here(stages, t->block);
    uint64_t n = graph_local_elements(&m->g, m->result);
    weft_status st = WEFT_OK;
    for (uint32_t a = 0; st == WEFT_OK && a < m->s->mesh.n; a++) {
        if (!gathers(m, a) && t->place[a].kind != WEFT_PARTIAL_SUM)
            continue;
        if (here && !gathers(m, a))
            st = complete(m, l, a, n);
        else if (here)
            st = gather(m, l, a, &n, m->b.zones.zone + capacity->part[a] - 1);
        else if (gathers(m, a))
            n *= m->s->mesh.size[a];
    }
    if (st != WEFT_OK || stages->axis < 0)
        return st;
    if (!here)
        m->p->logits = m->b.zones.zone + capacity->sent - 1;
    const plan_collective c = {.kind = WEFT_BROADCAST,
                               .channel =
                                   plan_channel_number(m->p, "logits", (uint32_t)stages->axis),
                               .dtype = m->s->compute,
                               .name = "broadcast of logits",
                               .in = m->p->logits,
                               .out = m->p->logits,
                               .count = n,
                               .root = plan_stage_of(stages, t->block)};
    return plan_emit_collective(&m->b, l, &c, 0);
}
