/* Are the gradients that ops write those of the ops?
 *
 * A graph is evaluated by plain loops in double precision, and every element of every gradient is
 * held against central differences of the loss. The graphs are each elementwise op alone, and a
 * GPT-2 and a Llama of two blocks, tied and untied, with and without dropout, which have all the
 * others: the last test checks
 * that. A differentiable op that no model has needs a case of its own here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "family.h"

#include "graph_eval.h"

static const graph_mesh alone = {0};

static void compare(const char *what, int64_t k, double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("gradient of %s, element %lld: %.9g, by differences %.9g", what, (long long)k, got,
                 want);
}

/* [number of builtin_id()] its gradient was compared with differences. */
static bool compared[200];

static void note_ops(const graph *g, uint32_t forward)
{
    const char *id;
    for (uint32_t k = 0; k < sizeof compared && (id = builtin_id(k)); k++)
        for (uint32_t i = 0; i < forward; i++)
            compared[k] |= !strcmp(g->nodes.at[i].id, id);
}

static double loss_after(evaluation *e, uint32_t forward, weft_tensor loss)
{
    eval_nodes(e, 0, forward);
    return e->value[loss][0];
}

/* d loss / d (value[t][k]), by differences */
static double slope(evaluation *e, uint32_t forward, weft_tensor loss, weft_tensor t, int64_t k)
{
    const double h = 1e-4;
    double was = e->value[t][k];
    e->value[t][k] = was + h;
    double up = loss_after(e, forward, loss);
    e->value[t][k] = was - h;
    double down = loss_after(e, forward, loss);
    e->value[t][k] = was;
    return (up - down) / (2 * h);
}

/* Every parameter's gradient; returns how many elements were compared. */
static int64_t check_params(graph *g, evaluation *e, uint32_t forward, weft_tensor loss)
{
    int64_t n = 0;
    eval_nodes(e, 0, g->nodes.n);
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(g, t);
        if (x->kind != WEFT_T_PARAM)
            continue;
        if (!x->grad)
            fail_msg("%s has no gradient", x->name);
        for (int64_t k = 0; k < eval_elements(&x->shape); k++, n++)
            compare(x->name, k, e->value[x->grad][k], slope(e, forward, loss, t, k));
    }
    return n;
}

/* One op of scalar parameters is the loss; five draws of their values. */
static void one_elementwise(const char *id)
{
    graph g;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    static const char *const names[] = {"p0", "p1", "p2"};
    weft_shape s = {.dtype = WEFT_F32}, in[3] = {s, s, s}, probe[1];
    weft_tensor p[3], loss;
    uint32_t nin = 1, one = 1;
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    while (builtin_op(id)->infer(&self, NULL, 0, in, nin, probe, &one) != WEFT_OK)
        nin++;
    for (uint32_t i = 0; i < nin; i++)
        assert_int_equal(
            b.param(b.ctx,
                    &(weft_param_args){sizeof(weft_param_args), 0, names[i], &s, "ones", NULL},
                    &p[i]),
            WEFT_OK);
    assert_int_equal(b.op(b.ctx, id, NULL, 0, p, nin, 0, &loss, 1), WEFT_OK);
    uint32_t forward = g.nodes.n;
    assert_int_equal(graph_backward(&g, loss), WEFT_OK);
    for (uint64_t draw = 0; draw < 5; draw++) {
        evaluation e = eval_begin(&g);
        for (uint32_t i = 0; i < nin; i++)
            e.value[p[i]][0] = i == 2 ? (double)(draw % 2) : 0.3 + rng_uniform(2, draw * 3 + i);
        eval_nodes(&e, 0, g.nodes.n);
        for (uint32_t i = 0; i < nin; i++) {
            weft_tensor d = graph_tensor_at(&g, p[i])->grad;
            double want = i == 2 ? 0 : slope(&e, forward, loss, p[i], 0);
            compare(id, i, d ? e.value[d][0] : 0, want);
        }
        eval_end(&e);
    }
    note_ops(&g, forward);
    graph_free(&g);
}

TEST(elementwise_ops)
{
    const char *id;
    for (uint32_t i = 0; (id = builtin_id(i)); i++)
        if (builtin_op(id)->flags & WEFT_OP_ELEMENTWISE && !eval_relabels(id)) {
            assert_int_not_equal(builtin_op(id)->ew, 0);
            one_elementwise(id);
        }
}

