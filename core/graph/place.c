/* graph/place.c: propagates placements through the ops and inserts communication.
 *
 * Edits place a few tensors; every other placement follows from the op that makes the tensor. Where
 * an op cannot take the placement of its inputs, communication is inserted before it, in this
 * order:
 *
 *   1. A partial sum with a known target placement is completed before it is read: by a
 *      reduce-scatter where an edit wants the tensor split, else by an all-reduce. A gradient gets
 *      the placement of its tensor. Contributions to one gradient are added up first, and the sum
 *      is completed once.
 *      Not due is the gradient of a tensor that is made from parameters alone, as w + b a: ops that
 *      are linear in it pass the partial sum on to the parameters, whose gradients are summed when
 *      a strategy says so, once a step.
 *   2. Any other partial sum is completed before an op that is not linear in it.
 *   3. A tensor split along its first axis is all-gathered before an op that needs it whole. So is
 *      one split along another axis where communication has cut or joined it there.
 *
 * This yields the two all-reduces of a tensor-parallel block, and their conjugates in backward. All
 * later readers share a completed sum; readers of the same block and direction share a gathered
 * tensor. Backward gathers again what forward gathered, instead of keeping it (autodiff.c). */
#include "base/err.h"
#include "graph/place_comm.h"

#include <stdio.h>
#include <string.h>

/* The split that an edit requests of an activation, or whole. */
static weft_place wanted(const graph_tensor *t, uint32_t a)
{
    return t->want[a] ? (weft_place){WEFT_SPLIT, t->want[a] - 1u, 0, 0}
                      : (weft_place){WEFT_WHOLE, 0, 0, 0};
}

static weft_status split_one(graph *g, weft_tensor handle, const char *axis, uint32_t a)
{
    graph_tensor *t = graph_tensor_at(g, handle);
    const bool activation = t->kind == WEFT_T_ACTIVATION;
    const weft_place had = activation ? wanted(t, a) : t->place[a];
    weft_shape now = graph_local_shape(g, handle);
    const uint32_t k = graph_axis_of(&now, axis, strlen(axis));
    if (k == now.rank)
        return err_fail(WEFT_USAGE, "tensor %s has no axis '%s' to split over %s", t->name, axis,
                        g->mesh->name[a]);
    if (had.kind == WEFT_SPLIT && had.axis != k)
        return err_fail(WEFT_USAGE, "%s cannot be split over %s both along '%s' and along '%s'",
                        t->name, g->mesh->name[a], axis, now.axes[had.axis].name);
    bool pads = t->kind == WEFT_T_PARAM && (t->flags & WEFT_PARAM_PAD) && k == 0;
    if (had.kind != WEFT_SPLIT && !pads && now.axes[k].size % g->mesh->size[a])
        return graph_indivisible(g, t, &now.axes[k], a);
    if (activation)
        t->want[a] = (uint8_t)(k + 1);
    else
        t->place[a] = (weft_place){WEFT_SPLIT, k, 0, 0};
    return WEFT_OK;
}

weft_status graph_split(graph *g, const char *glob, const char *axis, uint32_t mesh_axis)
{
    bool any = false;
    for (uint32_t i = 0; i < g->tensors.n; i++) {
        if (!graph_glob_match_tensor(glob, &g->tensors.at[i]))
            continue;
        any = true;
        weft_status st = split_one(g, i + 1, axis, mesh_axis);
        if (st != WEFT_OK)
            return st;
    }
    if (!any)
        return err_fail(WEFT_USAGE, "no tensor is named '%s'", glob);
    return WEFT_OK;
}

static bool partial(weft_place p)
{
    return p.kind == WEFT_PARTIAL_SUM || p.kind == WEFT_PARTIAL_MAX;
}

/* --- communication before a node --- */

typedef struct visit { /* of node `i` along mesh axis `a`; i grows as nodes are inserted before it
                        */
    graph *g;
    uint32_t i, a, added;
} visit;

/* Inserts communication of `in` before the node; a sum made by another block is completed in that
 * block, so that only complete tensors cross. The output has no readers yet. */
