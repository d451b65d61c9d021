/* plan/plan.c: queries of a finished plan: offsets, ranks, bytes; and plan_free(). */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

uint64_t plan_scalar(const plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->scalars.n; i++)
        if (!strcmp(p->scalars.at[i].name, name))
            return p->scalars.at[i].offset;
    return UINT64_MAX;
}

uint32_t plan_data_part(const plan *p, uint32_t rank)
{
    return graph_mesh_part(&p->spec->mesh, rank, p->data_axes);
}

uint32_t plan_token_part(const plan *p, uint32_t rank)
{
    return graph_mesh_part(&p->spec->mesh, rank, p->cut_axes);
}

const plan *plan_of(const plan_set *p, uint32_t rank)
{
    return &p->at[p->stage_axis < 0
                      ? 0
                      : graph_mesh_coord(&p->spec->mesh, rank, (uint32_t)p->stage_axis)];
}

uint32_t plan_group(const plan *p, uint32_t number, uint32_t rank, uint32_t *out, uint32_t *me)
{
    const graph_mesh *m = &p->spec->mesh;
    const plan_channel *ch = &p->channels.at[number];
    uint32_t n = ch->coords ? ch->ncoords : m->size[ch->mesh_axis], mine = n;
    *me = 0;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = graph_mesh_rank_at(m, rank, ch->mesh_axis, ch->coords ? ch->coords[i] : i);
        if (out[i] == rank)
            *me = mine = i;
    }
    return mine == n ? 0 : n;
}

uint64_t *plan_bases(const plan *p, uint32_t rank)
{
    uint64_t *at = mem_alloc(p->bases.n * sizeof *at + 1);
    if (p->bases.n)
        memcpy(at, p->bases.at, p->bases.n * sizeof *at);
    for (uint32_t i = 0; i < p->shifts.n; i++) {
        const plan_shift *x = &p->shifts.at[i];
        at[x->base] += x->stride * graph_mesh_coord(&p->spec->mesh, rank, x->mesh_axis);
    }
    return at;
}

/* Of steps 1 ... last, how many run the entries of an interval (0: all). */
static uint64_t runs_until(const plan *p, uint32_t number, uint64_t last)
{
    const plan_interval *x = number ? &p->intervals.at[number - 1] : NULL;
    return !x ? last : last > x->from ? (last - x->from) / x->every : 0;
}

bool plan_runs(const plan *p, const plan_entry *e, uint64_t step)
{
    return !e->interval ||
           runs_until(p, e->interval, step) > runs_until(p, e->interval, step ? step - 1 : 0);
}

static void list_free(plan_list *l)
{
    free(l->entries.at);
}

static void free_one(plan *p)
{
    list_free(&p->step);
    list_free(&p->eval);
    list_free(&p->save);
    for (uint32_t i = 0; i < p->extra.n; i++)
        list_free(&p->extra.at[i].l);
    free(p->extra.at);
    free(p->intervals.at);
    free(p->groups.at);
    free(p->kernels.at);
    free(p->instrs.at);
    free(p->refs.at);
    free(p->segments.at);
    free(p->bases.at);
    free(p->channels.at);
    free(p->collectives.at);
    free(p->pieces.at);
    free(p->inputs.at);
    free(p->scalars.at);
    free(p->shifts.at);
    free(p->caches.at);
    free(p->cells.at);
    pool_free(&p->pool);
}

void plan_free(plan_set *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        free_one(&p->at[i]);
    free(p->at);
    free(p->timings.at);
    *p = (plan_set){0};
}
