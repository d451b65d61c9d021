/* plan/optim/update.c: an elementwise update rule, built once for matrices and once for the rest, run
 * over flat ranges.
 *
 * The rule sees one parameter as a flat range of fp32 elements. Its elementwise ops become one
 * program (graph/fuse.c), which then runs once a block and group: reads parameter, gradient and
 * states, writes parameter, states and, in 16-bit jobs, the compute copy, in a single pass over
 * memory. Rules that need a whole parameter are update_each.c's. */
#include "base/err.h"
#include "graph/arguments.h"
#include "host/call.h"
#include "plan/build.h"

#include <stdlib.h>
#include <string.h>

typedef struct group {
    graph g;
    fused f;
    uint32_t flags;
    weft_tensor param, grad, copy;
} group;

struct update_state {
    group groups[2]; /* matrices, the rest */
};

uint32_t rule_state(builder *b, const char *full)
{
    const char *suffix = strchr(full, '.') + 1;
    for (uint32_t i = 0; i < b->f->states.n; i++)
        if (!strcmp(b->f->states.at[i].name, suffix))
            return i;
    *vec_push(&b->f->states) = (flat_state){pool_text(&b->p->pool, suffix), 0};
    return b->f->states.n - 1;
}

/* The source of an assignment to `dst` among the nodes of the graph; 0: none. */
static weft_tensor assigned(const graph *g, weft_tensor dst, uint32_t *times)
{
    weft_tensor src = 0;
    *times = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].assign && g->nodes.at[i].out[0] == dst) {
            src = g->nodes.at[i].in[0];
            ++*times;
        }
    return src;
}

static weft_status check_assigned(const graph *g, weft_tensor param)
{
    for (uint32_t i = 1; i <= g->tensors.n; i++) {
        const tensor *t = graph_tensor(g, i);
        uint32_t times;
        if (i != param && t->kind != WEFT_T_STATE)
            continue;
        assigned(g, i, &times);
        if (times != 1)
            return fail(WEFT_USAGE, "the rule assigns %s %u times; it has to be once",
                        i == param ? "the parameter" : t->name, times);
    }
    return WEFT_OK;
}

/* A state has a place beside each element of its parameter, in fp32. */
static weft_status check_states(const graph *g, weft_tensor param)
{
    const weft_shape *p = &graph_tensor(g, param)->shape;
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        const tensor *x = graph_tensor(g, t);
        bool like = x->shape.rank == p->rank && x->shape.dtype == WEFT_F32;
        for (uint32_t i = 0; like && i < p->rank; i++)
            like = x->shape.axes[i].size == p->axes[i].size &&
                   !strcmp(x->shape.axes[i].name, p->axes[i].name);
        if (x->kind == WEFT_T_STATE && !like)
            return fail(WEFT_UNSUPPORTED,
                        "state() keeps %s in another shape or type than its parameter (dtype, keep "
                        "or like); this version keeps fp32 of the same shape: say dtype 0, keep "
                        "NULL and like the parameter",
                        x->name);
    }
    return WEFT_OK;
}

weft_status rule_graph(builder *b, graph *g, weft_tensor param, weft_tensor grad, weft_tensor copy,
                       uint32_t flags, weft_tensor *gate)
{
    const spec_plugin *rule = &b->p->spec->rule;
    const weft_rule *table = rule->c->table;
    weft_builder w = graph_builder(g);
    weft_tensor clip, scaled[1];
    weft_update u = {.struct_size = sizeof u, .flags = flags, .name = "p", .param = param};
    weft_status s = w.scalar(w.ctx, "clip", &clip);
    if (!s)
        s = w.scalar(w.ctx, "lr", &u.lr);
    if (!s)
        s = w.scalar(w.ctx, "count", &u.count);
    weft_tensor both[2] = {grad, clip};
    if (!s)
        s = w.op(w.ctx, "mul", NULL, 0, both, 2, scaled, 1);
    u.grad = scaled[0];
    g->state_of = "p";
    if (!s)
        s = arg_answer(PLUGIN_CALL(table, update, rule->c->module, rule->conf, &w, &u), "the rule",
                       "update");
    if (!s)
        s = check_assigned(g, param);
    uint32_t times;
    if (!s && copy)
        s = w.assign(w.ctx, copy, assigned(g, param, &times));
    if (!s)
        s = w.scalar(w.ctx, "gate", gate);
    if (!s)
        s = check_states(g, param);
    if (s)
        err_context("update rule %s", rule->c->name);
    return s ? s : rule_scalars_take(b, g, *gate);
}

