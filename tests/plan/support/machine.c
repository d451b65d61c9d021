#include "machine.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- tags --- */

uint64_t machine_bytes(const machine *m, weft_tensor t)
{
    weft_shape s = graph_local_shape(&m->g, t);
    return graph_shape_bytes(&s);
}

/* Shard level of a gradient's parameter, by the names of placements: zero1, zero2, zero3, and
 * "turns" of cutters.c. */
uint32_t machine_level(const machine *m, weft_tensor grad)
{
    const char *param = graph_tensor_at(&m->g, graph_tensor_at(&m->g, grad)->of)->name;
    const host_component *c = m->p->spec->placement.c;
    if (!c)
        return 0;
    if (strcmp(c->name, "turns"))
        return (uint32_t)(c->name[4] - '0');
    return !strncmp(param, "block.1.", 8) ? 3
           : !strncmp(param, "block.", 6) ? 2
           : !strncmp(param, "embed.", 6) ? 1
                                          : 0;
}

/* Is it a sum that is reduced, and restarted, in every micro-batch? */
bool machine_afresh(const machine *m, weft_tensor t)
{
    return graph_tensor_at(&m->g, t)->kind == WEFT_T_GRAD && machine_level(m, t) >= 2;
}

static bool same(tag a, tag b)
{
    return a.what == b.what && a.sums == b.sums && a.n == b.n && a.id == b.id && a.at == b.at;
}

static const char *shown(const machine *m, tag t, char out[160])
{
    static const char *const words[] = {
        "nothing", "input", "parameter",  "master",  "value",
        "sum",     "state", "collective", "updated", "workspace or scratch",
        "kept"};
    bool named = t.what != T_BUSY && t.what < T_SCRATCH && t.id && t.id <= m->g.tensors.n;
    snprintf(out, 160, "%s %s (number %u, %u, %u sums, element %u)", words[t.what],
             named ? graph_tensor_at(&m->g, t.id)->name : "", t.id, t.n, t.sums, t.at);
    return out;
}

/* The tag of cell `i` of a range that begins with `t`, of elements of `size` bytes; 0: all are the
 * same. */
static tag nth(tag t, uint64_t i, uint64_t size)
{
    t.at += size ? (uint32_t)(i * 2 / size) : 0;
    return t;
}

void machine_mark(machine *m, uint64_t at, uint64_t bytes, tag t, uint64_t size)
{
    if (at + bytes > m->p->bytes.peak || at % 2)
        fail_msg("bytes %llu to %llu are not in the arena", (unsigned long long)at,
                 (unsigned long long)(at + bytes));
    for (uint64_t i = at / 2; i < (at + bytes + 1) / 2; i++) {
        if (m->cells[i].what == T_BUSY && t.what != T_BUSY)
            fail_msg("byte %llu is written while collective %u is in flight",
                     (unsigned long long)i * 2, m->cells[i].id);
        m->cells[i] = nth(t, i - at / 2, size);
    }
}

void machine_expect(machine *m, uint64_t at, uint64_t bytes, tag want, uint64_t size,
                    const char *who)
{
    char a[160], b[160];
    if (at + bytes > m->p->bytes.peak || at % 2)
        fail_msg("%s reads outside the arena", who);
    for (uint64_t i = at / 2; i < (at + bytes + 1) / 2; i++)
        if (!same(m->cells[i], nth(want, i - at / 2, size)))
            fail_msg("rank %u, %s: byte %llu holds %s; %s is expected", m->rank, who,
                     (unsigned long long)i * 2, shown(m, m->cells[i], a),
                     shown(m, nth(want, i - at / 2, size), b));
}

static void mark(machine *m, uint64_t at, uint64_t bytes, tag t)
{
    machine_mark(m, at, bytes, t, 0);
}

static void expect(machine *m, uint64_t at, uint64_t bytes, tag want, const char *who)
{
    machine_expect(m, at, bytes, want, 0, who);
}

/* --- the graph of the model on this mesh --- */

static void split_data(machine *m)
{
    for (uint32_t a = 0; a < m->g.mesh->n; a++) {
        if (m->g.mesh->size[a] < 2)
            continue;
        m->axes++;
        for (weft_tensor t = 1; t <= m->g.tensors.n; t++)
            if (graph_tensor_at(&m->g, t)->kind == WEFT_T_INPUT &&
                graph_tensor_at(&m->g, t)->shape.rank)
                assert_int_equal(graph_split(&m->g, graph_tensor_at(&m->g, t)->name, "tokens", a),
                                 WEFT_OK);
    }
}

