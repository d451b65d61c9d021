#include "machine.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- tags --- */

static bool same(tag a, tag b)
{
    return a.what == b.what && a.sums == b.sums && a.n == b.n && a.id == b.id;
}

static const char *shown(const machine *m, tag t, char out[160])
{
    static const char *const words[] = {
        "nothing", "input", "parameter",  "master",  "value",
        "sum",     "state", "collective", "updated", "workspace or scratch"};
    bool named = t.what != T_BUSY && t.what != T_SCRATCH && t.id && t.id <= m->g.tensors.n;
    snprintf(out, 160, "%s %s (number %u, %u, %u sums)", words[t.what],
             named ? graph_tensor(&m->g, t.id)->name : "", t.id, t.n, t.sums);
    return out;
}

static void mark(machine *m, uint64_t at, uint64_t bytes, tag t)
{
    if (at + bytes > m->p->bytes.peak || at % 2)
        fail_msg("bytes %llu to %llu are not in the arena", (unsigned long long)at,
                 (unsigned long long)(at + bytes));
    for (uint64_t i = at / 2; i < (at + bytes + 1) / 2; i++) {
        if (m->cells[i].what == T_BUSY && t.what != T_BUSY)
            fail_msg("byte %llu is written while collective %u is in flight",
                     (unsigned long long)i * 2, m->cells[i].id);
        m->cells[i] = t;
    }
}

static void expect(machine *m, uint64_t at, uint64_t bytes, tag want, const char *who)
{
    char a[160], b[160];
    if (at + bytes > m->p->bytes.peak || at % 2)
        fail_msg("%s reads outside the arena", who);
    for (uint64_t i = at / 2; i < (at + bytes + 1) / 2; i++)
        if (!same(m->cells[i], want))
            fail_msg("%s: byte %llu holds %s; %s is expected", who, (unsigned long long)i * 2,
                     shown(m, m->cells[i], a), shown(m, want, b));
}

/* --- the graph, as the model and the mesh have it --- */

static void split_data(machine *m)
{
    for (uint32_t a = 0; a < m->g.mesh->n; a++) {
        if (m->g.mesh->size[a] < 2)
            continue;
        m->axes++;
        for (weft_tensor t = 1; t <= m->g.tensors.n; t++)
            if (graph_tensor(&m->g, t)->kind == WEFT_T_INPUT)
                assert_int_equal(graph_split(&m->g, graph_tensor(&m->g, t)->name, "tokens", a),
                                 WEFT_OK);
    }
}

static void build_graph(machine *m, int want)
{
    const spec *s = m->p->spec;
    graph *g = &m->g;
    graph_init(g, &s->mesh, s->compute, s->grad_dtype);
    model_options o = s->model;
    o.batch = (int64_t)(s->microbatch * m->p->sharing);
    double sequences = want ? (double)o.batch : (double)s->batch;
    o.weight = 1 / (sequences * (double)o.sequence);
    o.want = want;
    weft_builder b = graph_builder(g);
    weft_tensor loss, sum, out;
    assert_int_equal(model_build(&b, &o, &loss), WEFT_OK);
    split_data(m);
    assert_int_equal(b.scalar(b.ctx, "loss", &sum), WEFT_OK);
    assert_int_equal(b.op(b.ctx, "accumulate", NULL, 0, &loss, 1, &out, 1), WEFT_OK);
    g->nodes.at[g->nodes.n - 1].out[0] = sum;
    graph_tensor(g, sum)->sum = true;
    uint32_t end = g->nodes.n;
    assert_int_equal(graph_propagate(g, 0, &end), WEFT_OK);
    uint32_t forward = g->nodes.n;
    if (!want)
        assert_int_equal(graph_backward(g, loss), WEFT_OK);
    end = g->nodes.n;
    assert_int_equal(graph_propagate(g, forward, &end), WEFT_OK);
    if (!want && s->recompute) {
        assert_int_equal(graph_keep(g, s->recompute, WEFT_KEEP_RECOMPUTE, NULL), WEFT_OK);
        graph_recompute(g);
    }
}

/* --- before the first entry --- */

static weft_tensor owner(const machine *m, const char *param)
{
    weft_tensor t = graph_find(&m->g, param);
    if (!t)
        fail_msg("the graph has no parameter %s", param);
    return t;
}

