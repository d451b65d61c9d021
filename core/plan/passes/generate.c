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

static weft_status build(plan_builder *b, int64_t rows)
{
    const plan_graph_sizes size = {1, rows, 1};
    weft_status st = plan_graph_build(b, b->g, &size, WEFT_MODEL_LOGITS, &b->result);
    if (st == WEFT_OK && rows > 1)
        st = graph_cached_check(b->g, rows);
    if (st == WEFT_OK)
        st = graph_propagate(b->g, 0);
    return st == WEFT_OK ? graph_cached_make(b->g, b->p->spec->sequence) : st;
}

weft_status plan_pass_prompt(plan_builder *b)
{
    const int64_t context = b->p->spec->sequence;
    if (context < 2)
        return err_fail(WEFT_UNSUPPORTED, "the model has a context of one token");
    b->p->chunk = (uint32_t)(context < MAX_CHUNK ? context : MAX_CHUNK);
    return build(b, b->p->chunk);
}

weft_status plan_pass_caches(plan_builder *b)
{
    plan *p = b->p;
    uint64_t at = b->zones.zone;
    for (weft_tensor t = 1; t <= b->g->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(b->g, t);
        if (x->kind != WEFT_T_STATE || !plan_stage_here(b->stages, x->block))
            continue;
        const uint64_t bytes = graph_local_bytes(b->g, t);
        *vec_push(&p->caches) = (plan_cache_slot){pool_text(&p->pool, x->name), at, bytes};
        at += (bytes + 4095) & ~(uint64_t)4095;
    }
    p->bytes.state += at - b->zones.zone;
    b->zones.zone = at;
    return WEFT_OK;
}

weft_status plan_pass_prompt_list(plan_builder *b)
{
    b->p->step.name = "prompt";
    graph_cached_prune(b->g);
    plan_liveness_find(b);
    return plan_micro_batches(b, &b->p->step, false, 1);
}

weft_status plan_pass_decode(plan_builder *b)
{
    graph_free(b->g);
    return build(b, 1);
}

weft_status plan_pass_decode_list(plan_builder *b)
{
    plan_logits capacity;
    b->p->eval.name = "decode";
    b->live.result = b->result;
    plan_liveness_find(b);
    weft_status st = plan_logits_capacity(b, &capacity);
    if (st == WEFT_OK)
        st = plan_micro_batches(b, &b->p->eval, false, 1);
    return st == WEFT_OK ? plan_logits_share(b, &b->p->eval, &capacity) : st;
}

/* --- logits, whole on every rank --- */

static bool gathers(const plan_builder *b, uint32_t a)
{
    const weft_place p = graph_tensor_at(b->g, b->result)->place[a];
    return b->p->spec->mesh.size[a] > 1 && p.kind == WEFT_SPLIT;
}

/* Parts of a row follow each other in the order of the coordinates, and padding is at the end. */
static weft_status check_places(const plan_builder *b)
{
    const graph_tensor *t = graph_tensor_at(b->g, b->result);
    uint32_t splits = 0;
    for (uint32_t a = 0; a < b->p->spec->mesh.n; a++) {
        if (!gathers(b, a))
            continue;
        if (t->place[a].axis != 1 || t->shape.axes[0].size != 1 || splits++)
            return err_fail(WEFT_UNSUPPORTED,
                            "the logits are split over %s in a way that this version does not put "
                            "together; sample on fewer ranks",
                            b->p->spec->size_key[a]);
    }
    return WEFT_OK;
}

weft_status plan_logits_capacity(plan_builder *b, plan_logits *capacity)
{
    const uint64_t size = weft_dtype_size(b->p->spec->compute);
    const bool here = plan_stage_here(b->stages, graph_tensor_at(b->g, b->result)->block);
    uint64_t n = graph_local_elements(b->g, b->result);
    *capacity = (plan_logits){0};
    weft_status st = check_places(b);
    for (uint32_t a = 0; st == WEFT_OK && a < b->p->spec->mesh.n; a++) {
        if (!gathers(b, a))
            continue;
        n *= b->p->spec->mesh.size[a];
        if (here)
            capacity->part[a] = 1 + plan_space_take(&b->zones.activations, n * size);
    }
    if (st == WEFT_OK && !here)
        capacity->sent = 1 + plan_space_take(&b->zones.activations, n * size);
    return st;
}

static weft_status gather(plan_builder *b, plan_list *l, uint32_t a, uint64_t *n, uint64_t to)
{
    plan *p = b->p;
    plan_collective c = {.kind = WEFT_ALL_GATHER,
                         .channel = plan_channel_number(p, "logits", a),
                         .dtype = b->p->spec->compute,
                         .name = "all-gather of logits",
                         .in = p->logits,
                         .out = to};
    *n *= b->p->spec->mesh.size[a];
    c.count = *n;
    p->logits = to;
    return plan_emit_collective(b, l, &c, 0);
}

static weft_status complete(plan_builder *b, plan_list *l, uint32_t a, uint64_t n)
{
    const plan_collective c = {.kind = WEFT_ALL_REDUCE,
                               .redop = WEFT_SUM,
                               .channel = plan_channel_number(b->p, "logits", a),
                               .dtype = b->p->spec->compute,
                               .name = "all-reduce of logits",
                               .in = b->p->logits,
                               .out = b->p->logits,
                               .count = n};
    return plan_emit_collective(b, l, &c, 0);
}

weft_status plan_logits_share(plan_builder *b, plan_list *l, const plan_logits *capacity)
{
    const graph_tensor *t = graph_tensor_at(b->g, b->result);
    const struct plan_stage_map *stages = b->stages;
    const bool here = plan_stage_here(stages, t->block);
    uint64_t n = graph_local_elements(b->g, b->result);
    weft_status st = WEFT_OK;
    for (uint32_t a = 0; st == WEFT_OK && a < b->p->spec->mesh.n; a++) {
        if (!gathers(b, a) && t->place[a].kind != WEFT_PARTIAL_SUM)
            continue;
        if (here && !gathers(b, a))
            st = complete(b, l, a, n);
        else if (here)
            st = gather(b, l, a, &n, b->zones.zone + capacity->part[a] - 1);
        else if (gathers(b, a))
            n *= b->p->spec->mesh.size[a];
    }
    if (st != WEFT_OK || stages->axis < 0)
        return st;
    if (!here)
        b->p->logits = b->zones.zone + capacity->sent - 1;
    const plan_collective c = {.kind = WEFT_BROADCAST,
                               .channel =
                                   plan_channel_number(b->p, "logits", (uint32_t)stages->axis),
                               .dtype = b->p->spec->compute,
                               .name = "broadcast of logits",
                               .in = b->p->logits,
                               .out = b->p->logits,
                               .count = n,
                               .root = plan_stage_of(stages, t->block)};
    return plan_emit_collective(b, l, &c, 0);
}