static void build_graph(machine *m, int want)
{
    const spec *s = m->p->spec;
    graph *g = &m->g;
    graph_init(g, &s->mesh, graph_ops_of(s->host), s->compute, s->grad_dtype);
    const host_component *c = s->family.c;
    const weft_model_table *family = c->table;
    const int64_t batch = (int64_t)(s->micro_batch * m->p->dp_size);
    const double samples = want ? (double)batch : (double)s->batch;
    const weft_model_args args = {.struct_size = sizeof args,
                                  .want = want ? WEFT_MODEL_EVAL : WEFT_MODEL_TRAIN,
                                  .vocab = s->model.vocab,
                                  .batch = batch,
                                  .sequence = s->sequence,
                                  .weight = 1 / (samples * (double)s->sequence),
                                  .conf = s->family.conf,
                                  .fields = s->fields,
                                  .nfields = s->nfields};
    weft_builder b = graph_builder(g);
    weft_tensor loss, sum, out;
    assert_int_equal(family->build(c->module, &args, &b, &loss), WEFT_OK);
    split_data(m);
    assert_int_equal(b.scalar(b.ctx, "loss", 0, &sum), WEFT_OK);
    assert_int_equal(b.op(b.ctx, "accumulate", NULL, 0, &loss, 1, 0, &out, 1), WEFT_OK);
    g->nodes.at[g->nodes.n - 1].out[0] = sum;
    graph_tensor_at(g, sum)->sum = true;
    assert_int_equal(graph_propagate(g, 0), WEFT_OK);
    uint32_t forward = g->nodes.n;
    if (!want)
        assert_int_equal(graph_backward(g, loss), WEFT_OK);
    assert_int_equal(graph_propagate(g, forward), WEFT_OK);
    if (!want && s->recompute) {
        assert_int_equal(graph_set_keep(g, s->recompute, WEFT_ACTIVATION_RECOMPUTE, NULL), WEFT_OK);
        graph_recompute(g);
    }
}

/* --- before the first entry --- */

weft_tensor machine_param(const machine *m, const char *param)
{
    weft_tensor t = graph_find(&m->g, param);
    if (!t)
        fail_msg("the graph has no parameter %s", param);
    return t;
}

static void place_parameters(machine *m)
{
    for (uint32_t i = 0; i < m->p->pieces.n; i++) {
        const plan_piece *x = &m->p->pieces.at[i];
        tag t = {.id = machine_param(m, x->param)};
        plan_extent own;
        plan_extent_of(m->p, x, m->rank, PLAN_EXTENT_HELD, &own);
        t.what = strcmp(x->name, x->param) ? T_STATE : x->copy == UINT64_MAX ? T_PARAM : T_MASTER;
        t.at = (uint32_t)own.first;
        if (own.count) {
            expect(m, own.offset, own.count * 4, (tag){0}, x->name);
            machine_mark(m, own.offset, own.count * 4, t, 4);
        }
        uint64_t size = weft_dtype_size(x->copy_dtype);
        plan_extent_of(m->p, x, m->rank, PLAN_EXTENT_COPIED, &own);
        if (x->copy == UINT64_MAX || !own.count)
            continue;
        t.what = T_PARAM;
        t.at = (uint32_t)own.first;
        expect(m, own.copy, own.count * size, (tag){0}, x->name);
        machine_mark(m, own.copy, own.count * size, t, size);
    }
}

static void place_inputs(machine *m)
{
    for (uint32_t i = 0; i < m->p->inputs.n; i++) {
        const plan_input_slot *x = &m->p->inputs.at[i];
        tag t = {T_INPUT, 0, 0, graph_find(&m->g, x->name), 0};
        for (uint32_t pass = 0; t.id && pass < m->p->micro_batches; pass++) {
            t.n = (uint16_t)pass;
            expect(m, x->offset + pass * x->stride, x->bytes, (tag){0}, x->name);
            mark(m, x->offset + pass * x->stride, x->bytes, t);
        }
    }
}

static void move_bases(machine *m)
{
    m->bases = malloc(m->p->bases.n * sizeof *m->bases + 1);
    memcpy(m->bases, m->p->bases.at, m->p->bases.n * sizeof *m->bases);
    for (uint32_t i = 0; i < m->p->shifts.n; i++) {
        const plan_shift *x = &m->p->shifts.at[i];
        m->bases[x->base] += x->stride * graph_mesh_coord(&m->p->spec->mesh, m->rank, x->mesh_axis);
    }
}

