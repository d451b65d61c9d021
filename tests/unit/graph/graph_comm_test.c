/* Communication along any tensor axis: is what ranks compute together what one computes alone?
 *
 * A net is built twice: on a mesh, and on one rank. On the mesh every rank evaluates its own parts
 * by plain loops in double precision, and communication is carried out by its meaning: an element
 * of the result is looked up, by its index in the whole tensor, where a rank of the group has it,
 * or is added up over the group. The loss is held against that of the rank alone, and every element
 * of every gradient against central differences of that loss. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "graph_eval.h"

enum { TOKENS = 8, RANKS = 8 };

typedef struct net {
    graph g;
    weft_builder b;
    weft_tensor tokens, targets, loss;
    uint32_t forward;
} net;

/* --- building --- */

static weft_tensor param(net *n, const char *name, weft_shape s)
{
    const weft_param_args args = {sizeof args, 0, name, &s, "zeros", NULL};
    weft_tensor t;
    if (n->b.param(n->b.ctx, &args, &t) != WEFT_OK)
        fail_msg("%s", err_text());
    return t;
}

static weft_tensor op(net *n, const char *id, const weft_tensor *in, uint32_t nin, uint32_t nout)
{
    weft_tensor out[3];
    if (n->b.op(n->b.ctx, id, NULL, 0, in, nin, 0, out, nout) != WEFT_OK)
        fail_msg("%s", err_text());
    return out[nout == 2]; /* of the two of a loss, the second */
}
#define OP(n, id, nout, ...)                                                                       \
    op(n, id, (weft_tensor[]){__VA_ARGS__}, sizeof(weft_tensor[]){__VA_ARGS__} / 4, nout)

static weft_tensor comm(net *n, uint32_t kind, const char *over, const char *axis, weft_tensor in)
{
    weft_tensor out = 0;
    const uint32_t redop = kind == WEFT_REDUCE_SCATTER ? WEFT_SUM : 0;
    const weft_comm_args args = {sizeof args, 0, kind, redop, over, axis, 0, 0};
    if (n->b.comm(n->b.ctx, &args, in, &out) != WEFT_OK)
        fail_msg("%s", err_text());
    return out;
}

/* h [tokens, two, heads] = rows of a table times w1 */
static weft_tensor begin(net *n, const graph_mesh *m)
{
    const weft_shape ids = {.dtype = WEFT_I32, .rank = 1, .axes = {{"tokens", TOKENS}}};
    const weft_shape table = {.rank = 2, .axes = {{"vocab", 5}, {"embed", 3}}};
    const weft_shape w1 = {.rank = 3, .axes = {{"two", 2}, {"heads", 4}, {"embed", 3}}};
    *n = (net){0};
    graph_init(&n->g, m, builtin_ops(), WEFT_F32, WEFT_F32);
    n->b = graph_builder(&n->g);
    assert_int_equal(n->b.block(n->b.ctx, "all", 0), WEFT_OK);
    const weft_input_args inputs[] = {{sizeof *inputs, 0, "tokens", &ids},
                                      {sizeof *inputs, 0, "targets", &ids}};
    assert_int_equal(n->b.input(n->b.ctx, &inputs[0], &n->tokens), WEFT_OK);
    assert_int_equal(n->b.input(n->b.ctx, &inputs[1], &n->targets), WEFT_OK);
    weft_tensor x = OP(n, "embedding", 1, param(n, "table", table), n->tokens);
    return OP(n, "linear", 1, x, param(n, "w1", w1));
}

static void end(net *n, weft_tensor t)
{
    const weft_shape head = {.rank = 3, .axes = {{"vocab", 5}, {"two", 2}, {"heads", 4}}};
    weft_tensor scale, logits = OP(n, "linear", 1, t, param(n, "head", head));
    assert_int_equal(n->b.scalar(n->b.ctx, "scale", 0, &scale), WEFT_OK);
    n->loss = OP(n, "softmax_xent", 2, logits, n->targets, scale);
    n->forward = n->g.nodes.n;
}

static void split(net *n, const char *glob, const char *axis, const char *over)
{
    const int a = graph_mesh_axis(n->g.mesh, over);
    if (a >= 0 && n->g.mesh->size[a] > 1 && graph_split(&n->g, glob, axis, (uint32_t)a) != WEFT_OK)
        fail_msg("%s", err_text());
}

/* --- values of all ranks --- */

