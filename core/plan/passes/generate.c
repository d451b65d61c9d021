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
    weft_status st = plan_graph_build(b, WEFT_MODEL_LOGITS, 1, rows, 1);
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
    b->p->eval.name = "decode";
    b->live.result = b->result;
    plan_liveness_find(b);
    return plan_pass_logits_list(b);
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

/* Take memory for the logits of all ranks, where this one gathers or receives them: at *out in the
 * zone. At most one axis splits them. */
static weft_status take_place(plan_builder *b, uint64_t *out)
{
    const bool here = plan_stage_here(b->stages, graph_tensor_at(b->g, b->result)->block);
    uint64_t n = graph_local_elements(b->g, b->result);
    bool split = false;
    for (uint32_t a = 0; a < b->p->spec->mesh.n; a++) {
        split |= gathers(b, a);
        n *= gathers(b, a) ? b->p->spec->mesh.size[a] : 1;
    }
    weft_status st = check_places(b);
    if (st == WEFT_OK && (split || !here))
        *out = plan_space_take(&b->zones.activations, n * weft_dtype_size(b->p->spec->compute));
    return st;
}

/* A collective of `count` logits, from where they are to `to`. */
static weft_status share(plan_builder *b, uint32_t kind, uint32_t a, uint64_t count, uint64_t to,
                         uint32_t root)
{
    plan *p = b->p;
    const plan_collective c = {.kind = kind,
                               .redop = kind == WEFT_ALL_REDUCE ? WEFT_SUM : 0,
                               .channel = plan_channel_number(p, "logits", a),
                               .dtype = p->spec->compute,
                               .name = pool_printf(&p->pool, "%s of logits", sched_kind_name(kind)),
                               .in = p->logits,
                               .out = to,
                               .count = count,
                               .root = root};
    p->logits = to;
    return plan_emit_collective(b, &p->eval, &c, 0);
}

/* Gather the logits where they are split, and send them to the other stages. */
static weft_status share_logits(plan_builder *b, uint64_t to)
{
    plan *p = b->p;
    const graph_tensor *t = graph_tensor_at(b->g, b->result);
    const struct plan_stage_map *stages = b->stages;
    const bool here = plan_stage_here(stages, t->block);
    uint64_t n = graph_local_elements(b->g, b->result);
    weft_status st = WEFT_OK;
    for (uint32_t a = 0; st == WEFT_OK && a < p->spec->mesh.n; a++) {
        const bool split = gathers(b, a);
        n *= split ? p->spec->mesh.size[a] : 1;
        if (here && split)
            st = share(b, WEFT_ALL_GATHER, a, n, b->zones.zone + to, 0);
        else if (here && t->place[a].kind == WEFT_PARTIAL_SUM)
            st = share(b, WEFT_ALL_REDUCE, a, n, p->logits, 0);
    }
    if (st != WEFT_OK || stages->axis < 0)
        return st;
    if (!here)
        p->logits = b->zones.zone + to;
    return share(b, WEFT_BROADCAST, (uint32_t)stages->axis, n, p->logits,
                 plan_stage_of(stages, t->block));
}

weft_status plan_pass_logits_list(plan_builder *b)
{
    uint64_t to = 0;
    weft_status st = take_place(b, &to);
    if (st == WEFT_OK)
        st = plan_micro_batches(b, &b->p->eval, false, 1);
    return st == WEFT_OK ? share_logits(b, to) : st;
}