static weft_status put_before(visit *v, uint32_t kind, weft_tensor in, weft_place to,
                              weft_tensor *out)
{
    graph *g = v->g;
    const graph_tensor *t = graph_tensor_at(g, in);
    bool there = kind != WEFT_ALL_GATHER && t->producer &&
                 g->nodes.at[t->producer - 1].block != g->nodes.at[v->i].block;
    uint32_t at = there ? t->producer : v->i;
    const graph_node n = g->nodes.at[there ? at - 1 : at];
    uint32_t redop = t->place[v->a].kind == WEFT_PARTIAL_MAX ? WEFT_MAX : WEFT_SUM;
    const uint32_t along = kind == WEFT_ALL_GATHER ? t->place[v->a].axis : to.axis;
    const char *axis = kind == WEFT_ALL_REDUCE ? NULL : t->shape.axes[along].name;
    const graph_session outer = g->now;
    g->now.block = n.block;
    g->now.phase = n.phase;
    weft_builder b = graph_builder(g);
    weft_status st = b.comm(
        g,
        &(weft_comm_args){sizeof(weft_comm_args), 0, kind, redop, g->mesh->name[v->a], axis, 0, 0},
        in, out);
    g->now = outer;
    if (st != WEFT_OK)
        return st;
    graph_tensor *made = graph_tensor_at(g, *out);
    memcpy(made->place, graph_tensor_at(g, in)->place, sizeof made->place);
    made->place[v->a] = to;
    made->of_params = graph_tensor_at(g, in)->of_params;
    if (kind == WEFT_REDUCE_SCATTER && to.axis)
        graph_note_along(g, made, v->a);
    graph_node fresh = g->nodes.at[g->nodes.n - 1];
    memmove(&g->nodes.at[at + 1], &g->nodes.at[at], (g->nodes.n - 1 - at) * sizeof(graph_node));
    g->nodes.at[at] = fresh;
    graph_number_producers(g, at);
    v->i++;
    v->added++;
    return WEFT_OK;
}

static void read_instead(graph *g, uint32_t from, uint32_t end, weft_tensor old, weft_tensor now)
{
    for (uint32_t j = from; j < end; j++)
        for (uint32_t o = 0; o < g->nodes.at[j].nin; o++)
            if (g->nodes.at[j].in[o] == old)
                g->nodes.at[j].in[o] = now;
}

/* The placement of a partial tensor once complete; *due: it must be completed before any reader
 * except a sum of contributions. */
static weft_place goal(const visit *v, const graph_tensor *t, bool *due)
{
    const weft_place whole = {WEFT_WHOLE, 0, 0, 0};
    *due = t->want[v->a] != 0;
    if (*due || !t->grad_for)
        return wanted(t, v->a);
    const graph_tensor *of = graph_tensor_at(v->g, t->grad_for);
    weft_place p = of->place[v->a];
    *due = !partial(p) && !of->of_params && !v->g->nodes.at[v->i].join;
    return p.kind == WEFT_SPLIT ? p : whole;
}

/* Completes the partial inputs: those that are due, or all. All later readers take the result. */
static weft_status complete(visit *v, bool all)
{
    graph *g = v->g;
    for (uint32_t k = 0; k < g->nodes.at[v->i].nin; k++) {
        weft_tensor out, in = g->nodes.at[v->i].in[k];
        const graph_tensor *t = graph_tensor_at(g, in);
        bool due;
        weft_place to = goal(v, t, &due);
        if (!partial(t->place[v->a]) || (!all && !due))
            continue;
        bool cuts = to.kind == WEFT_SPLIT;
        weft_status st = cuts ? graph_check_parts(g, in, to.axis, v->a) : WEFT_OK;
        if (st == WEFT_OK)
            st = put_before(v, cuts ? WEFT_REDUCE_SCATTER : WEFT_ALL_REDUCE, in, to, &out);
        if (st != WEFT_OK)
            return st;
        read_instead(g, v->i, g->nodes.n, in, out);
    }
    return WEFT_OK;
}

/* The all-gather of `t` that the node may share: of its own block and direction. */
static weft_tensor gathered(const visit *v, const graph_tensor *t, uint32_t backward)
{
    weft_tensor have = t->gathered[backward];
    if (!have)
        return 0;
    const graph_node *by = &v->g->nodes.at[graph_tensor_at(v->g, have)->producer - 1];
    return by->mesh_axis == v->a && by->block == v->g->nodes.at[v->i].block ? have : 0;
}

/* What gather() takes, from 1 on: each value includes those before it. */
enum { GATHER_DATA = 1, GATHER_OF_PARAMS, GATHER_ANYTHING };

/* What is made of parameters stays split like them where gathering the data is enough.
 *
 * A split along axis 0 may always be gathered. Along another axis, only if communication created
 * that split; GATHER_ANYTHING lifts this in the backward pass of such communication. Elsewhere such
 * a split is usually a mistake of a strategy. */
static bool may_gather(const visit *v, const graph_tensor *t, uint32_t what)
{
    const weft_place p = t->place[v->a];
    if (t->kind != WEFT_T_ACTIVATION || p.kind != WEFT_SPLIT ||
        (t->of_params && what < GATHER_OF_PARAMS))
        return false;
    uint64_t along = t->along | (t->grad_for ? graph_tensor_at(v->g, t->grad_for)->along : 0);
    if (what == GATHER_ANYTHING && v->g->nodes.at[v->i].phase != PHASE_FORWARD)
        along = v->g->along;
    return p.axis == 0 || along >> v->a & 1;
}