typedef struct values {
    graph *g;
    uint32_t ranks;
    double **of[RANKS]; /* [rank][tensor], each of its local shape */
} values;

/* Index in the whole tensor of element `k` of rank `r`'s part. */
static int64_t whole_index(const graph *g, weft_tensor t, uint32_t r, int64_t k)
{
    const weft_shape *all = &graph_tensor_at(g, t)->shape;
    const weft_shape s = graph_local_shape(g, t);
    int64_t at = 0, digit[WEFT_MAX_AXES];
    for (uint32_t i = s.rank; i-- > 0; k /= s.axes[i].size)
        digit[i] = k % s.axes[i].size;
    for (uint32_t i = 0; i < s.rank; i++) {
        uint64_t step[WEFT_MAX_MESH];
        graph_local_start(g, t, i, step);
        for (uint32_t a = 0; a < g->mesh->n; a++)
            digit[i] += (int64_t)step[a] * graph_mesh_coord(g->mesh, r, a);
        at = at * all->axes[i].size + digit[i];
    }
    return at;
}

/* Where rank `r` has element `at` of the whole tensor; -1: it has not. */
static int64_t find(const graph *g, weft_tensor t, uint32_t r, int64_t at)
{
    const weft_shape s = graph_local_shape(g, t);
    for (int64_t k = 0; k < eval_elements(&s); k++)
        if (whole_index(g, t, r, k) == at)
            return k;
    return -1;
}

static values make_values(graph *g)
{
    values v = {.g = g, .ranks = graph_mesh_ranks(g->mesh)};
    for (uint32_t r = 0; r < v.ranks; r++) {
        v.of[r] = calloc(g->tensors.n + 1, sizeof *v.of[r]);
        for (weft_tensor t = 1; t <= g->tensors.n; t++) {
            const weft_shape s = graph_local_shape(g, t);
            v.of[r][t] = calloc((size_t)eval_elements(&s), sizeof(double));
            if (graph_tensor_at(g, t)->constant)
                v.of[r][t][0] = graph_tensor_at(g, t)->value;
        }
    }
    return v;
}

static void free_values(values *v)
{
    for (uint32_t r = 0; r < v->ranks; r++) {
        for (weft_tensor t = 1; t <= v->g->tensors.n; t++)
            free(v->of[r][t]);
        free(v->of[r]);
    }
}

/* Every rank's part of `whole`. */
static void deal(values *v, weft_tensor t, const double *whole)
{
    const weft_shape s = graph_local_shape(v->g, t);
    for (uint32_t r = 0; r < v->ranks; r++)
        for (int64_t k = 0; k < eval_elements(&s); k++)
            v->of[r][t][k] = whole[whole_index(v->g, t, r, k)];
}

/* Element k of rank r's result of communication, from what the ranks of its group have. */
static double received(const values *v, const graph_node *n, uint32_t r, int64_t k)
{
    const graph *g = v->g;
    const int64_t at = whole_index(g, n->out[0], r, k);
    const bool sums = n->comm == WEFT_ALL_REDUCE || n->comm == WEFT_REDUCE_SCATTER;
    double sum = 0;
    bool any = false;
    for (uint32_t c = 0; c < g->mesh->size[n->mesh_axis]; c++) {
        const uint32_t other = graph_mesh_rank_at(g->mesh, r, n->mesh_axis, c);
        const int64_t there = find(g, n->in[0], other, at);
        if (there < 0 || (any && !sums))
            continue;
        sum += v->of[other][n->in[0]][there];
        any = true;
    }
    if (!any)
        fail_msg("%s: no rank of the group has element %lld", n->id, (long long)at);
    return sum;
}

static void run_comm(values *v, const graph_node *n)
{
    const weft_shape s = graph_local_shape(v->g, n->out[0]);
    for (uint32_t r = 0; r < v->ranks; r++)
        for (int64_t k = 0; k < eval_elements(&s); k++)
            v->of[r][n->out[0]][k] = received(v, n, r, k);
}

