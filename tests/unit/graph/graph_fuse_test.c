/* Does a fused program compute what its ops do one by one?
 *
 * Chains are drawn: elementwise ops over vectors, scalars and constants, with assignments. The
 * program is run by the plainest interpreter and held, bit for bit in double precision, against
 * the evaluation of the graph node by node. */
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "check/reference/reference.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "graph_eval.h"

#define LANES 5

static const graph_mesh alone = {0};

typedef struct draw {
    uint64_t key, at;
} draw;

static uint64_t below(draw *d, uint64_t n)
{
    return rng_below(d->key, d->at++, n);
}

/* The id of an elementwise op by its number. */
static const char *id_of(uint32_t ew)
{
    const char *id;
    for (uint32_t i = 0; (id = builtin_id(i)); i++)
        if (builtin_op(id)->ew == ew)
            return id;
    fail_msg("no op has the number %u", ew);
    return NULL;
}

static uint32_t operands(const weft_builder *b, const char *id)
{
    weft_shape s = {.dtype = WEFT_F32}, in[3] = {s, s, s}, out[1];
    uint32_t nin = 1, nout = 1;
    const weft_op_self self = {.struct_size = sizeof self, .b = b};
    while (builtin_op(id)->infer(&self, NULL, 0, in, nin, out, &nout) != WEFT_OK)
        nin++;
    return nin;
}

/* One lane of the program: registers in, registers out. As in eval_node(), -0 becomes 0. */
static void run_lane(const graph_fused *f, double *reg)
{
    for (uint32_t i = 0; i < f->program.nsteps; i++) {
        const weft_ew_step *s = &f->program.steps[i];
        assert_true(s->dst < f->program.nregs);
        if (f->nin + f->program.nsteps <= WEFT_EW_MAX_REGISTERS) /* each has its own */
            assert_int_equal(s->dst, f->nin + i);
        reg[s->dst] = s->op == WEFT_EW_CONST
                          ? (double)s->imm
                          : check_elementwise(s->op, reg[s->a], reg[s->b], reg[s->c]) + 0;
    }
}

typedef struct chain {
    graph g;
    weft_tensor pool[256], states[4];
    uint32_t n, nstates;
} chain;

static weft_tensor add_input(chain *c, const char *name, bool vector)
{
    weft_shape s = {.dtype = WEFT_F32, .rank = vector, .axes = {{"elements", LANES}}};
    return c->pool[c->n++] = graph_add(&c->g, name, vector ? WEFT_T_STATE : WEFT_T_SCALAR, &s);
}

/* `ops` ops on what is there; in a long chain on what is new or an input, so that most values are
 * short-lived. */
static void make_chain(chain *c, draw *d, uint32_t ops)
{
    static const char *const ids[] = {
        "add", "sub", "mul",  "div",  "min", "max",    "sqrt", "neg",    "abs", "sign",  "exp",
        "log", "pow", "less", "copy", "cos", "select", "mul",  "finite", "add", "round", "floor"};
    *c = (chain){0};
    graph_init(&c->g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&c->g);
    for (uint32_t i = 0; i < 4; i++)
        c->states[i] = add_input(c, (const char *[]){"a", "b", "c", "d"}[i], true);
    add_input(c, "s", false);
    add_input(c, "t", false);
    for (uint32_t i = 0; i < 3; i++) {
        double value = (double)(float)(0.25 + rng_uniform(d->key, d->at++));
        assert_int_equal(b.constant(b.ctx, value, 0, &c->pool[c->n++]), WEFT_OK);
    }
    const uint32_t inputs = c->n;
    for (uint32_t i = 0; i < ops; i++) {
        const char *id = ids[below(d, sizeof ids / sizeof *ids)];
        weft_tensor in[3], out;
        uint32_t nin = operands(&b, id);
        for (uint32_t k = 0; k < nin; k++)
            in[k] = c->pool[ops > 20 && below(d, 4) ? c->n - 1 - below(d, 8)
                                                    : below(d, ops > 20 ? inputs : c->n)];
        assert_int_equal(b.op(b.ctx, id, NULL, 0, in, nin, 0, &out, 1), WEFT_OK);
        c->pool[c->n++] = out;
    }
    for (uint32_t i = c->n; i-- > 0 && c->nstates < 4;) /* the last vectors become the states */
        if (graph_tensor_at(&c->g, c->pool[i])->shape.rank)
            assert_int_equal(b.assign(b.ctx, c->states[c->nstates++], c->pool[i], 0), WEFT_OK);
}