void machine_begin(machine *m, const plan *p, int want, uint32_t rank)
{
    *m = (machine){.p = p, .passes = want ? 1 : p->micro_batches, .rank = rank};
    move_bases(m);
    build_graph(m, want);
    uint32_t n = m->g.tensors.n + 1;
    m->cells = calloc(p->bytes.peak / 2 + 1, sizeof *m->cells);
    m->before = calloc(p->bytes.peak / 2 + 1, sizeof *m->before);
    m->squared = calloc(n, sizeof *m->squared);
    for (weft_tensor t = 1; t < n; t++)
        if (graph_tensor_at(&m->g, t)->kind == WEFT_T_GRAD)
            m->squared[t] = calloc(machine_bytes(m, t), 1);
    m->grad_at = malloc(n * sizeof *m->grad_at);
    memset(m->grad_at, 0xff, n * sizeof *m->grad_at);
    m->grad_pass = calloc(n, sizeof *m->grad_pass);
    m->writes = calloc(n, sizeof *m->writes);
    m->work = calloc(m->g.nodes.n, sizeof *m->work);
    for (uint32_t i = 0; i < m->g.nodes.n; i++)
        for (uint32_t k = 0; k < m->g.nodes.at[i].nout; k++)
            m->writes[m->g.nodes.at[i].out[k]]++;
    place_parameters(m);
    place_inputs(m);
}

void machine_end(machine *m)
{
    for (weft_tensor t = 0; t <= m->g.tensors.n; t++)
        free(m->squared[t]);
    free(m->cells);
    free(m->before);
    free(m->squared);
    free(m->bases);
    free(m->grad_at);
    free(m->grad_pass);
    free(m->writes);
    free(m->work);
    graph_free(&m->g);
}

/* --- one instruction of a block --- */

static void check_operand(const machine *m, weft_tensor t, const weft_operand *o, const char *who)
{
    weft_shape s = graph_local_shape(&m->g, t);
    bool fits = o->dtype == s.dtype && o->rank == s.rank;
    for (uint32_t i = 0; fits && i < s.rank; i++)
        fits = o->size[i] == s.axes[i].size;
    if (!fits)
        fail_msg("%s: the operand %s has another shape", who, graph_tensor_at(&m->g, t)->name);
}

static bool is_scalar_slot(const machine *m, const graph_tensor *t, uint64_t at)
{
    for (uint32_t i = 0; i < m->p->scalars.n; i++)
        if (m->p->scalars.at[i].offset == at)
            return t->constant ? m->p->scalars.at[i].value == t->value
                               : !strcmp(m->p->scalars.at[i].name, t->name);
    return false;
}

static void read_operand(machine *m, weft_tensor t, uint64_t at, uint32_t pass, const char *who)
{
    const graph_tensor *x = graph_tensor_at(&m->g, t);
    tag want = {T_VALUE, 0, (uint16_t)pass, t, 0};
    uint64_t size = 0;
    if (x->kind == WEFT_T_SCALAR) {
        if (!is_scalar_slot(m, x, at))
            fail_msg("%s: the scalar %s is not at byte %llu", who, x->name, (unsigned long long)at);
        return;
    }
    if (x->kind == WEFT_T_PARAM) {
        want = (tag){.what = T_PARAM, .id = t};
        size = weft_dtype_size(m->g.compute);
    }
    if (x->kind == WEFT_T_INPUT)
        want.what = T_INPUT;
    machine_expect(m, at, machine_bytes(m, t), want, size, who);
}

static void write_operand(machine *m, weft_tensor t, uint64_t at, uint32_t pass, bool adds,
                          const char *who)
{
    const graph_tensor *x = graph_tensor_at(&m->g, t);
    tag made = {T_VALUE, 0, (uint16_t)pass, t, 0};
    uint64_t size = x->kind == WEFT_T_GRAD ? weft_dtype_size(m->g.grad_dtype) : 0;
    if (x->sum) {
        if (machine_afresh(m, t) && m->grad_pass[t] != pass)
            m->grad_at[t] = UINT64_MAX;
        m->grad_pass[t] = pass;
        if (m->grad_at[t] == UINT64_MAX && adds)
            fail_msg("%s: adds to %s, which nobody has written in this list", who, x->name);
        if (m->grad_at[t] != UINT64_MAX && (m->grad_at[t] != at || !adds))
            fail_msg("%s: %s is written afresh, or elsewhere", who, x->name);
        made = m->grad_at[t] == UINT64_MAX ? (tag){T_SUM, 0, 0, t, 0} : m->cells[at / 2];
        if (adds)
            machine_expect(m, at, machine_bytes(m, t), (tag){T_SUM, 0, made.n, t, 0}, size, who);
        m->grad_at[t] = at;
        made.n++;
    } else if (adds) {
        fail_msg("%s: adds to %s, which is no sum", who, x->name);
    }
    if (x->kind == WEFT_T_SCALAR && !is_scalar_slot(m, x, at))
        fail_msg("%s: the scalar %s is not at byte %llu", who, x->name, (unsigned long long)at);
    machine_mark(m, at, machine_bytes(m, t), made, size);
}