static family_options tiny(int tied)
{
    return (family_options){.family = "gpt2",
                            .layers = 2,
                            .heads = 2,
                            .embed = 6,
                            .ffn = 7,
                            .context = 5,
                            .vocab = 11,
                            .tied = tied,
                            .batch = 2,
                            .sequence = 4,
                            .weight = 1.0 / 8};
}

/* Queries share keys and values in twos. */
static family_options tiny_llama(int tied)
{
    family_options o = tiny(tied);
    o.family = "llama";
    o.heads = 4;
    o.kv_heads = 2;
    o.embed = 16;
    o.rope_theta = 30;
    return o;
}

/* Values that are large enough for every term of a gradient to show. */
static void fill(evaluation *e)
{
    for (weft_tensor t = 1; t <= e->g->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(e->g, t);
        uint64_t key = rng_key(5, x->name);
        for (int64_t k = 0; k < eval_elements(&x->shape); k++) {
            if (x->kind == WEFT_T_PARAM)
                e->value[t][k] = 0.5 * rng_normal(key, (uint64_t)k) + (x->init[0] == 'o');
            if (x->kind == WEFT_T_INPUT)
                e->value[t][k] = x->name[0] == 'f'   ? 1e9
                                 : x->name[0] == 'p' ? (double)(k % 4)
                                                     : (double)rng_below(key, (uint64_t)k, 11);
        }
    }
}

/* `once`: an op that both parts of a gradient share, and which must be there once a block. */
static void model(family_options o, const char *once)
{
    graph g;
    weft_tensor loss;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    assert_int_equal(family_build(&b, &o, &loss), WEFT_OK);
    uint32_t forward = g.nodes.n;
    assert_int_equal(graph_backward(&g, loss), WEFT_OK);
    evaluation e = eval_begin(&g);
    fill(&e);
    e.value[graph_find(&g, "targets")][3] = -1; /* a target that does not count */
    e.value[graph_find(&g, "scale")][0] = 1;
    assert_int_equal(check_params(&g, &e, forward, loss), family_params(&o));
    note_ops(&g, forward);
    uint32_t count = 0;
    for (uint32_t i = 0; i < g.nodes.n; i++)
        count += !strcmp(g.nodes.at[i].id, once);
    assert_int_equal(count, o.layers);
    eval_end(&e);
    graph_free(&g);
}

TEST(gpt2_tied)
{
    model(tiny(1), "gelu.dx");
}

TEST(gpt2_untied)
{
    model(tiny(0), "gelu.dx");
}

TEST(llama_tied)
{
    model(tiny_llama(1), "swiglu.dx");
}

TEST(llama_untied)
{
    model(tiny_llama(0), "attention.dx");
}

/* The gradient draws what the forward pass drew; `scale` below is 1 in every term. */
TEST(with_dropout)
{
    family_options o = tiny(1);
    o.dropout = 0.4;
    model(o, "gelu.dx");
    o = tiny_llama(0);
    o.dropout = 0.4;
    model(o, "attention.dx");
}

/* Forward and backward leave the loss as it is, with the loss scale in the gradient alone. */
TEST(loss_scale)
{
    graph g;
    family_options o = tiny(1);
    weft_tensor loss;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    assert_int_equal(family_build(&b, &o, &loss), WEFT_OK);
    assert_int_equal(graph_backward(&g, loss), WEFT_OK);
    double l[2], d[2];
    for (int i = 0; i < 2; i++) {
        evaluation e = eval_begin(&g);
        fill(&e);
        e.value[graph_find(&g, "scale")][0] = i ? 1024 : 1;
        eval_nodes(&e, 0, g.nodes.n);
        l[i] = e.value[loss][0];
        d[i] = e.value[graph_tensor_at(&g, graph_find(&g, "block.0.ffn.in.b"))->grad][0];
        eval_end(&e);
    }
    assert_true(l[0] == l[1] && l[0] > 1);
    assert_true(fabs(d[1] - 1024 * d[0]) < 1e-9 * fabs(d[1]));
    graph_free(&g);
}

/* --- ops that no model has: a small graph each --- */

static weft_tensor apply(const weft_builder *b, const char *id, weft_attr a, weft_tensor x,
                         weft_tensor y)
{
    weft_tensor out;
    if (b->op(b->ctx, id, &a, a.key ? 1 : 0, (weft_tensor[]){x, y}, y ? 2 : 1, 0, &out, 1) !=
        WEFT_OK)
        fail_msg("%s: %s", id, err_text());
    return out;
}