static void fill(evaluation *e, const chain *c, draw *d)
{
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t k = 0; k < (i < 4 ? LANES : 1); k++)
            e->value[c->pool[i]][k] = 2 * rng_uniform(d->key, d->at++) - 0.5;
}

static void compare(chain *c, draw *d)
{
    graph_fused f;
    uint32_t nodes = c->g.nodes.n;
    assert_int_equal(graph_fuse(&c->g, &c->g.nodes, 0, NULL, &c->g.pool, &f), WEFT_OK);
    assert_int_equal(f.program.gate, -1);
    assert_int_equal(f.nout, c->nstates);
    evaluation e = eval_begin(&c->g);
    fill(&e, c, d);
    double got[4][LANES], reg[WEFT_EW_MAX_REGISTERS];
    assert_true(graph_fused_fits(&f));
    for (uint32_t lane = 0; lane < LANES; lane++) {
        for (uint32_t i = 0; i < f.nin; i++)
            reg[i] = e.value[f.in[i]][graph_tensor_at(&c->g, f.in[i])->shape.rank ? lane : 0];
        run_lane(&f, reg);
        for (uint32_t i = 0; i < f.nout; i++)
            got[i][lane] = reg[f.program.out_reg[i]];
    }
    /* One by one. Assignments hold at the end: none may read what another has written. */
    double *old[4];
    eval_nodes(&e, 0, nodes - c->nstates);
    for (uint32_t i = 0; i < c->nstates; i++) {
        old[i] = calloc(LANES, sizeof(double));
        memcpy(old[i], e.value[c->g.nodes.at[nodes - c->nstates + i].in[0]],
               LANES * sizeof(double));
    }
    for (uint32_t i = 0; i < f.nout; i++) {
        assert_int_equal(f.out[i], c->states[i]);
        for (uint32_t lane = 0; lane < LANES; lane++)
            if (memcmp(&got[i][lane], &old[i][lane], sizeof(double)) &&
                !(isnan(got[i][lane]) && isnan(old[i][lane])))
                fail_msg("output %u, lane %u: %.17g, one by one %.17g", i, lane, got[i][lane],
                         old[i][lane]);
        free(old[i]);
    }
    eval_end(&e);
}

TEST(drawn_chains)
{
    for (uint64_t i = 0; i < 300; i++) {
        draw d = {1000 + i, 0};
        chain c;
        make_chain(&c, &d, i < 200 ? 20 : 60 + (uint32_t)below(&d, 180));
        compare(&c, &d);
        graph_free(&c.g);
    }
}

/* Steps whose operands are all scalars are marked, and no others: a device computes them once. */
TEST(scalars_are_marked)
{
    for (uint64_t i = 0; i < 50; i++) {
        draw d = {5000 + i, 0};
        chain c;
        graph_fused f;
        bool scalar[WEFT_EW_MAX_REGISTERS] = {0};
        make_chain(&c, &d, 20);
        assert_int_equal(graph_fuse(&c.g, &c.g.nodes, 0, NULL, &c.g.pool, &f), WEFT_OK);
        for (uint32_t k = 0; k < f.nin; k++)
            scalar[k] = graph_tensor_at(&c.g, f.in[k])->shape.rank == 0;
        for (uint32_t k = 0; k < f.program.nsteps; k++) {
            const weft_ew_step *s = &f.program.steps[k];
            uint32_t nin = s->op == WEFT_EW_CONST ? 0 : 1;
            weft_builder b = graph_builder(&c.g);
            nin = nin ? operands(&b, id_of(s->op)) : 0;
            bool all =
                (nin < 1 || scalar[s->a]) && (nin < 2 || scalar[s->b]) && (nin < 3 || scalar[s->c]);
            assert_int_equal(s->flags, all ? WEFT_EW_SCALAR : 0);
            scalar[s->dst] = all;
        }
        graph_free(&c.g);
    }
}

