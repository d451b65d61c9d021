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

/* Parameters of block `b` that are (or are not) matrices, appended in the order of the graph. */
static uint64_t add_group(const graph *g, pool *texts, flat *f, uint32_t b, uint32_t matrix,
                          uint64_t at)
{
    for (uint32_t i = 0; i < g->tensors.n; i++) {
        const tensor *t = &g->tensors.at[i];
        if (t->kind != WEFT_T_PARAM || t->block != b || (t->flags & WEFT_PARAM_MATRIX) != matrix)
            continue;
        flat_param *p = vec_push(&f->params);
        *p = (flat_param){.block = b, .flags = t->flags, .first = at};
        p->name = pool_text(texts, t->name); /* the layout outlives the graph */
        p->init = pool_text(texts, t->init);
        p->local = graph_local(g, i + 1);
        p->whole = t->shape;
        memcpy(p->place, t->place, sizeof p->place);
        for (uint32_t k = 0; k < t->shape.rank; k++)
            p->whole.axes[k].name = p->local.axes[k].name = pool_text(texts, t->shape.axes[k].name);
        p->count = shape_elements(&p->local);
        p->sync_axes = partial_axes(g, t->grad);
        at += (p->count + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
    }
    return at;
}

weft_status flat_layout(const graph *g, pool *texts, flat *out)
{
    uint64_t at = 0;
    for (uint32_t b = 0; b < g->blocks.n; b++) {
        flat_block *fb = vec_push(&out->blocks);
        fb->name = pool_text(texts, g->blocks.at[b]);
        fb->first = at;
        at = add_group(g, texts, out, b, WEFT_PARAM_MATRIX, at);
        fb->matrices_end = at;
        at = add_group(g, texts, out, b, 0, at);
        fb->end = at;
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