static weft_status run_rule(builder *b, group *k)
{
    weft_tensor gate = 0;
    weft_status s = rule_graph(b, &k->g, k->param, k->grad, k->copy, k->flags, &gate);
    if (s)
        return s;
    s = graph_fuse(&k->g, 0, k->g.nodes.n, gate, &k->f);
    if (s)
        err_context("update rule %s", b->p->spec->rule.c->name);
    return s;
}

bool rule_by_element(const builder *b)
{
    const weft_rule *table = b->p->spec->rule.c->table;
    return table->unit == WEFT_UNIT_ELEMENT;
}

weft_status update_prepare(builder *b)
{
    if (!rule_by_element(b))
        return each_prepare(b);
    update_state *u = pool_alloc(&b->p->pool, sizeof *u);
    b->update = u;
    for (uint32_t i = 0; i < 2; i++) {
        group *k = &u->groups[i];
        graph_init(&k->g, b->g->mesh, WEFT_F32, WEFT_F32);
        k->flags = i ? 0 : WEFT_PARAM_MATRIX;
        weft_shape flat_range = {.dtype = WEFT_F32, .rank = 1, .axes = {{"elements", 64}}};
        k->param = graph_add(&k->g, "p", WEFT_T_PARAM, &flat_range);
        k->grad = graph_add(&k->g, "g", WEFT_T_ACTIVATION, &flat_range);
        if (b->f->compute != b->f->master)
            k->copy = graph_add(&k->g, "copy", WEFT_T_PARAM, &flat_range);
        weft_status s = run_rule(b, k);
        if (s)
            return s;
        for (uint32_t t = 1; t <= k->g.tensors.n; t++)
            if (graph_tensor(&k->g, t)->kind == WEFT_T_STATE)
                rule_state(b, graph_tensor(&k->g, t)->name);
    }
    return WEFT_OK;
}

static uint32_t source_of(builder *b, const group *k, weft_tensor t)
{
    const tensor *x = graph_tensor(&k->g, t);
    if (t == k->param)
        return RULE_PARAM;
    if (t == k->grad)
        return RULE_GRAD;
    if (t == k->copy)
        return RULE_COPY;
    return x->kind == WEFT_T_STATE ? RULE_STATE + rule_state(b, x->name) : RULE_SCALAR;
}

/* A range of elements that the rule goes over: of a block that is whole, or the own slice of a
 * group of one that is cut. */
typedef struct range {
    uint64_t first, count;
    uint32_t group; /* 1 + the group; 0: whole */
    uint32_t axis;
    const char *name;
} range;

flat_place_in rule_region(const builder *b, uint32_t from, uint64_t first, uint32_t slice_of,
                          uint32_t *dtype)
{
    const flat *f = b->f;
    uint64_t region = from >= RULE_STATE ? f->states.at[from - RULE_STATE].offset : f->master;
    uint32_t level = FLAT_STATE;
    *dtype = WEFT_F32;
    if (from == RULE_GRAD) {
        region = f->grads;
        level = FLAT_GRADS;
        *dtype = b->g->grad_dtype;
    } else if (from == RULE_COPY || (from == RULE_PARAM && f->master == f->compute)) {
        region = f->compute;
        level = FLAT_PARAMS;
        *dtype = b->g->compute;
    }
    uint64_t size = weft_dtype_size(*dtype);
    if (slice_of)
        return flat_own(f, slice_of - 1, level, region, size);
    return (flat_place_in){region + flat_index(f, first, level) * size, 0};
}

