/* plan/layout/layout.c: places parameters in flat ranges of elements (see layout.h).
 *
 * The order comes first, block by block with matrices first. When the edits have decided what is
 * sharded, the offsets follow. A block that is sharded over N coordinates consists of groups, and a
 * group of N slices: as many parameters of one kind as fit into a bucket, padded so that the slices
 * are equal and aligned. */
#include "plan/layout/layout.h"

#include "base/err.h"
#include "base/number/digest.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN_ELEMENTS 32u

static uint64_t aligned(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Which stages use each parameter: bit 0 the one being planned, bit 1 another. [tensor] */
static uint8_t *find_users(const graph *g, const struct plan_stage_map *stages, pool *texts)
{
    uint8_t *users = pool_array(texts, g->tensors.n + 1, 1);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i].nin; k++)
            users[g->nodes.at[i].in[k]] |= plan_stage_here(stages, g->nodes.at[i].block) ? 1 : 2;
    for (uint32_t i = 0; i < g->tensors.n; i++) /* an unused one belongs to its block's stage */
        if (g->tensors.at[i].kind == WEFT_T_PARAM && !users[i + 1])
            users[i + 1] = plan_stage_here(stages, g->tensors.at[i].block) ? 1 : 2;
    return users;
}

/* Names are looked for once an op or list entry. */
static uint64_t digest_of(const char *name)
{
    uint64_t digest = DIGEST_BEGIN;
    digest_mix(&digest, name, strlen(name));
    return digest;
}

static void add_param(const graph *g, const struct plan_stage_map *stages, pool *texts,
                      plan_flat *f, weft_tensor at_tensor)
{
    const graph_tensor *t = graph_tensor_at(g, at_tensor);
    plan_flat_param *p = vec_push(&f->params);
    *p = (plan_flat_param){.block = f->blocks.n - 1, .flags = t->flags};
    p->name = pool_text(texts, t->name); /* the layout outlives the graph */
    *vec_push(&f->param_names) = digest_of(p->name);
    p->role = t->role ? pool_text(texts, t->role) : NULL;
    p->init = pool_text(texts, t->init);
    p->local = graph_local_shape(g, at_tensor);
    p->whole = t->shape;
    memcpy(p->place, t->place, sizeof p->place);
    for (uint32_t k = 0; k < t->shape.rank; k++)
        p->whole.axes[k].name = p->local.axes[k].name = pool_text(texts, t->shape.axes[k].name);
    p->count = graph_shape_elements(&p->local);
    p->cut_axes = graph_axes(g, at_tensor, WEFT_SPLIT);
    if (t->grad)
        p->partial_axes = graph_axes(g, t->grad, WEFT_PARTIAL_SUM);
    p->not_owned = !plan_stage_here(stages, t->block);
    plan_flat_block *k = &f->blocks.at[p->block];
    k->params++;
    k->matrices += t->flags & WEFT_PARAM_MATRIX ? 1 : 0;
}

static void begin_block(plan_flat *f, const char *name)
{
    *vec_push(&f->blocks) = (plan_flat_block){.name = name, .first_param = f->params.n};
    *vec_push(&f->block_names) = digest_of(name);
}

/* The order within a block: matrices, the split ones next to the other split parameters, so that
 * gradients that are summed over the same axes are contiguous. */
static uint32_t rank_of(const graph *g, weft_tensor t)
{
    const bool cut = graph_axes(g, t, WEFT_SPLIT) != 0;
    const bool matrix = graph_tensor_at(g, t)->flags & WEFT_PARAM_MATRIX;
    return matrix ? cut : 3 - cut;
}

