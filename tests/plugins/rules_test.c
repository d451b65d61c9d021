/* Does each update rule do what its formula says?
 *
 * The graph that a rule writes is run over several steps twice: node by node in double precision,
 * against the formula of torch.optim written out here, and as the joined fp32 program that devices
 * run, which may differ from it by rounding alone. */
#include <math.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "graph/graph.h"

#include <weft/optim.h>

#include <test.h>

#include "builtin.h"
#include "graph_eval.h"
#include "open.h"

#define N 6
#define STEPS 12

static const graph_mesh alone = {0};

/* A rule's update of one parameter [N], as a graph and as a program. */
typedef struct update {
    graph g;
    weft_tensor p, grad, lr, count, gate;
    graph_fused f;
    uint32_t states;
} update;

static weft_status write_rule(update *u, const char *rule, const char *options, uint32_t flags)
{
    option_values values = {open_component("optim", rule), options};
    weft_conf conf = conf_of(&values);
    const weft_rule *table = values.of->table;
    *u = (update){0};
    graph_init(&u->g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&u->g);
    weft_shape s = {.dtype = WEFT_F32, .rank = 1, .axes = {{"elements", N}}};
    u->p = graph_add(&u->g, "p", WEFT_T_PARAM, &s);
    u->grad = graph_add(&u->g, "g", WEFT_T_ACTIVATION, &s);
    u->g.now.state_of = "p";
    assert_int_equal(b.scalar(b.ctx, "lr", 0, &u->lr), WEFT_OK);
    assert_int_equal(b.scalar(b.ctx, "count", 0, &u->count), WEFT_OK);
    assert_int_equal(b.scalar(b.ctx, "gate", 0, &u->gate), WEFT_OK);
    assert_int_equal(table->unit, WEFT_UNIT_ELEMENT);
    weft_update call = {sizeof call, flags, "p", u->p, u->grad, u->lr, u->count, NULL};
    weft_status st = table->update(NULL, &conf, &b, &call);
    for (weft_tensor t = 1; t <= u->g.tensors.n; t++)
        u->states += graph_tensor_at(&u->g, t)->kind == WEFT_T_STATE;
    return st != WEFT_OK ? st : graph_fuse(&u->g, &u->g.nodes, u->gate, NULL, &u->g.pool, &u->f);
}

/* --- The joined program in fp32: what a device does with it --- */

static void run_program(const update *u, float (*value)[N])
{
    const graph_fused *f = &u->f;
    float out[32][N];
    for (int64_t i = 0; i < N; i++) {
        float r[WEFT_EW_MAX_REGISTERS] = {0};
        for (uint32_t k = 0; k < f->nin; k++)
            r[k] = value[f->in[k]][graph_tensor_at(&u->g, f->in[k])->shape.rank ? i : 0];
        for (uint32_t k = 0; k < f->program.nsteps; k++) {
            const weft_ew_step *s = &f->program.steps[k];
            r[s->dst] = s->op == WEFT_EW_CONST
                            ? s->imm
                            : (float)check_elementwise(s->op, (double)r[s->a], (double)r[s->b],
                                                       (double)r[s->c]);
        }
        for (uint32_t k = 0; k < f->nout; k++)
            out[k][i] = r[f->program.out_reg[k]];
    }
    for (uint32_t k = 0; k < f->nout; k++)
        memcpy(value[f->out[k]], out[k], sizeof out[k]);
}

/* --- torch.optim, one element --- */

typedef struct torch_state {
    double p, m, v;
} torch_state;

typedef struct torch_case {
    const char *rule, *options;
    double momentum, beta1, beta2, eps, decay;
} torch_case;

static void torch_sgd(const torch_case *c, torch_state *s, double g, double lr)
{
    g += c->decay * s->p;
    s->m = c->momentum * s->m + g;
    s->p -= lr * (c->momentum != 0 ? s->m : g);
}

