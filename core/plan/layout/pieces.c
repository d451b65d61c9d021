/* plan/layout/pieces.c: lists parameters and states for checkpoints; extent.c chooses writers. */
#include "plan/builder.h"
#include "plan/emit.h"

/* Offset of a parameter, or of its group, in a region that is sharded from `level` on. */
static uint64_t piece_at(const plan_flat *f, const plan_flat_param *p, uint32_t level,
                         uint64_t region, uint64_t size)
{
    if (f->blocks.at[p->block].level)
        return plan_flat_own(f, p->group, level, region, size).at;
    return region + plan_flat_index(f, p->first, level) * size;
}

static void set_slices(const plan_flat *f, const plan_flat_param *p, uint32_t level, plan_piece *x)
{
    const plan_flat_block *k = &f->blocks.at[p->block];
    if (!k->level)
        return;
    x->shard_axis = 1 + k->axis;
    x->pos = p->first - f->groups.at[p->group].at[0];
    x->slice = f->groups.at[p->group].count / k->parts;
    x->sliced = k->level >= level;
    x->copy_sliced = k->level >= FLAT_PARAMS;
}

static const char *text(plan_builder *b, const char *of)
{
    return of ? pool_text(&b->p->pool, of) : NULL;
}

/* A piece of a parameter or of its state `suffix`, placed over the mesh. A single number is an axis
 * of one element. */
static plan_piece *add_placed(plan_builder *b, const plan_flat_param *p, const char *suffix,
                              const weft_shape *whole, const weft_place *place)
{
    plan *pl = b->p;
    plan_piece *x = vec_push(&pl->pieces);
    *x = (plan_piece){.param = pool_text(&pl->pool, p->name), .shape = *whole, .copy = UINT64_MAX};
    x->name = suffix ? pool_printf(&pl->pool, "%s.%s", p->name, suffix) : x->param;
    if (!x->shape.rank)
        x->shape.axes[x->shape.rank++] = (weft_axis){"number", 1};
    for (uint32_t i = 0; i < x->shape.rank; i++)
        x->shape.axes[i].name = pool_text(&pl->pool, x->shape.axes[i].name);
    for (uint32_t a = 0; a < WEFT_MAX_MESH; a++) {
        x->split[a] = place[a].kind == WEFT_SPLIT ? 1 + place[a].axis : 0;
        x->only[a] = place[a].kind == WEFT_HELD ? 1 + place[a].axis : 0;
    }
    if (b->stages->axis >= 0)
        x->only[b->stages->axis] = 1 + b->stages->mine;
    x->replica_axes = p->never_axes & p->partial_axes;
    x->writer = p->not_owned ? PLAN_WRITER_ELSEWHERE : 0;
    return x;
}

static void add_param(plan_builder *b, const plan_flat_param *p)
{
    const plan_flat *f = b->f;
    uint32_t level = f->compute == f->master ? FLAT_PARAMS : FLAT_STATE;
    weft_shape whole = p->whole;
    whole.dtype = WEFT_F32;
    plan_piece *x = add_placed(b, p, NULL, &whole, p->place);
    x->init = text(b, p->init);
    set_slices(f, p, level, x);
    x->offset = piece_at(f, p, level, f->master, 4);
    if (f->compute != f->master) {
        x->copy = piece_at(f, p, FLAT_PARAMS, f->compute, f->compute_size);
        x->copy_dtype = b->g->compute;
    }
}

static void add_flat_state(plan_builder *b, const plan_flat_param *p, const plan_flat_state *k)
{
    weft_shape whole = p->whole;
    whole.dtype = k->dtype;
    plan_piece *x = add_placed(b, p, k->name, &whole, p->place);
    x->init = text(b, k->init);
    set_slices(b->f, p, FLAT_STATE, x);
    x->offset = piece_at(b->f, p, FLAT_STATE, k->offset, weft_dtype_size(k->dtype));
}

static void add_own_state(plan_builder *b, const plan_own_state *k)
{
    const plan_flat_param *p = &b->f->params.at[k->param];
    plan_piece *x = add_placed(b, p, k->name, &k->whole, k->place);
    x->init = text(b, k->init);
    if (k->sliced)
        set_slices(b->f, p, FLAT_STATE, x);
    x->offset = k->offset;
}

/* What the steps since its last update have added up, on each coordinate by itself. */
static void add_gradient(plan_builder *b, const plan_flat_param *p)
{
    weft_shape whole = p->whole;
    whole.dtype = b->g->grad_dtype;
    plan_piece *x = add_placed(b, p, "gradient", &whole, p->place);
    x->replica_axes |= p->partial_axes;
    x->sum = true;
    x->offset = b->f->grads + plan_flat_index(b->f, p->first, FLAT_GRADS) * b->f->grad_size;
}

weft_status plan_pieces(plan_builder *b)
{
    plan *p = b->p;
    const plan_flat *f = b->f;
    for (uint32_t i = 0, own = 0; i < f->params.n; i++) {
        add_param(b, &f->params.at[i]);
        for (uint32_t k = 0; k < f->states.n; k++)
            add_flat_state(b, &f->params.at[i], &f->states.at[k]);
        for (; own < f->own_states.n && f->own_states.at[own].param == i; own++)
            add_own_state(b, &f->own_states.at[own]);
        if (plan_interval_sums(p, f->params.at[i].interval))
            add_gradient(b, &f->params.at[i]);
    }
    plan_choose_writers(p);
    for (uint32_t i = 0; i < p->pieces.n; i++)
        plan_list_add(p, &p->save, ENTRY_WRITE, i, 0, p->pieces.at[i].name);
    return WEFT_OK;
}
