/* graph/cached.c: see cached.h. */
#include "graph/cached.h"

#include "base/err.h"
#include "graph/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const graph_node *n, const char *id)
{
    return !strcmp(n->id, id);
}

static int64_t number(const graph_node *n, const char *key, int64_t dflt)
{
    for (uint32_t i = 0; i < n->nattr; i++)
        if (!strcmp(n->attrs[i].key, key))
            return n->attrs[i].i;
    return dflt;
}

/* --- may it continue a sequence? --- */

static weft_status refuse(const graph *g, const graph_node *n, const char *why)
{
    return err_fail(WEFT_UNSUPPORTED, "the op %s of block %s %s", n->id, g->blocks.at[n->block],
                    why);
}

/* The ops that have a form which reads a cache. */
static weft_status check_known(const graph *g, const graph_node *n, int64_t rows)
{
    if (number(n, "sequence", 0) != rows)
        return refuse(g, n, "takes its rows for more sequences than one");
    if (is(n, "rope"))
        return n->nin == 1 ? WEFT_OK : refuse(g, n, "is given positions of its own");
    if (!number(n, "causal", 1))
        return refuse(g, n, "lets a token attend to later ones, which do not exist yet");
    return n->nin == 1 || n->nin == 3 ? WEFT_OK : refuse(g, n, "has a mask, which a cache has not");
}

/* Any other op: split one row to a rank, it must give rows that are split in the same way. */
static weft_status check_other(graph *g, uint32_t i, weft_place *out)
{
    static const char reads[] =
        "combines rows of a sequence, and there is no form of it that reads a cache";
    const graph_node *n = &g->nodes.at[i];
    bool split = false;
    if (n->comm || n->assign || !n->op)
        return refuse(g, n, "exchanges rows between ranks");
    for (uint32_t k = 0; k < n->nin; k++)
        split |= graph_tensor_at(g, n->in[k])->place[0].kind == WEFT_SPLIT;
    if (!split)
        return WEFT_OK;
    if (graph_shard_node(g, i, 0, out) != WEFT_OK) {
        err_clear();
        return refuse(g, n, reads);
    }
    for (uint32_t k = 0; k < n->nout; k++)
        if (out[k].kind != WEFT_SPLIT || out[k].axis)
            return refuse(g, n, reads);
    return WEFT_OK;
}

static weft_status check_nodes(graph *g, int64_t rows)
{
    weft_status st = WEFT_OK;
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        graph_tensor *x = graph_tensor_at(g, t);
        const bool split = x->kind == WEFT_T_INPUT && x->shape.rank;
        x->place[0] = (weft_place){.kind = split ? WEFT_SPLIT : WEFT_WHOLE};
    }
    for (uint32_t i = 0; st == WEFT_OK && i < g->nodes.n; i++) {
        weft_place out[WEFT_MAX_OPERANDS] = {0};
        const graph_node *n = &g->nodes.at[i];
        const bool known = is(n, "attention") || is(n, "rope");
        st = known ? check_known(g, n, rows) : check_other(g, i, out);
        for (uint32_t k = 0; st == WEFT_OK && k < g->nodes.at[i].nout; k++)
            graph_tensor_at(g, g->nodes.at[i].out[k])->place[0] =
                known ? (weft_place){.kind = WEFT_SPLIT} : out[k];
    }
    return st;
}

weft_status graph_cached_check(graph *g, int64_t rows)
{
    const graph_mesh each = {.n = 1, .name = {"rows"}, .size = {(uint32_t)rows}};
    const graph_mesh *was = g->mesh;
    weft_place *placed = pool_array(&g->pool, g->tensors.n, sizeof *placed);
    const uint32_t tensors = g->tensors.n;
    for (uint32_t i = 0; i < tensors; i++)
        placed[i] = g->tensors.at[i].place[0];
    g->mesh = &each;
    weft_status st = check_nodes(g, rows);
    g->mesh = was;
    for (uint32_t i = 0; i < tensors; i++)
        g->tensors.at[i].place[0] = placed[i];
    return st;
}

/* --- the caches --- */

typedef struct making {
    graph *g;
    int64_t max;
    weft_tensor positions;
    uint32_t attentions;
    graph_nodes nodes;
} making;

/* Runs the builder's op() and moves its node to the list. Its first output becomes `as`. */
static weft_status append(making *m, const graph_node *like, const char *id, const weft_attr *attrs,
                          uint32_t nattr, const weft_tensor *in, uint32_t nin, weft_tensor as)
{
    graph *g = m->g;
    weft_tensor made;
    const weft_builder b = graph_builder(g);
    g->now.block = like->block;
    g->now.phase = like->phase;
    weft_status st = b.op(b.ctx, id, attrs, nattr, in, nin, 0, &made, 1);
    if (st != WEFT_OK)
        return st;
    graph_node n = g->nodes.at[--g->nodes.n];
    graph_tensor_at(g, made)->kind = TENSOR_REMOVED;
    graph_tensor_at(g, made)->producer = 0;
    n.out[0] = as;
    *vec_push(&m->nodes) = n;
    return WEFT_OK;
}