static void place_parameters(machine *m)
{
    for (uint32_t i = 0; i < m->p->pieces.n; i++) {
        const piece *x = &m->p->pieces.at[i];
        tag t = {.id = owner(m, x->param)};
        uint64_t n = shape_elements(&x->shape);
        t.what = strcmp(x->name, x->param) ? T_STATE : x->copy == UINT64_MAX ? T_PARAM : T_MASTER;
        expect(m, x->offset, n * 4, (tag){0}, x->name);
        mark(m, x->offset, n * 4, t);
        if (x->copy == UINT64_MAX)
            continue;
        t.what = T_PARAM;
        expect(m, x->copy, n * weft_dtype_size(x->copy_dtype), (tag){0}, x->name);
        mark(m, x->copy, n * weft_dtype_size(x->copy_dtype), t);
    }
}

static void place_inputs(machine *m)
{
    for (uint32_t i = 0; i < m->p->inputs.n; i++) {
        const input_slot *x = &m->p->inputs.at[i];
        tag t = {T_INPUT, 0, 0, graph_find(&m->g, x->name)};
        for (uint32_t pass = 0; t.id && pass < m->p->passes; pass++) {
            t.n = (uint16_t)pass;
            expect(m, x->offset + pass * x->stride, x->elements * 4, (tag){0}, x->name);
            mark(m, x->offset + pass * x->stride, x->elements * 4, t);
        }
    }
}

void machine_begin(machine *m, const plan *p, int want)
{
    *m = (machine){.p = p, .passes = want ? 1 : p->passes};
    build_graph(m, want);
    uint32_t n = m->g.tensors.n + 1;
    m->cells = calloc(p->bytes.peak / 2 + 1, sizeof *m->cells);
    m->before = calloc(p->bytes.peak / 2 + 1, sizeof *m->before);
    m->squared = calloc(p->bytes.peak / 2 + 1, 1);
    m->grad_at = malloc(n * sizeof *m->grad_at);
    memset(m->grad_at, 0xff, n * sizeof *m->grad_at);
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
    graph_free(&m->g);
    free(m->cells);
    free(m->before);
    free(m->squared);
    free(m->grad_at);
    free(m->writes);
    free(m->work);
}

/* --- one instruction of a block --- */

static uint64_t local_bytes(const machine *m, weft_tensor t)
{
    weft_shape s = graph_local(&m->g, t);
    return shape_bytes(&s);
}

static void check_operand(const machine *m, weft_tensor t, const weft_operand *o, const char *who)
{
    weft_shape s = graph_local(&m->g, t);
    bool fits = o->dtype == s.dtype && o->rank == s.rank;
    for (uint32_t i = 0; fits && i < s.rank; i++)
        fits = o->size[i] == s.axes[i].size;
    if (!fits)
        fail_msg("%s: the operand %s has another shape", who, graph_tensor(&m->g, t)->name);
}

static bool is_scalar_slot(const machine *m, const tensor *t, uint64_t at)
{
    for (uint32_t i = 0; i < m->p->scalars.n; i++)
        if (m->p->scalars.at[i].offset == at)
            return t->constant ? m->p->scalars.at[i].value == t->value
                               : !strcmp(m->p->scalars.at[i].name, t->name);
    return false;
}

static void read_operand(machine *m, weft_tensor t, uint64_t at, uint32_t pass, const char *who)
{
    const tensor *x = graph_tensor(&m->g, t);
    tag want = {T_VALUE, 0, (uint16_t)pass, t};
    if (x->kind == WEFT_T_SCALAR) {
        if (!is_scalar_slot(m, x, at))
            fail_msg("%s: the scalar %s is not at byte %llu", who, x->name, (unsigned long long)at);
        return;
    }
    if (x->kind == WEFT_T_PARAM)
        want = (tag){.what = T_PARAM, .id = t};
    if (x->kind == WEFT_T_INPUT)
        want.what = T_INPUT;
    expect(m, at, local_bytes(m, t), want, who);
}

static void write_operand(machine *m, weft_tensor t, uint64_t at, uint32_t pass, bool adds,
                          const char *who)
{
    const tensor *x = graph_tensor(&m->g, t);
    tag made = {T_VALUE, 0, (uint16_t)pass, t};
    if (x->sum) {
        if (m->grad_at[t] == UINT64_MAX && adds)
            fail_msg("%s: adds to %s, which nobody has written in this list", who, x->name);
        if (m->grad_at[t] != UINT64_MAX && (m->grad_at[t] != at || !adds))
            fail_msg("%s: %s is written afresh, or elsewhere", who, x->name);
        made = m->grad_at[t] == UINT64_MAX ? (tag){T_SUM, 0, 0, t} : m->cells[at / 2];
        if (adds)
            expect(m, at, local_bytes(m, t), (tag){T_SUM, 0, made.n, t}, who);
        m->grad_at[t] = at;
        made.n++;
    } else if (adds) {
        fail_msg("%s: adds to %s, which is no sum", who, x->name);
    }
    if (x->kind == WEFT_T_SCALAR && !is_scalar_slot(m, x, at))
        fail_msg("%s: the scalar %s is not at byte %llu", who, x->name, (unsigned long long)at);
    mark(m, at, local_bytes(m, t), made);
}

