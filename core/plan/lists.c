/* plan/lists.c: the order of blocks and passes becomes a list.
 *
 * One micro-batch after another: forward through all blocks, backward through them in reverse. What
 * a block's forward saves, and what crosses from block to block, is taken from the zone of
 * activations at its first use in the list and given back after its last; so the peak is that of
 * the order. */
#include "base/err.h"
#include "plan/build.h"

#include <stdlib.h>
#include <string.h>

entry *list_add(plan *p, list *l, uint32_t kind, uint32_t what, uint32_t pass, const char *name)
{
    entry *e = vec_push(&l->entries);
    *e = (entry){kind, what, 0, pass, pool_text(&p->pool, name)};
    return e;
}

void list_call(plan *p, list *l, uint32_t seg, const uint64_t *bases, uint32_t nbases,
               uint32_t pass, const char *name)
{
    uint32_t first = p->bases.n;
    for (uint32_t i = 0; i < nbases; i++)
        *vec_push(&p->bases) = bases[i];
    list_add(p, l, ENTRY_CALL, seg, pass, name)->first_base = first;
}

typedef struct work {
    uint32_t block, pass;
    bool backward;
} work;

typedef struct walk {
    builder *b;
    list *l;
    uint32_t passes;
    bool train;
    routine *routines; /* [block][backward][first] */
    work *works;
    uint32_t nworks;
    uint32_t *last_use; /* [tensor][pass] 1 + work */
    uint64_t *place;    /* [tensor][pass] 1 + offset in the zone */
    uint64_t *slot;     /* [block][pass] offset of the saved slot in the zone */
} walk;

static routine *routine_at(const walk *w, uint32_t block, bool backward, bool first)
{
    return &w->routines[(block * 2 + backward) * 2 + first];
}

static routine *routine_of(const walk *w, const work *x)
{
    return routine_at(w, x->block, x->backward, x->pass == 0);
}

static weft_status lower_all(walk *w)
{
    const graph *g = w->b->g;
    uint32_t variants = w->passes > 1 ? 2 : 1;
    for (uint32_t i = 0; i < g->blocks.n; i++)
        for (uint32_t backward = 0; backward <= (w->train ? 1u : 0u); backward++)
            for (uint32_t v = 0; v < variants; v++) {
                const char *name =
                    pool_printf(&w->b->p->pool, "%s %s%s", backward ? "backward" : "forward",
                                g->blocks.at[i], v ? " (adding)" : "");
                uint32_t phases =
                    backward ? 1u << PHASE_INPUTS | 1u << PHASE_PARAMS : 1u << PHASE_FORWARD;
                weft_status s =
                    lower_block(w->b, i, phases, v == 0, name, routine_at(w, i, backward, v == 0));
                if (s)
                    return s;
            }
    return WEFT_OK;
}

/* The order of work: with nothing else said, F and B of each micro-batch in turn. */
static void order_works(walk *w)
{
    uint32_t blocks = w->b->g->blocks.n;
    w->works = mem_alloc((uint64_t)blocks * 2 * w->passes * sizeof *w->works);
    for (uint32_t p = 0; p < w->passes; p++) {
        for (uint32_t i = 0; i < blocks; i++)
            w->works[w->nworks++] = (work){i, p, false};
        for (uint32_t i = blocks; w->train && i-- > 0;)
            w->works[w->nworks++] = (work){i, p, true};
    }
    for (uint32_t i = 0; i < w->nworks; i++) {
        const routine *r = routine_of(w, &w->works[i]);
        for (uint32_t k = 0; k < r->ncross; k++)
            w->last_use[(uint64_t)r->cross[k] * w->passes + w->works[i].pass] = i + 1;
    }
}

static uint64_t tensor_bytes(const builder *b, weft_tensor t)
{
    weft_shape s = graph_local(b->g, t);
    return shape_bytes(&s);
}

static weft_status input_base(const walk *w, weft_tensor t, uint32_t pass, uint64_t *out)
{
    const tensor *x = graph_tensor(w->b->g, t);
    for (uint32_t i = 0; i < w->b->p->inputs.n; i++) {
        const input_slot *s = &w->b->p->inputs.at[i];
        if (!strcmp(s->name, x->name)) {
            *out = s->offset + s->stride * pass;
            return WEFT_OK;
        }
    }
    return fail(WEFT_USAGE, "nothing fills the input '%s'", x->name);
}