TEST(the_gate_is_an_input)
{
    draw d = {7, 0};
    chain c;
    graph_fused f;
    make_chain(&c, &d, 20);
    weft_builder b = graph_builder(&c.g);
    weft_tensor gate;
    assert_int_equal(b.scalar(b.ctx, "gate", 0, &gate), WEFT_OK);
    assert_int_equal(graph_fuse(&c.g, &c.g.nodes, gate, NULL, &c.g.pool, &f), WEFT_OK);
    assert_in_range(f.program.gate, 0, f.nin - 1);
    assert_int_equal(f.in[f.program.gate], gate);
    graph_free(&c.g);
}

TEST(refused)
{
    draw d = {8, 0};
    chain c;
    graph_fused f;
    make_chain(&c, &d, 20);
    weft_builder b = graph_builder(&c.g);
    weft_tensor x = c.states[0], sum;
    assert_int_equal(b.op(b.ctx, "sumsq", NULL, 0, &x, 1, 0, &sum, 1), WEFT_OK);
    assert_int_equal(graph_fuse(&c.g, &c.g.nodes, 0, NULL, &c.g.pool, &f), WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "sumsq is not elementwise"));
    graph_free(&c.g);
    make_chain(&c, &d, 20);
    b = graph_builder(&c.g);
    for (uint32_t i = 0; i < 33; i++) {
        weft_tensor in[] = {x, add_input(&c, "more", true)};
        assert_int_equal(b.op(b.ctx, "add", NULL, 0, in, 2, 0, &x, 1), WEFT_OK);
    }
    assert_int_equal(graph_fuse(&c.g, &c.g.nodes, 0, NULL, &c.g.pool, &f), WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "reads more than 32 tensors"));
    graph_free(&c.g);
}

static weft_tensor begin_graph(graph *g)
{
    graph_init(g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_shape s = {.dtype = WEFT_F32, .rank = 1, .axes = {{"elements", LANES}}};
    return graph_add(g, "a", WEFT_T_STATE, &s);
}

static weft_tensor op_of(graph *g, const char *id, weft_tensor x, weft_tensor y)
{
    weft_builder b = graph_builder(g);
    weft_tensor in[] = {x, y}, out;
    assert_int_equal(b.op(b.ctx, id, NULL, 0, in, y ? 2 : 1, 0, &out, 1), WEFT_OK);
    return out;
}

/* 64 values have a register each; of more, each has the register of one that nobody reads any
 * more. Devices take 256 steps. */
TEST(long_chains)
{
    static const uint32_t steps[] = {1, 62, 63, 64, 65, 255, 256, 257};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        graph g;
        graph_fused f;
        weft_tensor x = begin_graph(&g);
        for (uint32_t i = 0; i < steps[k]; i++)
            x = op_of(&g, "neg", x, 0);
        assert_int_equal(graph_fuse(&g, &g.nodes, 0, NULL, &g.pool, &f), WEFT_OK);
        assert_int_equal(f.program.nsteps, steps[k]);
        assert_int_equal(f.program.nregs, steps[k] < 64 ? steps[k] + 1 : 1);
        assert_int_equal(graph_fused_fits(&f), steps[k] <= 256);
        graph_free(&g);
    }
}

/* The input and `n` values that are made of it are summed one by one: n live at once, and then the
 * sum, which takes the register of what it read. */
TEST(values_at_once)
{
    for (uint32_t n = 61; n < 67; n++) {
        graph g;
        graph_fused f;
        weft_tensor x[67] = {begin_graph(&g)};
        for (uint32_t i = 1; i < n; i++)
            x[i] = op_of(&g, "neg", x[0], 0);
        for (uint32_t i = 1; i < n; i++)
            x[0] = op_of(&g, "add", x[0], x[i]);
        assert_int_equal(graph_fuse(&g, &g.nodes, 0, NULL, &g.pool, &f), WEFT_OK);
        assert_int_equal(f.program.nregs, n);
        assert_int_equal(graph_fused_fits(&f), n <= 64);
        graph_free(&g);
    }
}