static void check_op(const node *n, const weft_opspec *op)
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

/* Where operand `k` of the instruction lies in this call. */
static uint64_t place_of(const machine *m, const entry *e, const instr *x, uint32_t k)
{
    const ref *r = &m->p->refs.at[x->first_ref + k];
    assert_true(r->base < m->p->segments.at[e->what].nbases);
    return m->p->bases.at[e->first_base + r->base] + r->offset;
}

static void step_node(machine *m, const entry *e, const instr *x, const node *n)
{
    const kernel *k = &m->p->kernels.at[x->kernel];
    char who[200];
    snprintf(who, sizeof who, "%s, pass %u, %s", e->name, e->pass, n->id);
    check_op(n, &k->spec);
    for (uint32_t i = 0; i < n->nin; i++) {
        check_operand(m, n->in[i], &k->spec.in[i], who);
        if (!m->p->refs.at[x->first_ref + i].shape_only)
            read_operand(m, n->in[i], place_of(m, e, x, i), e->pass, who);
    }
    mark(m, m->p->workspace, k->workspace, (tag){.what = T_SCRATCH});
    for (uint32_t i = 0; i < n->nout; i++) {
        check_operand(m, n->out[i], &k->spec.out[i], who);
        write_operand(m, n->out[i], place_of(m, e, x, n->nin + i), e->pass,
                      k->spec.flags & WEFT_SPEC_ACCUMULATE, who);
    }
    for (uint32_t i = 0; i < n->nout; i++) { /* no output lies over another */
        const tensor *t = graph_tensor(&m->g, n->out[i]);
        if (!t->sum)
            read_operand(m, n->out[i], place_of(m, e, x, n->nin + i), e->pass, who);
    }
}

/* --- calls --- */

static void begin_work(machine *m, const entry *e)
{
    bool backward = !strncmp(e->name, "backward ", 9);
    const char *block = strchr(e->name, ' ') + 1;
    m->nwork = m->at = 0;
    for (uint32_t i = 0; i < m->g.nodes.n; i++) {
        const node *n = &m->g.nodes.at[i];
        if (!strcmp(m->g.blocks.at[n->block], block) && (n->phase != PHASE_FORWARD) == backward)
            m->work[m->nwork++] = i;
    }
    m->works++;
}

