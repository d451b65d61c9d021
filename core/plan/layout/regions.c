/* plan/layout/regions.c: places the regions in the arena and adds up their bytes. */
#include "plan/layout/regions.h"

#include "base/err.h"
#include "graph/inputs.h"
#include "plan/builder.h"
#include "plan/collective.h"
#include "plan/scalar.h"

/* Ranks read their own rows: all inputs are split along them, over the same mesh axes. */
static weft_status check_split(const graph *g, const graph_tensor *first, const graph_tensor *t)
{
    for (uint32_t a = 0; a < g->mesh->n; a++) {
        const bool cuts = t->place[a].kind == WEFT_SPLIT;
        if (cuts && t->place[a].axis)
            return err_fail(WEFT_UNSUPPORTED,
                            "the input '%s' is split over %s along its axis '%s'; inputs are split "
                            "along their first axis alone",
                            t->name, g->mesh->name[a], t->shape.axes[t->place[a].axis].name);
        if (cuts != (first->place[a].kind == WEFT_SPLIT))
            return err_fail(WEFT_USAGE,
                            "of the inputs '%s' and '%s' one alone is split over %s; a strategy "
                            "splits all inputs, which are the tensors \"@input\"",
                            first->name, t->name, g->mesh->name[a]);
    }
    return WEFT_OK;
}

static weft_status count_inputs(plan *p, const graph *g, uint64_t *at)
{
    const weft_tensor first = graph_first_input(g);
    for (uint32_t i = 0; i < g->tensors.n; i++) {
        const graph_tensor *t = &g->tensors.at[i];
        if (t->kind != WEFT_T_INPUT)
            continue;
        weft_status st = t->shape.rank ? check_split(g, graph_tensor_at(g, first), t) : WEFT_OK;
        if (st != WEFT_OK)
            return st;
        weft_shape local = graph_local_shape(g, i + 1);
        plan_input_slot *x = vec_push(&p->inputs);
        *x = (plan_input_slot){.name = pool_text(&p->pool, t->name),
                               .offset = *at,
                               .elements = graph_shape_elements(&local),
                               .bytes = graph_shape_bytes(&local),
                               .dtype = local.dtype,
                               .rank = local.rank};
        x->stride = (x->bytes + 63) & ~(uint64_t)63;
        *at += x->stride * p->micro_batches;
    }
    return WEFT_OK;
}

static uint64_t region(uint64_t *at, uint64_t bytes)
{
    uint64_t here = *at;
    *at = (*at + bytes + 4095) & ~(uint64_t)4095;
    return here;
}

weft_status plan_regions_params(plan_builder *b)
{
    plan *p = b->p;
    plan_flat *f = b->f;
    uint64_t at = MAX_SCALARS * SCALAR_BYTES;
    weft_status st = count_inputs(p, b->g, &at);
    if (st != WEFT_OK)
        return st;
    p->bytes.activations = at = (at + 4095) & ~(uint64_t)4095;
    f->compute = f->master = region(&at, f->size[FLAT_PARAMS] * f->compute_size);
    p->bytes.params = at - f->compute;
    uint64_t start = at;
    if (f->compute_size != 4)
        f->master = region(&at, f->size[FLAT_STATE] * 4);
    p->bytes.state = at - start;
    b->zones.zone = at;
    return WEFT_OK;
}

static void set_block_bases(plan_builder *b)
{
    const plan_flat *f = b->f;
    b->bases.params = pool_array(&b->p->pool, f->blocks.n, sizeof *b->bases.params);
    b->bases.grads = pool_array(&b->p->pool, f->blocks.n, sizeof *b->bases.grads);
    for (uint32_t i = 0; i < f->blocks.n; i++) {
        b->bases.params[i] = f->compute + f->blocks.at[i].at[FLAT_PARAMS] * f->compute_size;
        b->bases.grads[i] = f->grads + f->blocks.at[i].at[FLAT_GRADS] * f->grad_size;
    }
}

weft_status plan_regions_state(plan_builder *b)
{
    plan_flat *f = b->f;
    uint64_t at = b->zones.zone;
    for (uint32_t i = 0; i < f->states.n; i++)
        f->states.at[i].offset =
            region(&at, f->size[FLAT_STATE] * weft_dtype_size(f->states.at[i].dtype));
    for (uint32_t i = 0; i < f->own_states.n; i++) {
        plan_own_state *x = &f->own_states.at[i];
        x->offset = at;
        at += (x->elements * weft_dtype_size(x->whole.dtype) + 63) & ~(uint64_t)63;
    }
    at = (at + 4095) & ~(uint64_t)4095;
    b->p->bytes.state += at - b->zones.zone;
    uint64_t start = at;
    if (b->p->spec->want == SPEC_TRAIN)
        f->grads = region(&at, f->size[FLAT_GRADS] * f->grad_size);
    b->p->bytes.grads = at - start;
    b->zones.zone = at;
    set_block_bases(b);
    return WEFT_OK;
}

void plan_regions_finish(plan_builder *b)
{
    plan *p = b->p;
    const plan_flat *f = b->f;
    uint64_t at = (b->zones.zone + b->zones.activations.top + 4095) & ~(uint64_t)4095, max = 0;
    for (uint32_t i = 0; i < p->kernels.n; i++)
        max = p->kernels.at[i].workspace > max ? p->kernels.at[i].workspace : max;
    p->workspace = at;
    at = (at + max + 4095) & ~(uint64_t)4095;
    p->bytes.activations += at - b->zones.zone;
    for (uint32_t i = 0; i < p->collectives.n; i++) {
        plan_collective *c = &p->collectives.at[i];
        c->scratch += plan_channel_in_host(p, c->channel) ? 0 : at;
    }
    p->bytes.host = (b->zones.host.top + 4095) & ~(uint64_t)4095;
    p->bytes.comm = (b->zones.comm.top + 4095) & ~(uint64_t)4095;
    p->bytes.peak = at + p->bytes.comm;
    for (uint32_t i = 0; i < f->params.n; i++)
        if (!f->params.at[i].not_owned)
            p->param_elements += graph_shape_elements(&f->params.at[i].whole);
}