/* The cache of the keys (part 1) or values (part 2) of an attention. */
static weft_tensor add_cache(making *m, const graph_node *n, uint32_t part)
{
    graph *g = m->g;
    const bool joined = n->nin == 1;
    const graph_tensor *from = graph_tensor_at(g, n->in[joined ? 0 : part]);
    const uint32_t heads = joined ? 2 : 1;
    const weft_shape shape = {
        .dtype = from->shape.dtype,
        .rank = 3,
        .axes = {from->shape.axes[heads], {"rows", m->max}, from->shape.axes[heads + 1]}};
    weft_place place[WEFT_MAX_MESH];
    memcpy(place, from->place, sizeof place);
    char name[WEFT_MAX_NAME];
    snprintf(name, sizeof name, "cache.%u.%s", m->attentions, part == 1 ? "k" : "v");
    g->now.block = n->block;
    const weft_tensor cache = graph_add(g, name, WEFT_T_STATE, &shape);
    graph_tensor *t = graph_tensor_at(g, cache);
    for (uint32_t a = 0; a < g->mesh->n; a++)
        if (place[a].kind == WEFT_SPLIT && place[a].axis == heads)
            t->place[a] = (weft_place){.kind = WEFT_SPLIT};
    return cache;
}

static weft_status make_attention(making *m, const graph_node *n)
{
    const bool joined = n->nin == 1;
    weft_tensor cache[3] = {0};
    weft_status st = WEFT_OK;
    for (uint32_t part = 1; st == WEFT_OK && part < 3; part++) {
        const weft_attr attr = {.key = "part", .i = part};
        cache[part] = add_cache(m, n, part);
        const weft_tensor in[] = {cache[part], n->in[joined ? 0 : part], m->positions};
        st = append(m, n, "cache.write", &attr, 1, in, 3, cache[part]);
    }
    const weft_tensor in[] = {n->in[0], cache[1], cache[2], m->positions};
    m->attentions++;
    return st != WEFT_OK ? st : append(m, n, "attention.cached", NULL, 0, in, 4, n->out[0]);
}

/* The table of angles has the positions of the whole cache. */
static weft_status make_rope(making *m, const graph_node *n)
{
    weft_attr attrs[16];
    uint32_t k = 0;
    for (uint32_t i = 0; i < n->nattr && k < 15; i++)
        if (strcmp(n->attrs[i].key, "sequence"))
            attrs[k++] = n->attrs[i];
    attrs[k++] = (weft_attr){.key = "sequence", .i = m->max};
    const weft_tensor in[] = {n->in[0], m->positions};
    return append(m, n, "rope", attrs, k, in, 2, n->out[0]);
}

static weft_status find_positions(making *m)
{
    graph *g = m->g;
    const weft_tensor first = graph_first_input(g), have = graph_find(g, GRAPH_POSITIONS);
    if (!first)
        return err_fail(WEFT_UNSUPPORTED, "the model has no input with rows");
    m->positions = have;
    if (have && graph_tensor_at(g, have)->kind == WEFT_T_INPUT)
        return WEFT_OK;
    const weft_shape shape = {
        .dtype = WEFT_I32, .rank = 1, .axes = {graph_tensor_at(g, first)->shape.axes[0]}};
    m->positions = graph_add(g, GRAPH_POSITIONS, WEFT_T_INPUT, &shape);
    return WEFT_OK;
}

weft_status graph_cached_make(graph *g, int64_t max)
{
    making m = {.g = g, .max = max};
    weft_status st = find_positions(&m);
    const uint32_t n = g->nodes.n;
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
        const graph_node x = g->nodes.at[i]; /* a copy: append() may move the array */
        if (is(&x, "attention"))
            st = make_attention(&m, &x);
        else if (is(&x, "rope"))
            st = make_rope(&m, &x);
        else
            *vec_push(&m.nodes) = x;
    }
    if (st == WEFT_OK && !m.attentions)
        st = err_fail(WEFT_UNSUPPORTED, "the model has no attention whose keys could be kept");
    if (st == WEFT_OK)
        graph_take_nodes(g, &m.nodes);
    else
        free(m.nodes.at);
    return st;
}

void graph_cached_prune(graph *g)
{
    bool *wanted = pool_array(&g->pool, g->tensors.n + 1, sizeof *wanted);
    uint32_t placed = g->nodes.n;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const graph_node n = g->nodes.at[i];
        bool any = false;
        for (uint32_t k = 0; k < n.nout; k++)
            any |= wanted[n.out[k]] || graph_tensor_at(g, n.out[k])->kind == WEFT_T_STATE;
        for (uint32_t k = 0; any && k < n.nin; k++)
            wanted[n.in[k]] = true;
        if (any)
            g->nodes.at[--placed] = n;
    }
    g->nodes.n -= placed;
    memmove(g->nodes.at, g->nodes.at + placed, g->nodes.n * sizeof *g->nodes.at);
    graph_number_producers(g, 0);
}