static void call_block(machine *m, const entry *e)
{
    const segment *s = &m->p->segments.at[e->what];
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

static void square(machine *m, const entry *e)
{
    const instr *x = &m->p->instrs.at[m->p->segments.at[e->what].first];
    const weft_operand *o = m->p->kernels.at[x->kernel].spec.in;
    uint64_t at = place_of(m, e, x, 0), bytes = (uint64_t)o->size[0] * weft_dtype_size(o->dtype);
    for (uint64_t i = at / 2; i < (at + bytes) / 2; i++) {
        tag t = m->cells[i];
        if (t.what == T_SUM && (t.sums != m->axes || t.n != m->writes[t.id] * m->passes))
            fail_msg("the norm squares %s before it is complete", graph_tensor(&m->g, t.id)->name);
        if (t.what != T_SUM && t.what != T_NOTHING)
            fail_msg("the norm squares what is no gradient, at byte %llu", (unsigned long long)i);
        m->squared[i]++;
    }
}

/* The parameter of element `i` of an operand of the update; 0 where there is none. */
static weft_tensor element_of(const machine *m, const weft_operand *o, uint64_t at, uint64_t i)
{
    tag t = m->cells[(at + i * weft_dtype_size(o->dtype)) / 2];
    if (t.what == T_SUM)
        return graph_tensor(&m->g, t.id)->of;
    return t.what == T_NOTHING ? 0 : t.id;
}

static void update(machine *m, const entry *e)
{
    const instr *x = &m->p->instrs.at[m->p->segments.at[e->what].first];
    const weft_opspec *op = &m->p->kernels.at[x->kernel].spec;
    uint64_t n = 0;
    for (uint32_t k = 0; k < x->nin; k++)
        n = op->in[k].rank ? (uint64_t)op->in[k].size[0] : n;
    for (uint32_t k = 0; k < x->nin; k++) { /* all operands run over the same parameters */
        uint64_t at = place_of(m, e, x, k), out = place_of(m, e, x, x->nin);
        for (uint64_t i = 0; op->in[k].rank && i < n; i++)
            assert_int_equal(element_of(m, &op->in[k], at, i), element_of(m, &op->out[0], out, i));
    }
    for (uint32_t k = 0; k < x->nout; k++) {
        uint64_t at = place_of(m, e, x, x->nin + k), size = weft_dtype_size(op->out[k].dtype);
        for (uint64_t i = 0; i < n; i++) {
            tag old = m->cells[(at + i * size) / 2];
            if (old.what == T_UPDATED || old.what == T_SUM)
                fail_msg("%s writes twice, or a gradient", e->name);
            if (old.what != T_NOTHING)
                mark(m, at + i * size, size, (tag){.what = T_UPDATED, .id = old.id});
        }
        m->updated += n;
    }
}

static void call(machine *m, const entry *e)
{
    if (!strncmp(e->name, "forward ", 8) || !strncmp(e->name, "backward ", 9))
        call_block(m, e);
    else if (!strcmp(e->name, "sum of squares"))
        square(m, e);
    else if (!strncmp(e->name, "update ", 7))
        update(m, e);
}

/* --- collectives --- */

static void begin_collective(machine *m, const entry *e)
{
    const collective *c = &m->p->collectives.at[e->what];
    uint64_t bytes = c->count * weft_dtype_size(c->dtype);
    tag busy = {.what = T_BUSY, .id = e->what + 1};
    assert_int_equal(c->in, c->out);
    for (uint64_t i = c->in / 2; i < (c->in + bytes) / 2; i++) {
        tag t = m->cells[i];
        uint32_t parts = t.what == T_SUM ? m->writes[t.id] * m->passes : 0;
        if (t.what == T_BUSY || (t.what == T_SUM && t.n != parts))
            fail_msg("%s starts before %s is complete", e->name, graph_tensor(&m->g, t.id)->name);
        m->before[i] = t;
        m->cells[i] = busy;
    }
    for (uint64_t i = c->scratch / 2; i < (c->scratch + c->scratch_bytes) / 2; i++)
        if (m->cells[i].what == T_BUSY)
            fail_msg("%s: its scratch is in use by collective %u", e->name, m->cells[i].id - 1);
    mark(m, c->scratch, c->scratch_bytes, busy);
}

static void end_collective(machine *m, const entry *e)
{
    const collective *c = &m->p->collectives.at[e->what];
    uint64_t bytes = c->count * weft_dtype_size(c->dtype);
    tag busy = {.what = T_BUSY, .id = e->what + 1};
    expect(m, c->in, bytes, busy, e->name);
    expect(m, c->scratch, c->scratch_bytes, busy, e->name);
    for (uint64_t i = c->in / 2; i < (c->in + bytes) / 2; i++) {
        m->cells[i] = m->before[i];
        m->cells[i].sums += m->before[i].what == T_SUM;
    }
    for (uint64_t i = c->scratch / 2; i < (c->scratch + c->scratch_bytes) / 2; i++)
        m->cells[i] = (tag){.what = T_SCRATCH};
}

void machine_walk(machine *m, const list *l)
{
    for (uint32_t i = 0; i < l->entries.n; i++) {
        const entry *e = &l->entries.at[i];
        switch (e->kind) {
        case ENTRY_CALL: call(m, e); break;
        case ENTRY_START: begin_collective(m, e); break;
        case ENTRY_WAIT: end_collective(m, e); break;
        default: fail_msg("%s: what kind of entry is that?", e->name);
        }
    }
    assert_int_equal(m->at, m->nwork);
}

/* --- after the last entry --- */

void machine_end_of_step(machine *m)
{
    assert_int_equal(m->works, 2 * m->g.blocks.n * m->passes);
    for (weft_tensor t = 1; t <= m->g.tensors.n; t++) {
        const tensor *x = graph_tensor(&m->g, t);
        if (x->kind == WEFT_T_PARAM && !x->grad)
            fail_msg("%s has no gradient", x->name);
        if (x->kind != WEFT_T_GRAD)
            continue;
        tag whole = {T_SUM, (uint8_t)m->axes, (uint16_t)(m->writes[t] * m->passes), t};
        expect(m, m->grad_at[t], local_bytes(m, t), whole, x->name);
        for (uint64_t i = m->grad_at[t] / 2; i < (m->grad_at[t] + local_bytes(m, t)) / 2; i++)
            assert_int_equal(m->squared[i], 1);
    }
    for (uint32_t i = 0; i < m->p->pieces.n; i++) {
        const piece *x = &m->p->pieces.at[i];
        tag done = {.what = T_UPDATED, .id = owner(m, x->param)};
        uint64_t n = shape_elements(&x->shape);
        expect(m, x->offset, n * 4, done, x->name);
        if (x->copy != UINT64_MAX)
            expect(m, x->copy, n * weft_dtype_size(x->copy_dtype), done, x->name);
        assert_true(x->writer < m->p->spec->ranks);
    }
}