void plan_flat_list(const graph *g, const struct plan_stage_map *stages, pool *texts,
                    plan_flat *out)
{
    uint8_t *users = find_users(g, stages, texts);
    out->compute_size = (uint32_t)weft_dtype_size(g->compute);
    out->grad_size = (uint32_t)weft_dtype_size(g->grad_dtype);
    for (uint32_t i = 1; i <= g->tensors.n; i++) {
        const graph_tensor *t = graph_tensor_at(g, i);
        if (t->kind != WEFT_T_PARAM || users[i] != 3)
            continue;
        begin_block(out, pool_text(texts, t->name));
        add_param(g, stages, texts, out, i);
    }
    for (uint32_t b = 0; b < g->blocks.n; b++) {
        begin_block(out, pool_text(texts, g->blocks.at[b]));
        for (uint32_t rank = 0; rank < 4; rank++)
            for (uint32_t i = 1; i <= g->tensors.n; i++) {
                const graph_tensor *t = graph_tensor_at(g, i);
                if (t->kind == WEFT_T_PARAM && t->block == b && users[i] == 1 &&
                    rank_of(g, i) == rank)
                    add_param(g, stages, texts, out, i);
            }
    }
}

/* --- offsets --- */

static void place_whole(plan_flat *f, plan_flat_block *k, uint64_t at)
{
    for (uint32_t i = 0; i < k->params; i++) {
        plan_flat_param *p = &f->params.at[k->first_param + i];
        p->first = at;
        at += aligned(p->count, ALIGN_ELEMENTS);
        if (i + 1 == k->matrices)
            k->matrices_end = at;
    }
    k->end = at;
}

/* May parameter `p` be in the group whose first parameter is `first`? */
static bool alike(const plan_flat_param *first, const plan_flat_param *p)
{
    return first->flags == p->flags && first->sum_axes == p->sum_axes &&
           first->cut_axes == p->cut_axes && first->interval == p->interval &&
           first->rule_group == p->rule_group;
}

/* The end of the last group, whose parameters end at `at`. */
static uint64_t end_group(plan_flat *f, const plan_flat_block *k, uint64_t at)
{
    plan_flat_group *x = &f->groups.at[f->groups.n - 1];
    x->count = aligned(at - x->at[0], (uint64_t)k->parts * ALIGN_ELEMENTS);
    return x->at[0] + x->count;
}

static void place_groups(plan_flat *f, plan_flat_block *k, uint64_t at, uint64_t max)
{
    const plan_flat_param *first = NULL;
    k->first_group = f->groups.n;
    for (uint32_t i = 0; i < k->params; i++) {
        plan_flat_param *p = &f->params.at[k->first_param + i];
        if (!first || !alike(first, p) || at + p->count - first->first > max) {
            at = first ? end_group(f, k, at) : at;
            *vec_push(&f->groups) =
                (plan_flat_group){.block = p->block,
                                  .flags = p->flags,
                                  .interval = p->interval,
                                  .rule_group = p->rule_group,
                                  .not_owned = p->not_owned,
                                  .at = {at},
                                  .sum_axes = p->sum_axes,
                                  .differ = p->cut_axes | (uint64_t)1 << k->axis};
            first = p;
        }
        p->group = f->groups.n - 1;
        p->first = at;
        at += aligned(p->count, ALIGN_ELEMENTS);
    }
    k->groups = f->groups.n - k->first_group;
    k->end = first ? end_group(f, k, at) : at;
}

/* Set the offsets of the block and its groups in regions that have only slices of what is sharded
 * at their level. */
static void place_in_regions(plan_flat *f, plan_flat_block *k)
{
    for (uint32_t level = FLAT_STATE; level <= FLAT_PARAMS; level++) {
        uint64_t parts = k->level >= level ? k->parts : 1;
        k->at[level] = f->size[level];
        for (uint32_t i = 0; i < k->groups; i++) {
            plan_flat_group *x = &f->groups.at[k->first_group + i];
            x->at[level] = f->size[level] + (x->at[0] - k->first) / parts;
        }
        f->size[level] += (k->end - k->first) / parts;
    }
}