static weft_tensor one_param(const weft_builder *b, const char *name, weft_shape s)
{
    weft_tensor p;
    const weft_param_args args = {sizeof args, 0, name, &s, "ones", NULL};
    assert_int_equal(b->param(b->ctx, &args, &p), WEFT_OK);
    return p;
}

static weft_tensor casts(const weft_builder *b)
{
    weft_tensor x = one_param(b, "x", (weft_shape){0});
    weft_tensor low = apply(b, "cast", (weft_attr)WEFT_ATTR_INT("dtype", WEFT_BF16), x, 0);
    weft_tensor high = apply(b, "cast", (weft_attr)WEFT_ATTR_INT("dtype", WEFT_F32), low, 0);
    return apply(b, "mul", (weft_attr){0}, high, high);
}

static const weft_shape cube = {.rank = 3, .axes = {{"a", 3}, {"b", 4}, {"c", 5}}};

/* The sum of the products of x and y, over all axes. */
static weft_tensor sum_up(const weft_builder *b, weft_tensor x, weft_tensor y)
{
    weft_shape s;
    weft_tensor z = apply(b, "mul", (weft_attr){0}, x, y);
    assert_int_equal(b->shape(b->ctx, z, &s), WEFT_OK);
    for (uint32_t i = s.rank; i-- > 0;)
        z = apply(b, "sum_axis", (weft_attr)WEFT_ATTR_INT(s.axes[i].name, i), z, 0);
    return z;
}

/* Sums of squares along each axis in turn, with weights of their own. */
static weft_tensor sums(const weft_builder *b)
{
    weft_tensor x = one_param(b, "x", cube), square = apply(b, "mul", (weft_attr){0}, x, x),
                all = 0;
    for (uint32_t i = 0; i < 3; i++) {
        weft_shape rest = {.rank = 2, .axes = {cube.axes[!i], cube.axes[i < 2 ? 2 : 1]}};
        weft_tensor w = one_param(b, (const char *[]){"w0", "w1", "w2"}[i], rest);
        weft_tensor y =
            apply(b, "sum_axis", (weft_attr)WEFT_ATTR_INT(cube.axes[i].name, i), square, 0);
        weft_tensor part = sum_up(b, y, w);
        all = all ? apply(b, "add", (weft_attr){0}, all, part) : part;
    }
    return all;
}

static weft_tensor maxima(const weft_builder *b)
{
    weft_tensor x = one_param(b, "x", cube), square = apply(b, "mul", (weft_attr){0}, x, x);
    weft_shape rest = {.rank = 2, .axes = {cube.axes[0], cube.axes[2]}};
    weft_tensor y = apply(b, "max_axis", (weft_attr)WEFT_ATTR_INT("b", 1), square, 0);
    return sum_up(b, y, one_param(b, "w", rest));
}

static weft_tensor broadcasts(const weft_builder *b)
{
    weft_shape rest = {.rank = 2, .axes = {cube.axes[0], cube.axes[2]}};
    weft_tensor x = one_param(b, "x", rest), w = one_param(b, "w", cube), y;
    weft_tensor like = apply(b, "broadcast", (weft_attr)WEFT_ATTR_INT("b", 1), x, w);
    const weft_attr size[] = {WEFT_ATTR_INT("size", 4), WEFT_ATTR_INT("b", 1)};
    assert_int_equal(b->op(b->ctx, "repeat", size, 2, &x, 1, 0, &y, 1), WEFT_OK);
    return sum_up(b, apply(b, "mul", (weft_attr){0}, like, y), w);
}

static weft_tensor products(const weft_builder *b)
{
    weft_shape s = cube, z = {.rank = 3, .axes = {cube.axes[0], cube.axes[1], {"n", 2}}};
    s.axes[1] = z.axes[2];
    weft_tensor x = one_param(b, "x", cube), w = one_param(b, "w", s);
    weft_tensor act = apply(b, "mul", (weft_attr){0}, w, w); /* of a parameter and an activation */
    weft_tensor y = apply(b, "bmm", (weft_attr){0}, x, act);
    return sum_up(b, apply(b, "bmm", (weft_attr){0}, x, w), apply(b, "mul", (weft_attr){0}, y, y));
}