/* All-gathers the inputs that are split, for this node. */
static weft_status gather(visit *v, uint32_t what)
{
    graph *g = v->g;
    for (uint32_t k = 0; k < g->nodes.at[v->i].nin; k++) {
        weft_tensor in = g->nodes.at[v->i].in[k];
        const graph_tensor *t = graph_tensor_at(g, in);
        uint32_t backward = g->nodes.at[v->i].phase != PHASE_FORWARD;
        if (!may_gather(v, t, what))
            continue;
        weft_tensor out = gathered(v, t, backward);
        weft_status st = out ? WEFT_OK : put_before(v, WEFT_ALL_GATHER, in, (weft_place){0}, &out);
        if (st != WEFT_OK)
            return st;
        graph_tensor_at(g, in)->gathered[backward] = out;
        read_instead(g, v->i, v->i + 1, in, out);
    }
    return WEFT_OK;
}

/* --- one node --- */

static bool same_place(weft_place x, weft_place y)
{
    return x.kind == y.kind && x.axis == y.axis;
}

/* All contributions to a sum have one placement; those to the gradient of a split parameter have
 * the parameter's. */
static bool fits_sum(const graph *g, const graph_tensor *t, uint32_t a, weft_place now)
{
    weft_place as = t->of ? graph_tensor_at(g, t->of)->place[a] : (weft_place){WEFT_WHOLE, 0, 0, 0};
    bool fits = as.kind == WEFT_SPLIT ? same_place(as, now) : now.kind != WEFT_SPLIT;
    return fits && (!(t->placed >> a & 1) || same_place(t->place[a], now));
}

/* shard_node(), which is asked again where a contribution to a sum would be split and the sum is
 * not: with gathered inputs it may be whole. */
static weft_status try_node(const visit *v, weft_place *out)
{
    weft_status st = graph_shard_node(v->g, v->i, v->a, out);
    const graph_node *n = &v->g->nodes.at[v->i];
    for (uint32_t k = 0; st == WEFT_OK && k < n->nout; k++) {
        const graph_tensor *t = graph_tensor_at(v->g, n->out[k]);
        if (t->sum && !fits_sum(v->g, t, v->a, out[k]))
            st = err_fail(WEFT_UNSUPPORTED, "the contributions to %s are placed unlike over %s",
                          t->name, v->g->mesh->name[v->a]);
    }
    return st;
}

static weft_status set_places(graph *g, uint32_t i, uint32_t a, const weft_place *out)
{
    const graph_node *n = &g->nodes.at[i];
    for (uint32_t k = 0; k < n->nout; k++) {
        graph_tensor *t = graph_tensor_at(g, n->out[k]);
        t->placed |= t->sum ? (uint64_t)1 << a : 0;
        t->place[a] = out[k];
        if (t->want[a] && !partial(out[k]) && !same_place(out[k], wanted(t, a)))
            return err_fail(WEFT_USAGE,
                            "%s cannot be split over %s along '%s', because its op places it "
                            "differently; only a partial sum can be split there",
                            t->name, g->mesh->name[a], t->shape.axes[t->want[a] - 1].name);
    }
    return WEFT_OK;
}

static weft_status propagate_axis(visit *v)
{
    weft_place out[WEFT_MAX_OPERANDS] = {0};
    weft_status st = complete(v, false);
    if (st == WEFT_OK)
        st = try_node(v, out);
    for (uint32_t effort = 0; st == WEFT_UNSUPPORTED && effort <= GATHER_ANYTHING; effort++) {
        uint32_t before = v->added;
        weft_tensor had[WEFT_MAX_OPERANDS];
        const graph_node *n = &v->g->nodes.at[v->i];
        memcpy(had, n->in, n->nin * sizeof *had);
        weft_status put = effort ? gather(v, effort) : complete(v, true);
        if (put != WEFT_OK)
            return put;
        n = &v->g->nodes.at[v->i];
        if (v->added != before || memcmp(had, n->in, n->nin * sizeof *had)) {
            err_clear(); /* that refusal has been answered */
            st = try_node(v, out);
        }
    }
    if (st != WEFT_OK) {
        const bool listed = v->g->nodes.at[v->i].phase == PHASE_UPDATE;
        err_context("%s cannot be computed over the mesh axis %s%s", v->g->nodes.at[v->i].id,
                    v->g->mesh->name[v->a],
                    listed ? ", which splits its operands unlike; use a parameter together with "
                             "states that are like it"
                           : "");
        return st == WEFT_UNSUPPORTED ? WEFT_USAGE : st;
    }
    return set_places(v->g, v->i, v->a, out);
}