weft_status plan_flat_place(plan_flat *f, uint64_t max)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < f->blocks.n; i++) {
        plan_flat_block *k = &f->blocks.at[i];
        k->first = k->matrices_end = at;
        if (k->level)
            place_groups(f, k, at, max);
        else
            place_whole(f, k, at);
        at = k->end;
        place_in_regions(f, k);
    }
    if (at > UINT64_MAX / 64)
        return err_fail(WEFT_USAGE, "the model has too many parameters to address");
    return WEFT_OK;
}

uint64_t plan_flat_index(const plan_flat *f, uint64_t element, uint32_t level)
{
    uint32_t low = 0, high = f->blocks.n; /* the last block that begins at or before it */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (f->blocks.at[middle].first <= element)
            low = middle;
        else
            high = middle;
    }
    const plan_flat_block *k = &f->blocks.at[low];
    return k->at[level] + element - k->first;
}

plan_flat_slice plan_flat_own(const plan_flat *f, uint32_t group, uint32_t level, uint64_t region,
                              uint64_t size)
{
    const plan_flat_group *x = &f->groups.at[group];
    const plan_flat_block *k = &f->blocks.at[x->block];
    uint64_t slice = x->count / k->parts;
    return (plan_flat_slice){region + x->at[level] * size, k->level < level ? slice * size : 0};
}

const plan_flat_param *plan_flat_find(const plan_flat *f, const char *name)
{
    const uint64_t digest = digest_of(name);
    for (uint32_t i = 0; i < f->params.n; i++)
        if (f->param_names.at[i] == digest && !strcmp(f->params.at[i].name, name))
            return &f->params.at[i];
    return NULL;
}

plan_flat_param *plan_flat_of_grad(const plan_flat *f, const graph *g, weft_tensor grad)
{
    const graph_tensor *t = graph_tensor_at(g, grad);
    const plan_flat_param *p =
        t->kind == WEFT_T_GRAD ? plan_flat_find(f, graph_tensor_at(g, t->of)->name) : NULL;
    return p ? &f->params.at[p - f->params.at] : NULL;
}

int plan_flat_block_of(const plan_flat *f, const char *name)
{
    const uint64_t digest = digest_of(name);
    for (uint32_t i = 0; i < f->blocks.n; i++)
        if (f->block_names.at[i] == digest && !strcmp(f->blocks.at[i].name, name))
            return (int)i;
    return -1;
}

int plan_flat_state_of(const plan_flat *f, const char *suffix)
{
    for (uint32_t i = 0; i < f->states.n; i++)
        if (!strcmp(f->states.at[i].name, suffix))
            return (int)i;
    return -1;
}

bool plan_flat_state_add(plan_flat *f, pool *texts, const char *suffix, const graph_tensor *x)
{
    const char *init = x->init ? x->init : "";
    const int at = plan_flat_state_of(f, suffix);
    const plan_flat_state *k = at < 0 ? NULL : &f->states.at[at];
    if (!k)
        *vec_push(&f->states) = (plan_flat_state){
            pool_text(texts, suffix), *init ? pool_text(texts, init) : NULL, x->shape.dtype, 0};
    return !k || (k->dtype == x->shape.dtype && !strcmp(k->init ? k->init : "", init));
}

bool plan_flat_shared(const plan_flat *f, const struct plan_stage_map *stages, uint32_t block)
{
    const plan_flat_block *k = &f->blocks.at[block];
    return stages->axis >= 0 && k->params && !strcmp(k->name, f->params.at[k->first_param].name);
}

uint64_t plan_flat_unsummed_axes(const plan_flat *f)
{
    uint64_t never = 0, summed = 0;
    for (uint32_t i = 0; i < f->params.n; i++) {
        never |= f->params.at[i].never_axes & f->params.at[i].partial_axes;
        summed |= f->params.at[i].sum_axes;
    }
    return never & ~summed;
}

void plan_flat_free(plan_flat *f)
{
    free(f->params.at);
    free(f->param_names.at);
    free(f->block_names.at);
    free(f->blocks.at);
    free(f->groups.at);
    free(f->states.at);
    free(f->own_states.at);
}
