/* graph/graph.c: tensors, nodes, meshes and names. */
#define _GNU_SOURCE /* strchrnul */
#include "graph/graph.h"

#include "base/number/digest.h"

#include <stdlib.h>
#include <string.h>

uint32_t graph_mesh_ranks(const graph_mesh *m)
{
    return graph_mesh_parts(m, UINT64_MAX);
}

static uint32_t mesh_stride(const graph_mesh *m, uint32_t a)
{
    uint32_t stride = 1;
    for (uint32_t i = 0; i < a; i++)
        stride *= m->size[i];
    return stride;
}

uint32_t graph_mesh_coord(const graph_mesh *m, uint32_t rank, uint32_t a)
{
    return rank / mesh_stride(m, a) % m->size[a];
}

uint32_t graph_mesh_rank_at(const graph_mesh *m, uint32_t rank, uint32_t a, uint32_t c)
{
    uint32_t stride = mesh_stride(m, a);
    return rank + c * stride - graph_mesh_coord(m, rank, a) * stride;
}

int graph_mesh_axis(const graph_mesh *m, const char *name)
{
    for (uint32_t a = 0; a < m->n; a++)
        if (!strcmp(m->name[a], name))
            return (int)a;
    return -1;
}

uint32_t graph_mesh_parts(const graph_mesh *m, uint64_t axes)
{
    uint32_t n = 1;
    for (uint32_t a = 0; a < m->n; a++)
        n *= axes >> a & 1 ? m->size[a] : 1;
    return n;
}

uint32_t graph_mesh_part(const graph_mesh *m, uint32_t rank, uint64_t axes)
{
    uint32_t part = 0;
    for (uint32_t a = m->n; a-- > 0;)
        if (axes >> a & 1)
            part = part * m->size[a] + graph_mesh_coord(m, rank, a);
    return part;
}

void graph_init(graph *g, const graph_mesh *m, graph_ops ops, uint32_t compute, uint32_t grad_dtype)
{
    *g = (graph){.mesh = m,
                 .ops = ops,
                 .compute = compute,
                 .grad_dtype = grad_dtype,
                 .now.phase = PHASE_FORWARD};
}

void graph_free(graph *g)
{
    free(g->tensors.at);
    free(g->nodes.at);
    free(g->blocks.at);
    pool_free(&g->pool);
    *g = (graph){0};
}

graph_tensor *graph_tensor_at(const graph *g, weft_tensor t)
{
    return &g->tensors.at[t - 1];
}

/* The slot of `names` for a tensor of that name, used or free. Of several of one name the first is
 * found. */
static weft_tensor *slot_of(const graph *g, const char *name)
{
    uint64_t hash = DIGEST_BEGIN;
    digest_mix(&hash, name, strlen(name));
    uint32_t i = (uint32_t)(hash ^ hash >> 32) & (g->names.cap - 1);
    while (g->names.at[i] && strcmp(graph_tensor_at(g, g->names.at[i])->name, name))
        i = (i + 1) & (g->names.cap - 1);
    return &g->names.at[i];
}

static void index_names(graph *g)
{
    if (g->names.cap < 2 * (g->tensors.n + 1)) {
        g->names.cap = 64;
        while (g->names.cap < 4 * (g->tensors.n + 1))
            g->names.cap *= 2;
        g->names.at = pool_array(&g->pool, g->names.cap, sizeof *g->names.at);
        g->names.upto = 0;
    }
    while (g->names.upto < g->tensors.n) {
        const weft_tensor t = ++g->names.upto;
        weft_tensor *slot = slot_of(g, graph_tensor_at(g, t)->name);
        *slot = *slot ? *slot : t;
    }
}

weft_tensor graph_find(const graph *g, const char *name)
{
    index_names((graph *)g); /* an internal cache: logically const */
    return *slot_of(g, name);
}

uint32_t graph_axis_of(const weft_shape *s, const char *name, size_t n)
{
    uint32_t i = 0;
    while (i < s->rank && (strlen(s->axes[i].name) != n || strncmp(s->axes[i].name, name, n)))
        i++;
    return i;
}

bool graph_same_axes(const weft_shape *a, const weft_shape *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->axes[i].size == b->axes[i].size && !strcmp(a->axes[i].name, b->axes[i].name);
    return same;
}

uint64_t graph_shape_elements(const weft_shape *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= (uint64_t)s->axes[i].size;
    return n;
}

uint64_t graph_shape_bytes(const weft_shape *s)
{
    return graph_shape_elements(s) * weft_dtype_size(s->dtype);
}

weft_shape graph_local_shape(const graph *g, weft_tensor t)
{
    const graph_tensor *x = graph_tensor_at(g, t);
    weft_shape s = x->shape;
    for (uint32_t a = 0; a < g->mesh->n; a++)
        if (x->place[a].kind == WEFT_SPLIT) {
            int64_t *size = &s.axes[x->place[a].axis].size;
            *size = (*size + g->mesh->size[a] - 1) / g->mesh->size[a];
        }
    return s;
}

uint64_t graph_local_elements(const graph *g, weft_tensor t)
{
    const weft_shape s = graph_local_shape(g, t);
    return graph_shape_elements(&s);
}

uint64_t graph_local_bytes(const graph *g, weft_tensor t)
{
    return graph_local_elements(g, t) * weft_dtype_size(graph_tensor_at(g, t)->shape.dtype);
}