#define PLACE_TEXT (WEFT_MAX_NAME + 16)

static const char *place_text(const graph_tensor *t, uint32_t a, char out[PLACE_TEXT])
{
    static const char *const kinds[] = {"whole", "split along", "a partial sum",
                                        "a partial maximum", "held by one coordinate"};
    const weft_place p = t->place[a];
    if (p.kind == WEFT_SPLIT)
        snprintf(out, PLACE_TEXT, "%s '%s'", kinds[p.kind], t->shape.axes[p.axis].name);
    else
        snprintf(out, PLACE_TEXT, "%s", kinds[p.kind]);
    return out;
}

/* An assignment moves no data: the source has the placement of the destination, or is the same
 * everywhere where each coordinate has its own destination. */
static weft_status take_axis(visit *v)
{
    bool own = partial(graph_tensor_at(v->g, v->g->nodes.at[v->i].out[0])->place[v->a]);
    weft_status st = own ? WEFT_OK : complete(v, true);
    const graph_node *n = &v->g->nodes.at[v->i];
    const graph_tensor *from = graph_tensor_at(v->g, n->in[0]),
                       *to = graph_tensor_at(v->g, n->out[0]);
    if (st != WEFT_OK || same_place(from->place[v->a], to->place[v->a]) ||
        (own && from->place[v->a].kind == WEFT_WHOLE))
        return st;
    char is[2][PLACE_TEXT];
    return err_fail(WEFT_UNSUPPORTED,
                    "%s cannot take %s over the mesh axis %s: the first is %s there, the second "
                    "%s; assign what is placed alike, as a parameter and a state that is like it",
                    to->name, from->name, v->g->mesh->name[v->a], place_text(to, v->a, is[0]),
                    place_text(from, v->a, is[1]));
}

/* Explicit communication (comm()). An all-to-all needs parts: what backward gives it as a partial
 * sum is completed first. */
static weft_status comm_node(graph *g, uint32_t *i)
{
    visit v = {g, *i, g->nodes.at[*i].mesh_axis, 0};
    weft_status st = g->nodes.at[*i].comm == WEFT_ALL_TO_ALL ? complete(&v, true) : WEFT_OK;
    *i = v.i;
    return st == WEFT_OK ? graph_place_comm(g, &g->nodes.at[*i]) : st;
}

/* Such tensors are the same in all micro-batches of a step. */
static void note_of_params(const graph *g, const graph_node *n)
{
    bool all = n->nin > 0 && n->phase == PHASE_FORWARD;
    for (uint32_t k = 0; all && k < n->nin; k++) {
        const graph_tensor *t = graph_tensor_at(g, n->in[k]);
        all = t->kind == WEFT_T_PARAM || t->kind == WEFT_T_SCALAR || t->of_params;
    }
    for (uint32_t k = 0; k < n->nout; k++)
        graph_tensor_at(g, n->out[k])->of_params = all;
}

weft_status graph_propagate(graph *g, uint32_t first)
{
    for (uint32_t i = first; i < g->nodes.n; i++) {
        note_of_params(g, &g->nodes.at[i]);
        weft_status st = g->nodes.at[i].comm ? comm_node(g, &i) : WEFT_OK;
        for (uint32_t a = 0; st == WEFT_OK && !g->nodes.at[i].comm && a < g->mesh->n; a++) {
            if (g->mesh->size[a] == 1)
                continue;
            visit v = {g, i, a, 0};
            st = g->nodes.at[i].assign ? take_axis(&v) : propagate_axis(&v);
            i = v.i;
        }
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

/* --- after recomputation --- */

/* The output of an all-gather among the first `n` nodes that node `x` repeats. */
static weft_tensor done_before(const graph *g, uint32_t n, const graph_node *x)
{
    while (n-- > 0) {
        const graph_node *y = &g->nodes.at[n];
        if (y->comm == WEFT_ALL_GATHER && y->in[0] == x->in[0] && y->mesh_axis == x->mesh_axis &&
            y->block == x->block && y->phase <= x->phase &&
            (y->phase == PHASE_FORWARD) == (x->phase == PHASE_FORWARD))
            return y->out[0];
    }
    return 0;
}

void graph_share_gathers(graph *g)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node n = g->nodes.at[i];
        weft_tensor same = n.comm == WEFT_ALL_GATHER ? done_before(g, kept, &n) : 0;
        if (same)
            read_instead(g, i + 1, g->nodes.n, n.out[0], same);
        else
            g->nodes.at[kept++] = n;
    }
    g->nodes.n = kept;
    graph_number_producers(g, 0);
}