static void check_op(const graph_node *n, const weft_opspec *op)
{
    if (n->op && n->op->flags & WEFT_OP_ELEMENTWISE) {
        assert_string_equal(op->id, "ew");
        assert_int_equal(op->program->nsteps, 1);
        assert_int_equal(op->program->steps[0].op, n->op->ew);
    } else {
        assert_string_equal(op->id, n->id);
    }
    assert_int_equal(op->nin, n->nin);
    assert_int_equal(op->nout, n->nout);
}

/* Address of operand `k` of the instruction in this call. */
uint64_t machine_place(const machine *m, const plan_entry *e, const plan_instr *x, uint32_t k)
{
    const plan_ref *r = &m->p->refs.at[x->first_ref + k];
    assert_true(r->base < m->p->segments.at[e->what].nbases);
    return m->bases[e->first_base + r->base] + r->offset;
}

static void step_node(machine *m, const plan_entry *e, const plan_instr *x, const graph_node *n)
{
    const plan_kernel *k = &m->p->kernels.at[x->kernel];
    char who[200];
    snprintf(who, sizeof who, "%s, pass %u, %s", e->name, e->micro_batch, n->id);
    check_op(n, &k->spec);
    for (uint32_t i = 0; i < n->nin; i++) {
        check_operand(m, n->in[i], &k->spec.in[i], who);
        if (!m->p->refs.at[x->first_ref + i].absent)
            read_operand(m, n->in[i], machine_place(m, e, x, i), e->micro_batch, who);
    }
    mark(m, m->p->workspace, k->workspace, (tag){.what = T_SCRATCH});
    for (uint32_t i = 0; i < n->nout; i++) {
        check_operand(m, n->out[i], &k->spec.out[i], who);
        write_operand(m, n->out[i], machine_place(m, e, x, n->nin + i), e->micro_batch,
                      k->spec.flags & WEFT_SPEC_ACCUMULATE, who);
    }
    for (uint32_t i = 0; i < n->nout; i++) { /* outputs must not overlap */
        const graph_tensor *t = graph_tensor_at(&m->g, n->out[i]);
        if (!t->sum)
            read_operand(m, n->out[i], machine_place(m, e, x, n->nin + i), e->micro_batch, who);
    }
}

/* --- calls --- */

static void begin_work(machine *m, const plan_entry *e)
{
    bool backward = !strncmp(e->name, "backward ", 9);
    const char *block = strchr(e->name, ' ') + 1;
    m->nwork = m->at = 0;
    for (uint32_t i = 0; i < m->g.nodes.n; i++) {
        const graph_node *n = &m->g.nodes.at[i];
        if (!strcmp(m->g.blocks.at[n->block], block) && (n->phase != PHASE_FORWARD) == backward)
            m->work[m->nwork++] = i;
    }
    m->works++;
}

void machine_call_block(machine *m, const plan_entry *e)
{
    const plan_segment *s = &m->p->segments.at[e->what];
    if (m->at == m->nwork)
        begin_work(m, e);
    for (uint32_t i = 0; i < s->n; i++) {
        if (m->at == m->nwork)
            fail_msg("%s: more instructions than nodes", e->name);
        step_node(m, e, &m->p->instrs.at[s->first + i], &m->g.nodes.at[m->work[m->at++]]);
    }
    if (m->at != m->nwork && !m->g.nodes.at[m->work[m->at]].comm)
        fail_msg("%s: fewer instructions than nodes", e->name);
}

void machine_walk_all(const plan_set *plans, const plan *p)
{
    machine *m;
    const uint32_t ranks = p->spec->ranks;
    machine_team(p, 0, &m);
    machine_walk(m, ranks, &p->step);
    machine_end_of_step(m, ranks);
    machine_dismiss(m);
    machine_team(p, 1, &m);
    machine_walk(m, ranks, &p->eval);
    assert_int_equal(m->works, m->g.blocks.n);
    machine_dismiss(m);
    assert_int_equal(plan_check(plans), WEFT_OK);
}