static weft_status set_bases(walk *w, const work *x, const routine *r, uint64_t *bases,
                             uint64_t *frame)
{
    builder *b = w->b;
    int fb = flat_block_of(b->f, b->g->blocks.at[x->block]);
    uint64_t element = fb < 0 ? 0 : b->f->blocks.at[fb].first;
    uint64_t slot = (uint64_t)x->block * w->passes + x->pass;
    if (!x->backward && b->saved.at[x->block])
        w->slot[slot] = space_take(&b->activations, b->saved.at[x->block]);
    for (uint32_t k = 0; k < r->ncross; k++) {
        uint64_t at = (uint64_t)r->cross[k] * w->passes + x->pass;
        if (graph_tensor(b->g, r->cross[k])->kind == WEFT_T_INPUT) {
            weft_status s = input_base(w, r->cross[k], x->pass, &bases[BASE_FIRST + k]);
            if (s)
                return s;
            continue;
        }
        if (!w->place[at])
            w->place[at] = 1 + space_take(&b->activations, tensor_bytes(b, r->cross[k]));
        bases[BASE_FIRST + k] = b->zone + w->place[at] - 1;
    }
    *frame = r->frame ? space_take(&b->activations, r->frame) : 0;
    bases[BASE_ABSOLUTE] = 0;
    bases[BASE_PARAM] = b->f->compute + element * b->f->compute_size;
    bases[BASE_GRAD] = b->f->grads + element * b->f->grad_size;
    bases[BASE_SAVED] = b->zone + w->slot[slot];
    bases[BASE_FRAME] = b->zone + *frame;
    return WEFT_OK;
}

static void give_back(walk *w, const work *x, uint32_t at, const routine *r, uint64_t frame)
{
    builder *b = w->b;
    if (r->frame)
        space_give(&b->activations, frame, r->frame);
    for (uint32_t k = 0; k < r->ncross; k++) {
        uint64_t key = (uint64_t)r->cross[k] * w->passes + x->pass;
        if (w->place[key] && w->last_use[key] == at + 1)
            space_give(&b->activations, w->place[key] - 1, tensor_bytes(b, r->cross[k]));
    }
    uint64_t slot = (uint64_t)x->block * w->passes + x->pass;
    if ((x->backward || !w->train) && b->saved.at[x->block])
        space_give(&b->activations, w->slot[slot], b->saved.at[x->block]);
}

static weft_status emit_comm(walk *w, const work *x, const item *it, const uint64_t *bases)
{
    plan *p = w->b->p;
    collective c = {.channel = plan_channel(p, "pass", it->mesh_axis), .kind = WEFT_ALL_REDUCE};
    c.name = pool_printf(&p->pool, "all-reduce of %s", it->name);
    c.redop = it->redop;
    c.dtype = it->dtype;
    c.count = it->count;
    c.in = bases[it->in.base] + it->in.offset;
    c.out = bases[it->out.base] + it->out.offset;
    uint32_t number;
    weft_status s = plan_collective(w->b, &c, &number);
    if (s)
        return s;
    list_add(p, w->l, ENTRY_START, number, x->pass, c.name);
    list_add(p, w->l, ENTRY_WAIT, number, x->pass, c.name);
    space_give(&w->b->comm, p->collectives.at[number].scratch,
               p->collectives.at[number].scratch_bytes);
    return WEFT_OK;
}

static weft_status emit_work(walk *w, uint32_t at)
{
    const work *x = &w->works[at];
    const routine *r = routine_of(w, x);
    uint64_t bases[MAX_BASES] = {0}, frame = 0;
    weft_status s = set_bases(w, x, r, bases, &frame);
    for (uint32_t i = 0; !s && i < r->items.n; i++) {
        const item *it = &r->items.at[i];
        if (it->comm) {
            s = emit_comm(w, x, it, bases);
            continue;
        }
        const segment *seg = &w->b->p->segments.at[it->segment];
        const char *name =
            pool_printf(&w->b->p->pool, "%s %s", x->backward ? "backward" : "forward",
                        w->b->g->blocks.at[x->block]);
        list_call(w->b->p, w->l, it->segment, bases, seg->nbases, x->pass, name);
        w->b->p->flops_step += w->train ? seg->flops : 0;
    }
    give_back(w, x, at, r, frame);
    if (!s && x->backward && x->pass + 1 == w->passes)
        s = sync_block_done(w->b, w->l, x->block);
    return s;
}

weft_status build_passes(builder *b, list *l, bool train, uint32_t passes)
{
    walk w = {.b = b, .l = l, .passes = passes, .train = train};
    uint64_t blocks = b->g->blocks.n, cells = (uint64_t)(b->g->tensors.n + 1) * passes;
    w.routines = mem_alloc(blocks * 4 * sizeof *w.routines);
    w.last_use = mem_alloc(cells * sizeof *w.last_use);
    w.place = mem_alloc(cells * sizeof *w.place);
    w.slot = mem_alloc(blocks * passes * sizeof *w.slot);
    weft_status s = lower_all(&w);
    if (!s)
        order_works(&w);
    for (uint32_t i = 0; !s && i < w.nworks; i++)
        s = emit_work(&w, i);
    if (!s && b->keep)
        b->p->logits = b->zone + w.place[(uint64_t)b->root[b->keep] * passes] - 1;
    for (uint64_t i = 0; i < blocks * 4; i++)
        free(w.routines[i].items.at);
    free(w.routines);
    free(w.works);
    free(w.last_use);
    free(w.place);
    free(w.slot);
    return s;
}