static void run_op(values *v, const graph_node *n, uint32_t r)
{
    check_call c;
    eval_begin_op(&c, n->id, n->attrs, n->nattr);
    for (uint32_t i = 0; i < n->nin; i++)
        check_call_from(&c, graph_local_shape(v->g, n->in[i]), v->of[r][n->in[i]]);
    for (uint32_t i = 0; i < n->nout; i++) {
        const weft_shape s = graph_local_shape(v->g, n->out[i]);
        check_call_to(&c, s, calloc((size_t)eval_elements(&s), sizeof(double)));
    }
    eval_op(&c);
    for (uint32_t i = 0; i < n->nout; i++) {
        const bool add = graph_tensor_at(v->g, n->out[i])->kind == WEFT_T_GRAD;
        for (int64_t k = 0; k < check_operand_count(&c.out[i]); k++)
            v->of[r][n->out[i]][k] = c.y[i][k] + (add ? v->of[r][n->out[i]][k] : 0);
        free(c.y[i]);
    }
}

static void run(values *v)
{
    for (uint32_t i = 0; i < v->g->nodes.n; i++) {
        const graph_node *n = &v->g->nodes.at[i];
        if (n->comm)
            run_comm(v, n);
        for (uint32_t r = 0; !n->comm && r < v->ranks; r++)
            run_op(v, n, r);
    }
}

/* The true value of element `at`: the sum over partial coordinates; the same at all whole ones. */
static double gathered(const values *v, weft_tensor t, int64_t at)
{
    const graph *g = v->g;
    double value = 0;
    bool any = false;
    for (uint32_t first = 0; first < v->ranks; first++) {
        double sum = 0;
        bool here = true, begins = true;
        for (uint32_t a = 0; a < g->mesh->n; a++)
            begins &= graph_tensor_at(g, t)->place[a].kind != WEFT_PARTIAL_SUM ||
                      graph_mesh_coord(g->mesh, first, a) == 0;
        for (uint32_t r = 0; begins && r < v->ranks; r++) {
            bool member = true;
            for (uint32_t a = 0; a < g->mesh->n; a++)
                member &= graph_tensor_at(g, t)->place[a].kind == WEFT_PARTIAL_SUM ||
                          graph_mesh_coord(g->mesh, r, a) == graph_mesh_coord(g->mesh, first, a);
            const int64_t k = member ? find(g, t, r, at) : 0;
            here &= k >= 0;
            sum += member && k >= 0 ? v->of[r][t][k] : 0;
        }
        if (!begins || !here)
            continue;
        if (any && !(fabs(sum - value) <= 1e-12 * (1 + fabs(value))))
            fail_msg("ranks differ in %s", graph_tensor_at(g, t)->name);
        value = sum;
        any = true;
    }
    assert_true(any);
    return value;
}

/* --- the comparison --- */

static void fill(evaluation *e)
{
    for (weft_tensor t = 1; t <= e->g->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(e->g, t);
        for (int64_t k = 0; k < eval_elements(&x->shape); k++) {
            const double u = rng_uniform(3, (uint64_t)(t * 1000 + k));
            if (x->kind == WEFT_T_PARAM)
                e->value[t][k] = 2 * u - 1;
            if (x->kind == WEFT_T_INPUT)
                e->value[t][k] = floor(5 * u);
            if (x->kind == WEFT_T_SCALAR && !x->constant)
                e->value[t][k] = 1;
        }
    }
}

static double slope(evaluation *e, const net *n, weft_tensor t, int64_t k)
{
    const double h = 1e-4, was = e->value[t][k];
    double loss[2];
    for (int i = 0; i < 2; i++) {
        e->value[t][k] = was + (i ? h : -h);
        eval_nodes(e, 0, n->forward);
        loss[i] = e->value[n->loss][0];
    }
    e->value[t][k] = was;
    return (loss[1] - loss[0]) / (2 * h);
}

typedef void make(net *n, const graph_mesh *m);

static uint32_t count(const net *n, uint32_t kind)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n->g.nodes.n; i++)
        found += n->g.nodes.at[i].comm == kind;
    return found;
}

static void derive(net *n)
{
    if (graph_propagate(&n->g, 0) != WEFT_OK)
        fail_msg("forward: %s", err_text());
    n->forward = n->g.nodes.n;
    if (graph_backward(&n->g, n->loss) != WEFT_OK)
        fail_msg("backward: %s", err_text());
    if (graph_propagate(&n->g, n->forward) != WEFT_OK)
        fail_msg("backward: %s", err_text());
}