/* Of a model every token attends to what is before it alone. */
static weft_tensor both_ways(const weft_builder *b)
{
    const weft_shape qkv = {.rank = 4,
                            .axes = {{"tokens", 8}, {"three", 3}, {"heads", 2}, {"dim", 3}}};
    const weft_shape like = {.rank = 3, .axes = {qkv.axes[0], qkv.axes[2], qkv.axes[3]}};
    const weft_attr attrs[] = {WEFT_ATTR_INT("sequence", 4), WEFT_ATTR_INT("causal", 0)};
    weft_tensor x = one_param(b, "x", qkv), y[2];
    assert_int_equal(b->op(b->ctx, "attention", attrs, 2, &x, 1, 0, y, 2), WEFT_OK);
    return sum_up(b, y[0], one_param(b, "w", like));
}

/* ... and every column of the logits counts. */
static weft_tensor padded(const weft_builder *b)
{
    const weft_shape logits = {.rank = 2, .axes = {{"tokens", 3}, {"vocab", 13}}};
    const weft_shape tokens = {.dtype = WEFT_I32, .rank = 1, .axes = {{"tokens", 3}}};
    const weft_attr attrs[] = {WEFT_ATTR_INT("valid", 11), WEFT_ATTR_REAL("weight", 0.25)};
    weft_tensor in[3] = {one_param(b, "x", logits)}, out[2];
    in[1] = graph_add(b->ctx, "targets", WEFT_T_INPUT, &tokens);
    assert_int_equal(b->constant(b->ctx, 1, 0, &in[2]), WEFT_OK);
    assert_int_equal(b->op(b->ctx, "softmax_xent", attrs, 2, in, 3, 0, out, 2), WEFT_OK);
    return out[1];
}

static void small_graph(weft_tensor (*build)(const weft_builder *b), int64_t least)
{
    graph g;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    weft_tensor loss = build(&b);
    uint32_t forward = g.nodes.n;
    assert_int_equal(graph_backward(&g, loss), WEFT_OK);
    evaluation e = eval_begin(&g);
    fill(&e);
    assert_true(check_params(&g, &e, forward, loss) >= least);
    note_ops(&g, forward);
    eval_end(&e);
    graph_free(&g);
}

TEST(other_ops)
{
    small_graph(casts, 1);
    small_graph(products, 60 + 30);
    small_graph(sums, 60 + 20 + 15 + 12);
    small_graph(maxima, 60 + 15);
    small_graph(broadcasts, 60 + 15);
    small_graph(both_ways, 144 + 48);
    small_graph(padded, 39);
}

/* What has no gradient says so instead of training on a wrong one. */
TEST(refused)
{
    graph g;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    weft_shape s = {.rank = 2, .axes = {{"t", 2}, {"c", 3}}}, c = {.rank = 1, .axes = {{"c", 3}}};
    weft_tensor x, gain, out[3], y, scalar;
    assert_int_equal(
        b.param(b.ctx, &(weft_param_args){sizeof(weft_param_args), 0, "x", &s, "ones", NULL}, &x),
        WEFT_OK);
    assert_int_equal(b.param(b.ctx,
                             &(weft_param_args){sizeof(weft_param_args), 0, "g", &c, "ones", NULL},
                             &gain),
                     WEFT_OK);
    assert_int_equal(
        b.op(b.ctx, "layernorm", NULL, 0, (weft_tensor[]){x, gain, gain}, 3, 0, out, 3), WEFT_OK);
    assert_int_equal(graph_backward(&g, out[1]), WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "by-product"));
    assert_int_equal(b.op(b.ctx, "sumsq", NULL, 0, &x, 1, 0, &scalar, 1), WEFT_OK);
    assert_int_equal(b.op(b.ctx, "mul", NULL, 0, (weft_tensor[]){x, scalar}, 2, 0, &y, 1), WEFT_OK);
    assert_int_equal(graph_backward(&g, y), WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "is a scalar in an elementwise op"));
    graph_free(&g);
}

/* No gradient flows through random. xent.max and xent.sums refuse one; xent.finish is the loss of a
 * graph whose logits are split, which no graph here is: graph_shard_test.c evaluates it. */
TEST(every_op_is_compared)
{
    const char *id;
    uint32_t k = 0;
    for (; (id = builtin_id(k)); k++)
        if (builtin_op(id)->grad && !eval_relabels(id) && strncmp(id, "xent.", 5) &&
            strcmp(id, "random")) {
            assert_true(k < sizeof compared);
            if (!compared[k])
                fail_msg("no case compares the gradient of %s with differences", id);
        }
    assert_true(k > 30);
}