/* One call of the rule of `k` over a range. */
static weft_status update_range(builder *b, list *l, group *k, const range *r)
{
    weft_operand io[64];
    ref refs[64];
    uint64_t bases[BASE_FIRST + 64] = {0}, shifts[BASE_FIRST + 64] = {0};
    uint32_t nbases = BASE_FIRST;
    fused *f = &k->f;
    if (BASE_FIRST + f->nin + f->nout > MAX_BASES)
        return fail(WEFT_UNSUPPORTED, "the rule has more than %u operands", MAX_BASES - BASE_FIRST);
    for (uint32_t i = 0; i < f->nin + f->nout; i++) {
        weft_tensor t = i < f->nin ? f->in[i] : f->out[i - f->nin];
        uint32_t from = source_of(b, k, t);
        if (from == RULE_SCALAR) {
            io[i] = (weft_operand){.dtype = WEFT_F32};
            refs[i] = (ref){BASE_ABSOLUTE, 0, scalar_offset(b, graph_tensor(&k->g, t)->name, 0)};
            continue;
        }
        flat_place_in x = rule_region(b, from, r->first, r->group, &io[i].dtype);
        bases[nbases] = x.at;
        shifts[nbases] = x.shift;
        io[i] = (weft_operand){io[i].dtype, 1, {(int64_t)r->count}};
        refs[i] = (ref){nbases++, 0, 0};
    }
    weft_opspec op = {.struct_size = sizeof op,
                      .id = "ew",
                      .nin = f->nin,
                      .nout = f->nout,
                      .in = io,
                      .out = io + f->nin,
                      .program = &f->program};
    uint32_t seg = segment_begin(b->p, "update");
    weft_status s = segment_add(b->p, seg, &op, 0, refs);
    if (s)
        return s;
    seg = segment_end(b->p, seg, nbases);
    list_call(b->p, l, seg, bases, nbases, 0, r->name);
    for (uint32_t i = BASE_FIRST; i < nbases; i++)
        list_shift(b->p, l, i, r->axis, shifts[i]);
    return WEFT_OK;
}

static weft_status update_slices(builder *b, list *l, const flat_block *k, const char *name)
{
    weft_status s = WEFT_OK;
    for (uint32_t i = k->first_group; !s && i < k->first_group + k->groups; i++) {
        const flat_group *x = &b->f->groups.at[i];
        const range r = {x->at[0], x->count / k->parts, 1 + i, k->axis, name};
        s = update_range(b, l, &b->update->groups[x->flags & WEFT_PARAM_MATRIX ? 0 : 1], &r);
        if (!s)
            s = shard_updated(b, l, i);
    }
    return s;
}

weft_status build_updates(builder *b, list *l)
{
    weft_status s = WEFT_OK;
    if (!rule_by_element(b))
        return each_updates(b, l);
    for (uint32_t i = b->f->blocks.n; !s && i-- > 0;) {
        const flat_block *k = &b->f->blocks.at[i];
        const char *name = pool_printf(&b->p->pool, "update %s", k->name);
        const range matrices = {k->first, k->matrices_end - k->first, 0, 0, name};
        const range rest = {k->matrices_end, k->end - k->matrices_end, 0, 0, name};
        if (k->level) {
            s = update_slices(b, l, k, name);
            continue;
        }
        if (matrices.count)
            s = update_range(b, l, &b->update->groups[0], &matrices);
        if (!s && rest.count)
            s = update_range(b, l, &b->update->groups[1], &rest);
    }
    return s;
}

void update_finish(builder *b)
{
    each_finish(b);
    for (uint32_t i = 0; b->update && i < 2; i++)
        graph_free(&b->update->groups[i].g);
}
