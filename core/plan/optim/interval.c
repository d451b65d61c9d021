/* plan/optim/interval.c: parameters that are updated in some steps only (edits.update_every).
 *
 * An entry of a list may have an update interval, and steps that it leaves out skip the entry: the
 * sums of gradients, their squares in the norm, the updates, the gathers after these. The entries
 * are the same on all ranks, so collectives still meet.
 *
 * With the mean of gradients each coordinate adds up what its own micro-batches give, over all
 * steps since the last update. So no micro-batch overwrites such a gradient; the end of a step that
 * updates clears it. Cost: its bytes are sent once in `every` steps, and written once more then.
 * Checkpoints have it, with a value for each coordinate (pieces.c). */
#include "plan/optim/optim.h"

#include "base/err.h"
#include "plan/emit.h"

static uint32_t number_of(plan_builder *b, const plan_update_edit *x)
{
    plan *p = b->p;
    for (uint32_t i = 0; i < p->intervals.n; i++) {
        const plan_interval *k = &p->intervals.at[i];
        if (k->every == x->every && k->from == x->from && k->mean == x->mean)
            return 1 + i;
    }
    char name[64]; /* the same in every layout */
    snprintf(name, sizeof name, "count.%s%u.%llu", x->mean ? "mean" : "every", x->every,
             (unsigned long long)x->from);
    *vec_push(&p->intervals) = (plan_interval){.from = x->from,
                                               .every = x->every,
                                               .mean = x->mean,
                                               .owner = pool_text(&p->pool, x->owner),
                                               .count = pool_text(&p->pool, name),
                                               .low = pool_printf(&p->pool, "%s.low", name)};
    return p->intervals.n;
}

static weft_status find_interval(plan_builder *b, const plan_edit_state *e, plan_flat_param *p)
{
    const char *owner = NULL;
    for (uint32_t i = 0; i < e->updates.n; i++) {
        const plan_update_edit *x = &e->updates.at[i];
        const uint32_t number = number_of(b, x); /* also on stages without such a parameter */
        if (!graph_glob_match_role(x->glob, p->name, p->role))
            continue;
        if (p->interval && p->interval != number)
            return err_fail(WEFT_USAGE,
                            "%s and %s update %s in different steps; one update_every() may match "
                            "a parameter",
                            owner, x->owner, p->name);
        owner = x->owner;
        p->interval = number;
    }
    if (!p->interval)
        return WEFT_OK;
    plan_interval *k = &b->p->intervals.at[p->interval - 1];
    k->params++;
    k->elements += p->count;
    p->adds = k->mean;
    return WEFT_OK;
}

static weft_status check_mean(const plan_builder *b, const plan_flat_param *p)
{
    const spec *s = b->p->spec;
    const char *owner = b->p->intervals.at[p->interval - 1].owner, *why = NULL;
    for (uint32_t a = 0; a < s->mesh.n; a++)
        if (s->axis_compress[a])
            why = "sums of gradients are compressed; leave out comm.compress";
    if (s->scaled)
        why = "the loss scale of fp16 may change between them; take train.precision = bf16";
    if (p->every_axes)
        why = "they are summed after every micro-batch; take a placement that shards less";
    if (plan_flat_shared(b->f, b->stages, p->block))
        why = "several pipeline stages use the parameter";
    return !why ? WEFT_OK
                : err_fail(WEFT_UNSUPPORTED,
                           "%s updates %s with the mean of several steps' gradients, and %s", owner,
                           p->name, why);
}

/* An op adds to all of its outputs or to none. So the gradients that it writes beside one that adds
 * up over steps do so over micro-batches; they are cleared in every step. */
static bool spread(const plan_builder *b, const graph_node *n)
{
    bool adds = false, news = false;
    for (uint32_t k = 0; k < n->nout; k++) {
        const plan_flat_param *p = plan_flat_of_grad(b->f, b->g, n->out[k]);
        adds |= p && p->adds;
    }
    for (uint32_t k = 0; k < n->nout && adds; k++) {
        plan_flat_param *p = plan_flat_of_grad(b->f, b->g, n->out[k]);
        news |= p && !p->adds;
        if (p)
            p->adds = true;
    }
    return news;
}

weft_status plan_interval_prepare(plan_builder *b)
{
    const plan_edit_state *e = b->edits;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && e->updates.n && i < b->f->params.n; i++)
        st = find_interval(b, e, &b->f->params.at[i]);
    for (uint32_t i = 0; st == WEFT_OK && i < b->f->params.n; i++)
        if (b->f->params.at[i].adds)
            st = check_mean(b, &b->f->params.at[i]);
    bool news = b->p->intervals.n;
    while (st == WEFT_OK && news) {
        news = false;
        for (uint32_t i = 0; i < b->g->nodes.n; i++)
            news |= spread(b, &b->g->nodes.at[i]);
    }
    return st;
}

weft_status plan_interval_clear(plan_builder *b, plan_list *l)
{
    const plan_flat *f = b->f;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < f->params.n; i++) {
        const plan_flat_param *p = &f->params.at[i];
        if (!p->adds || !p->count)
            continue;
        const uint64_t at = f->grads + plan_flat_index(f, p->first, FLAT_GRADS) * f->grad_size;
        uint64_t bases[BASE_FIRST + 1] = {[BASE_FIRST] = at};
        const uint32_t seg = plan_segment_begin(b->p, "clear a gradient");
        st = plan_segment_add_fill(b->p, seg, b->g->grad_dtype, p->count, 0,
                                   (plan_ref){BASE_FIRST, 0, 0});
        if (st != WEFT_OK)
            break;
        l->interval = plan_interval_sums(b->p, p->interval) ? p->interval : 0;
        plan_list_call(b->p, l, plan_segment_end(b->p, seg, BASE_FIRST + 1), bases, BASE_FIRST + 1,
                       0, pool_printf(&b->p->pool, "clear the gradient of %s", p->name));
        l->interval = 0;
    }
    return st;
}