static void compare(make *build, const graph_mesh *m, uint32_t kind, uint32_t times)
{
    graph_mesh one = *m;
    net alone, many;
    for (uint32_t a = 0; a < m->n; a++)
        one.size[a] = 1;
    build(&alone, &one);
    build(&many, m);
    derive(&many);
    assert_int_equal(count(&alone, kind), 0);
    assert_int_equal(count(&many, kind), times);
    evaluation e = eval_begin(&alone.g);
    fill(&e);
    eval_nodes(&e, 0, alone.forward);
    values v = make_values(&many.g);
    for (weft_tensor t = 1; t <= alone.g.tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(&alone.g, t);
        if (x->kind != WEFT_T_ACTIVATION)
            deal(&v, graph_find(&many.g, x->name), e.value[t]);
    }
    run(&v);
    const double want = e.value[alone.loss][0], got = gathered(&v, many.loss, 0);
    if (!(fabs(got - want) <= 1e-12 * fabs(want)))
        fail_msg("loss %.15g, alone %.15g", got, want);
    for (weft_tensor t = 1; t <= alone.g.tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(&alone.g, t);
        if (x->kind != WEFT_T_PARAM)
            continue;
        const weft_tensor d = graph_tensor_at(&many.g, graph_find(&many.g, x->name))->grad;
        assert_int_not_equal(d, 0);
        for (int64_t k = 0; k < eval_elements(&x->shape); k++) {
            const double by = slope(&e, &alone, t, k), is = gathered(&v, d, k);
            if (!(fabs(is - by) <= 1e-7 * (1 + fabs(by))))
                fail_msg("gradient of %s, element %lld: %.9g, by differences %.9g", x->name,
                         (long long)k, is, by);
        }
    }
    free_values(&v);
    eval_end(&e);
    graph_free(&alone.g);
    graph_free(&many.g);
}

/* --- nets --- */

static const graph_mesh cp = {.n = 1, .name = {"cp"}, .size = {2}};
static const graph_mesh cp4 = {.n = 1, .name = {"cp"}, .size = {4}};
static const graph_mesh cp_dp = {.n = 2, .name = {"cp", "dp"}, .size = {2, 2}};
static const graph_mesh cp_tp_dp = {.n = 3, .name = {"cp", "tp", "dp"}, .size = {2, 2, 2}};

/* Tokens to heads, and back: as context parallelism has it. */
static void turned(net *n, const graph_mesh *m)
{
    weft_tensor h = begin(n, m);
    weft_tensor y = OP(n, "gelu", 1, comm(n, WEFT_ALL_TO_ALL, "cp", "heads", h));
    end(n, comm(n, WEFT_ALL_TO_ALL, "cp", "tokens", OP(n, "mul", 1, y, y)));
    split(n, "tokens|targets", "tokens", "cp");
    split(n, "tokens|targets", "tokens", "dp");
    split(n, "w1|head", "heads", "tp");
}

/* Tokens to one axis, that to the other, and back: the parts of the second lie apart on both
 * sides. */
static void turned_inside(net *n, const graph_mesh *m)
{
    weft_tensor h = comm(n, WEFT_ALL_TO_ALL, "cp", "heads", begin(n, m));
    weft_tensor y = OP(n, "gelu", 1, comm(n, WEFT_ALL_TO_ALL, "cp", "two", h));
    weft_tensor z = comm(n, WEFT_ALL_TO_ALL, "cp", "tokens", OP(n, "mul", 1, y, y));
    end(n, z);
    split(n, "tokens|targets", "tokens", "cp");
}

/* A partial sum of two products, whose factors are split along `ffn`. */
static weft_tensor feed(net *n, weft_tensor x, const char *first, const char *second)
{
    const weft_shape up = {.rank = 3, .axes = {{"ffn", 4}, {"two", 2}, {"heads", 4}}};
    const weft_shape down = {.rank = 3, .axes = {{"two", 2}, {"heads", 4}, {"ffn", 4}}};
    weft_tensor h = OP(n, "gelu", 1, OP(n, "linear", 1, x, param(n, first, up)));
    h = OP(n, "linear", 1, h, param(n, second, down));
    split(n, first, "ffn", "cp");
    split(n, second, "ffn", "cp");
    return h;
}

/* A partial sum is cut along another axis than the first, and joined there; what follows computes
 * the same on all ranks. */
static void summed_inside(net *n, const graph_mesh *m)
{
    weft_tensor s = feed(n, begin(n, m), "up", "down");
    weft_tensor y = OP(n, "gelu", 1, comm(n, WEFT_REDUCE_SCATTER, "cp", "heads", s));
    end(n, comm(n, WEFT_ALL_GATHER, "cp", "heads", OP(n, "mul", 1, y, y)));
    split(n, "tokens|targets", "tokens", "dp");
}