static void torch_adam(const torch_case *c, torch_state *s, double g, double lr, int step)
{
    int decoupled = !strcmp(c->rule, "adamw");
    if (decoupled)
        s->p *= 1 - lr * c->decay;
    else
        g += c->decay * s->p;
    s->m = c->beta1 * s->m + (1 - c->beta1) * g;
    s->v = c->beta2 * s->v + (1 - c->beta2) * g * g;
    double root = sqrt(1 - pow(c->beta2, step));
    s->p -= lr / (1 - pow(c->beta1, step)) * s->m / (sqrt(s->v) / root + c->eps);
}

static double rate(int step)
{
    return 0.1 / (1 + 0.3 * step);
}

/* Gradients of all sizes, one element always 0. */
static double gradient(int step, int64_t i)
{
    return i == 3 ? 0 : rng_normal(4, (uint64_t)(step * N + i)) * pow(10, (double)(2 - i));
}

static void close_to(const torch_case *c, const char *what, double got, double want, double far)
{
    if (!(fabs(got - want) <= far * (1e-3 + fabs(want))))
        fail_msg("%s %s, %s: %.12g, not %.12g", c->rule, c->options, what, got, want);
}

static void run_case(const torch_case *c, uint32_t flags)
{
    update u;
    assert_int_equal(write_rule(&u, c->rule, c->options, flags), WEFT_OK);
    evaluation e = eval_begin(&u.g);
    torch_state want[N] = {0};
    torch_case mine = *c;
    mine.decay = flags & WEFT_PARAM_MATRIX ? c->decay : 0;
    float value[64][N] = {0};
    assert_in_range(u.g.tensors.n, 1, 63);
    for (int64_t i = 0; i < N; i++)
        want[i].p = e.value[u.p][i] = value[u.p][i] = (float)rng_normal(3, (uint64_t)i);
    for (int step = 1; step <= STEPS; step++) {
        e.value[u.lr][0] = value[u.lr][0] = (float)rate(step);
        e.value[u.count][0] = value[u.count][0] = (float)step;
        for (int64_t i = 0; i < N; i++) {
            double g = value[u.grad][i] = (float)gradient(step, i);
            e.value[u.grad][i] = g;
            if (!strcmp(c->rule, "sgd"))
                torch_sgd(&mine, &want[i], g, (float)rate(step));
            else
                torch_adam(&mine, &want[i], g, (float)rate(step), step);
        }
        eval_nodes(&e, 0, u.g.nodes.n);
        run_program(&u, value);
        for (int64_t i = 0; i < N; i++) {
            close_to(c, "in double", e.value[u.p][i], want[i].p, 1e-11);
            close_to(c, "in fp32", value[u.p][i], want[i].p, 2e-6);
        }
    }
    eval_end(&e);
    graph_free(&u.g);
}

static const torch_case cases[] = {
    {"sgd", "", 0, 0, 0, 0, 0},
    {"sgd", "momentum=0.9", 0.9, 0, 0, 0, 0},
    {"sgd", "momentum=0.5;weight_decay=0.1", 0.5, 0, 0, 0, 0.1},
    {"adam", "", 0, 0.9, 0.999, 1e-8, 0},
    {"adam", "betas=0.8, 0.9999;eps=1e-3;weight_decay=0.2", 0, 0.8, 0.9999, 1e-3, 0.2},
    {"adam", "betas=0, 0", 0, 0, 0, 1e-8, 0},
    {"adamw", "", 0, 0.9, 0.95, 1e-8, 0.1},
    {"adamw", "betas=0.9, 0.999999;weight_decay=0", 0, 0.9, 0.999999, 1e-8, 0},
};

TEST(matrices)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i], WEFT_PARAM_MATRIX);
}

TEST(biases_do_not_decay)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i], 0);
}

TEST(sizes)
{
    static const struct {
        const char *rule, *options;
        uint32_t states;
    } want[] = {{"sgd", "", 0}, {"sgd", "momentum=0.9", 1}, {"adam", "", 2}, {"adamw", "", 2}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        update u;
        assert_int_equal(write_rule(&u, want[i].rule, want[i].options, WEFT_PARAM_MATRIX), WEFT_OK);
        assert_int_equal(u.states, want[i].states);
        assert_int_equal(u.f.nout, 1 + want[i].states);
        assert_in_range(u.f.program.nregs, 3, 48); /* the core adds clip, gate and copies */
        graph_free(&u.g);
    }
}