uint64_t graph_axes(const graph *g, weft_tensor t, uint32_t kind)
{
    uint64_t axes = 0;
    for (uint32_t a = 0; a < g->mesh->n; a++)
        axes |= (uint64_t)(graph_tensor_at(g, t)->place[a].kind == kind) << a;
    return axes;
}

bool graph_local_start(const graph *g, weft_tensor t, uint32_t axis, uint64_t out[WEFT_MAX_MESH])
{
    const graph_tensor *x = graph_tensor_at(g, t);
    weft_shape local = graph_local_shape(g, t);
    uint64_t stride = axis < local.rank ? (uint64_t)local.axes[axis].size : 0;
    bool any = false;
    for (uint32_t a = 0; a < g->mesh->n; a++) { /* the outermost mesh axis cuts first */
        bool cuts = x->place[a].kind == WEFT_SPLIT && x->place[a].axis == axis;
        out[a] = cuts ? stride : 0;
        stride *= cuts ? g->mesh->size[a] : 1;
        any |= cuts;
    }
    return any;
}

weft_tensor graph_add(graph *g, const char *name, uint32_t kind, const weft_shape *shape)
{
    graph_tensor *t = vec_push(&g->tensors);
    *t = (graph_tensor){.name = pool_text(&g->pool, name), .kind = kind, .block = g->now.block};
    t->shape = *shape;
    if (!t->shape.dtype)
        t->shape.dtype = g->compute;
    for (uint32_t i = 0; i < t->shape.rank; i++)
        t->shape.axes[i].name = pool_text(&g->pool, shape->axes[i].name);
    return g->tensors.n;
}

graph_node *graph_add_node(graph *g, const char *id, uint32_t nattr, uint32_t nin, uint32_t nout)
{
    graph_node *n = vec_push(&g->nodes);
    *n = (graph_node){.id = pool_text(&g->pool, id), .block = g->now.block, .phase = g->now.phase};
    n->nattr = nattr;
    n->nin = nin;
    n->nout = nout;
    n->attrs = pool_array(&g->pool, nattr, sizeof(weft_attr));
    n->in = pool_array(&g->pool, nin, sizeof(weft_tensor));
    n->out = pool_array(&g->pool, nout, sizeof(weft_tensor));
    return n;
}

bool graph_node_shape_only(const graph_node *n, uint32_t k)
{
    return n->op && (n->op->flags & WEFT_OP_SHAPE_LAST) && k + 1 == n->nin;
}

static void set_producers(graph *g, const graph_node *n, uint32_t producer)
{
    for (uint32_t k = 0; k < n->nout; k++) {
        graph_tensor *t = graph_tensor_at(g, n->out[k]);
        t->producer = t->kind == WEFT_T_ACTIVATION ? producer : t->producer;
    }
}

void graph_number_producers(graph *g, uint32_t first)
{
    for (uint32_t i = first; i < g->nodes.n; i++)
        set_producers(g, &g->nodes.at[i], i + 1);
}

void graph_take_nodes(graph *g, const graph_nodes *list)
{
    free(g->nodes.at);
    g->nodes = *list;
    graph_number_producers(g, 0);
}

void graph_forget_producers(graph *g, const graph_node *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        set_producers(g, &nodes[i], 0);
}

/* Matches one alternative of a glob, which ends at `end`. Only the last '*' is ever extended: the
 * work is at most the product of both lengths. */
static bool match_one(const char *glob, const char *end, const char *name)
{
    const char *star = NULL, *from = NULL; /* behind the last '*'; what it has not taken */
    while (*name) {
        if (glob < end && *glob == '*') {
            star = ++glob;
            from = name;
        } else if (glob < end && *glob == *name) {
            glob++;
            name++;
        } else if (star) {
            glob = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (glob < end && *glob == '*')
        glob++;
    return glob == end;
}

/* The same, of a name or, behind '@', of a role. */
static bool match_either(const char *glob, const char *end, const char *name, const char *role)
{
    return *glob == '@' ? role && match_one(glob + 1, end, role) : match_one(glob, end, name);
}

bool graph_glob_match_role(const char *glob, const char *name, const char *role)
{
    bool adds = false, added = false; /* some alternative adds names; one has added this name */
    for (const char *end;; glob = end + 1) {
        end = strchrnul(glob, '|');
        const bool takes_away = *glob == '!';
        const bool matches = match_either(glob + takes_away, end, name, role);
        if (takes_away && matches)
            return false;
        adds |= !takes_away;
        added |= matches;
        if (!*end)
            return added || !adds;
    }
}

bool graph_glob_match(const char *glob, const char *name)
{
    return graph_glob_match_role(glob, name, NULL);
}

bool graph_glob_match_tensor(const char *glob, const graph_tensor *t)
{
    const bool rows = t->kind == WEFT_T_INPUT && t->shape.rank;
    return graph_glob_match_role(glob, t->name, rows ? "input" : t->role);
}

bool graph_has_param(const graph *g, const char *glob)
{
    bool found = false;
    for (uint32_t i = 0; !found && i < g->tensors.n; i++)
        found = g->tensors.at[i].kind == WEFT_T_PARAM &&
                graph_glob_match_tensor(glob, &g->tensors.at[i]);
    return found;
}