/* The same where the joined tensor's gradient is a partial sum. */
static void summed_twice(net *n, const graph_mesh *m)
{
    weft_tensor s = feed(n, begin(n, m), "up", "down");
    weft_tensor y = OP(n, "gelu", 1, comm(n, WEFT_REDUCE_SCATTER, "cp", "heads", s));
    y = comm(n, WEFT_ALL_GATHER, "cp", "heads", OP(n, "mul", 1, y, y));
    end(n, feed(n, y, "up2", "down2"));
    split(n, "tokens|targets", "tokens", "dp");
}

/* An edit asks for the same reduce-scatter. */
static void split_inside(net *n, const graph_mesh *m)
{
    weft_tensor s = feed(n, begin(n, m), "up", "down");
    weft_tensor y = OP(n, "gelu", 1, s);
    split(n, graph_tensor_at(&n->g, s)->name, "heads", "cp");
    end(n, comm(n, WEFT_ALL_GATHER, "cp", "heads", OP(n, "mul", 1, y, y)));
    split(n, "tokens|targets", "tokens", "dp");
}

/* The output of an all-to-all is read twice, so that two contributions meet before the way back. */
static void read_twice(net *n, const graph_mesh *m)
{
    weft_tensor h = comm(n, WEFT_ALL_TO_ALL, "cp", "heads", begin(n, m));
    weft_tensor y = OP(n, "add", 1, OP(n, "gelu", 1, h), OP(n, "mul", 1, h, h));
    end(n, comm(n, WEFT_ALL_TO_ALL, "cp", "tokens", y));
    split(n, "tokens|targets", "tokens", "cp");
}

TEST(all_to_all)
{
    compare(turned, &cp, WEFT_ALL_TO_ALL, 4);
    compare(turned, &cp4, WEFT_ALL_TO_ALL, 4);
    compare(turned, &cp_dp, WEFT_ALL_TO_ALL, 4);
    compare(turned, &cp_tp_dp, WEFT_ALL_TO_ALL, 4);
    compare(turned_inside, &cp, WEFT_ALL_TO_ALL, 6);
    compare(read_twice, &cp, WEFT_ALL_TO_ALL, 4);
    compare(read_twice, &cp4, WEFT_ALL_TO_ALL, 4);
}

TEST(other_axes)
{
    compare(summed_inside, &cp, WEFT_REDUCE_SCATTER, 1);
    compare(summed_inside, &cp_dp, WEFT_REDUCE_SCATTER, 1);
    compare(summed_twice, &cp4, WEFT_REDUCE_SCATTER, 2);
    compare(summed_twice, &cp_dp, WEFT_REDUCE_SCATTER, 2);
    compare(split_inside, &cp4, WEFT_REDUCE_SCATTER, 1);
}

/* --- what cannot be --- */

static void refused(net *n, const char *why)
{
    const weft_status st = graph_propagate(&n->g, 0);
    if (st != WEFT_USAGE || !strstr(err_text(), why))
        fail_msg("status %d, '%s' where '%s' was expected", (int)st, err_text(), why);
    err_clear();
    graph_free(&n->g);
}

TEST(what_cannot_be)
{
    static const graph_mesh dp_cp = {.n = 2, .name = {"dp", "cp"}, .size = {2, 2}};
    static const graph_mesh cp8 = {.n = 1, .name = {"cp"}, .size = {8}};
    net n;
    comm(&n, WEFT_ALL_TO_ALL, "cp", "heads", begin(&n, &cp));
    refused(&n, "all_to_all over cp: linear#2.0 is not a split tensor there");
    comm(&n, WEFT_ALL_TO_ALL, "cp", "tokens", begin(&n, &cp));
    split(&n, "tokens", "tokens", "cp");
    refused(&n, "cuts 'tokens' of linear#2.0, which is split along that axis");
    turned(&n, &dp_cp);
    refused(&n, "joins 'tokens' of linear#2.0, which dp splits within it; in parallel.strategy, "
                "name the strategy of cp before that of dp");
    turned(&n, &cp8);
    refused(&n, "has 4 elements, which cp = 8 does not divide");
    comm(&n, WEFT_ALL_GATHER, "cp", "heads", begin(&n, &cp));
    split(&n, "tokens", "tokens", "cp");
    refused(&n, "all_gather over cp: linear#2.0 is not a tensor split along 'heads' there");
}
