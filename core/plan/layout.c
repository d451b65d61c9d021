/* plan/layout.c: parameters in flat ranges of elements (see build.h). */
#include "base/err.h"
#include "plan/build.h"

#include <string.h>

#define ALIGN_ELEMENTS 32u

static uint64_t partial_axes(const graph *g, weft_tensor grad)
{
    uint64_t axes = 0;
    for (uint32_t a = 0; grad && a < g->mesh->n; a++)
        if (graph_tensor(g, grad)->place[a].kind == WEFT_PARTIAL_SUM)
            axes |= 1u << a;
    return axes;
}

/* Which stages use each parameter: bit 0 the one being planned, bit 1 another. [tensor] */
static uint8_t *find_users(const graph *g, const struct stage_map *stages, pool *texts)
{
    uint8_t *users = pool_array(texts, g->tensors.n + 1, 1);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i].nin; k++)
            users[g->nodes.at[i].in[k]] |= stage_here(stages, g->nodes.at[i].block) ? 1 : 2;
    for (uint32_t i = 0; i < g->tensors.n; i++) /* one that nothing reads is at home */
        if (g->tensors.at[i].kind == WEFT_T_PARAM && !users[i + 1])
            users[i + 1] = stage_here(stages, g->tensors.at[i].block) ? 1 : 2;
    return users;
}

static uint64_t add_param(const graph *g, const struct stage_map *stages, pool *texts, flat *f,
                          weft_tensor at_tensor, uint64_t at)
{
    const tensor *t = graph_tensor(g, at_tensor);
    flat_param *p = vec_push(&f->params);
    *p = (flat_param){.block = f->blocks.n - 1, .flags = t->flags, .first = at};
    p->name = pool_text(texts, t->name); /* the layout outlives the graph */
    p->init = pool_text(texts, t->init);
    p->local = graph_local(g, at_tensor);
    p->whole = t->shape;
    memcpy(p->place, t->place, sizeof p->place);
    for (uint32_t k = 0; k < t->shape.rank; k++)
        p->whole.axes[k].name = p->local.axes[k].name = pool_text(texts, t->shape.axes[k].name);
    p->count = shape_elements(&p->local);
    p->sync_axes = partial_axes(g, t->grad);
    p->guest = !stage_here(stages, t->block);
    return at + (p->count + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
}

static void begin_block(flat *f, const char *name, uint64_t at)
{
    *vec_push(&f->blocks) = (flat_block){name, at, at, at};
}

weft_status flat_layout(const graph *g, const struct stage_map *stages, pool *texts, flat *out)
{
    uint64_t at = 0;
    uint8_t *users = find_users(g, stages, texts);
    for (uint32_t i = 1; i <= g->tensors.n; i++) {
        const tensor *t = graph_tensor(g, i);
        if (t->kind != WEFT_T_PARAM || users[i] != 3)
            continue;
        begin_block(out, pool_text(texts, t->name), at);
        at = add_param(g, stages, texts, out, i, at);
        flat_block *fb = &out->blocks.at[out->blocks.n - 1];
        fb->end = at;
        fb->matrices_end = t->flags & WEFT_PARAM_MATRIX ? at : fb->first;
    }
    for (uint32_t b = 0; b < g->blocks.n; b++) {
        begin_block(out, pool_text(texts, g->blocks.at[b]), at);
        for (uint32_t matrices = 2; matrices-- > 0;) {
            for (uint32_t i = 1; i <= g->tensors.n; i++) {
                const tensor *t = graph_tensor(g, i);
                if (t->kind == WEFT_T_PARAM && t->block == b && users[i] == 1 &&
                    !(t->flags & WEFT_PARAM_MATRIX) == !matrices)
                    at = add_param(g, stages, texts, out, i, at);
            }
            *(matrices ? &out->blocks.at[out->blocks.n - 1].matrices_end
                       : &out->blocks.at[out->blocks.n - 1].end) = at;
        }
    }
    out->elements = at;
    if (at > UINT64_MAX / 64)
        return fail(WEFT_USAGE, "the model has too many parameters to address");
    return WEFT_OK;
}

const flat_param *flat_find(const flat *f, const char *name)
{
    for (uint32_t i = 0; i < f->params.n; i++)
        if (!strcmp(f->params.at[i].name, name))
            return &f->params.at[i];
    return NULL;
}

int flat_block_of(const flat *f, const char *name)
{
    for (uint32_t i = 0; i < f->blocks.n; i++)
        if (!strcmp(f->blocks.at[i].name, name))
            return (int)i;
    return -1;
}
