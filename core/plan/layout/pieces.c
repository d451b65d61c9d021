/* plan/layout/pieces.c: lists parameters and states for checkpoints; extent.c chooses writers. */
#include "plan/builder.h"
#include "plan/emit.h"

#include <string.h>

/* Offset of a parameter, or of its group, in a region that is sharded from `level` on. */
static uint64_t piece_at(const flat *f, const flat_param *p, uint32_t level, uint64_t region,
                         uint64_t size)
{
    if (f->blocks.at[p->block].level)
        return plan_flat_own(f, p->group, level, region, size).at;
    return region + plan_flat_index(f, p->first, level) * size;
}

static void set_slices(const flat *f, const flat_param *p, uint32_t level, piece *x)
{
    const flat_block *k = &f->blocks.at[p->block];
    if (!k->level)
        return;
    x->shard_axis = 1 + k->axis;
    x->pos = p->first - f->groups.at[p->group].at[0];
    x->slice = f->groups.at[p->group].count / k->parts;
    x->sliced = k->level >= level;
    x->copy_sliced = k->level >= FLAT_PARAMS;
}

static void add_piece(builder *b, const flat_param *p, const char *suffix, uint64_t region,
                      uint32_t level)
{
    plan *pl = b->p;
    piece *x = vec_push(&pl->pieces);
    *x = (piece){.param = pool_text(&pl->pool, p->name), .copy = UINT64_MAX};
    x->name = suffix ? pool_printf(&pl->pool, "%s.%s", p->name, suffix) : x->param;
    x->init = suffix ? NULL : pool_text(&pl->pool, p->init);
    x->shape = p->whole;
    x->shape.dtype = WEFT_F32;
    for (uint32_t i = 0; i < x->shape.rank; i++)
        x->shape.axes[i].name = pool_text(&pl->pool, x->shape.axes[i].name);
    for (uint32_t a = 0; a < WEFT_MAX_MESH; a++) {
        x->split[a] = p->place[a].kind == WEFT_SPLIT ? 1 + p->place[a].axis : 0;
        x->only[a] = p->place[a].kind == WEFT_HELD ? 1 + p->place[a].axis : 0;
    }
    if (b->stages->axis >= 0)
        x->only[b->stages->axis] = 1 + b->stages->mine;
    x->replica_axes = p->never_axes & p->partial_axes;
    x->writer = p->not_owned ? PLAN_WRITER_ELSEWHERE : 0;
    set_slices(b->f, p, level, x);
    x->offset = piece_at(b->f, p, level, region, 4);
    if (!suffix && b->f->compute != b->f->master) {
        x->copy = piece_at(b->f, p, FLAT_PARAMS, b->f->compute, b->f->compute_size);
        x->copy_dtype = b->g->compute;
    }
}

weft_status plan_pieces(builder *b)
{
    plan *p = b->p;
    const flat *f = b->f;
    uint32_t level = f->compute == f->master ? FLAT_PARAMS : FLAT_STATE;
    for (uint32_t i = 0; i < f->params.n; i++) {
        add_piece(b, &f->params.at[i], NULL, f->master, level);
        for (uint32_t k = 0; k < f->states.n; k++)
            add_piece(b, &f->params.at[i], f->states.at[k].name, f->states.at[k].offset,
                      FLAT_STATE);
    }
    plan_choose_writers(p);
    for (uint32_t i = 0; i < p->pieces.n; i++)
        plan_list_add(p, &p->save, ENTRY_WRITE, i, 0, p->pieces.at[i].name);
    return WEFT_OK;
}
