/* Is what the ops of plugins say held against what can be: their tables, shapes, gradients, and
 * where their outputs lie?
 *
 * The ops are those of the table below, found as a plugin's would be, and weft's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/arguments.h"

#include <test.h>

#include "builtin.h"

/* --- functions of ops --- */

static weft_status like_input(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)self->b, (void)attrs, (void)nattr, (void)nin;
    out[0] = in[0];
    *nout = 1;
    return WEFT_OK;
}

#define MAYBE __attribute__((unused))
#define INFER(name)                                                                                \
    static weft_status name(MAYBE const weft_op_self *self, MAYBE const weft_attr *attrs,          \
                            MAYBE uint32_t nattr, MAYBE const weft_shape *in, MAYBE uint32_t nin,  \
                            MAYBE weft_shape *out, MAYBE uint32_t *nout)
#define GRAD(name)                                                                                 \
    static weft_status name(MAYBE const weft_op_self *self, MAYBE const weft_opcall *call,         \
                            MAYBE uint32_t phase, MAYBE weft_tensor *din)
#define SHARD(name)                                                                                \
    static weft_status name(MAYBE const weft_op_self *self, MAYBE const weft_opcall *call,         \
                            MAYBE const char *mesh_axis, MAYBE uint32_t size,                      \
                            MAYBE const weft_place *in, MAYBE weft_place *out)

INFER(no_name)
{
    out[0] = in[0];
    *nout = 1;
    out[0].axes[0].name = NULL;
    return WEFT_OK;
}

INFER(no_size)
{
    out[0] = in[0];
    *nout = 1;
    out[0].axes[0].size = 0;
    return WEFT_OK;
}

INFER(many_axes)
{
    out[0] = in[0];
    *nout = 1;
    out[0].rank = 9;
    return WEFT_OK;
}

INFER(odd_type)
{
    out[0] = in[0];
    *nout = 1;
    out[0].dtype = 99;
    return WEFT_OK;
}

INFER(many_outputs)
{
    out[0] = in[0];
    *nout = 1;
    *nout = 40;
    return WEFT_OK;
}

INFER(turned)
{
    out[0] = in[0];
    *nout = 1;
    out[0].axes[0] = in[0].axes[1];
    out[0].axes[1] = in[0].axes[0];
    return WEFT_OK;
}

INFER(half)
{
    out[0] = in[0];
    *nout = 1;
    out[0].axes[0].size /= 2;
    return WEFT_OK;
}

INFER(silent)
{
    return WEFT_IO;
}

INFER(busy)
{
    return WEFT_BUSY;
}

INFER(unknown)
{
    return (weft_status)99;
}

INFER(builds)
{
    weft_tensor t;
    return self->b->constant(self->b->ctx, 1, 0, &t);
}

GRAD(grad_garbage)
{
    din[0] = 123456;
    return WEFT_OK;
}

GRAD(grad_other)
{
    din[0] = 1;
    return WEFT_OK;
}

GRAD(grad_right)
{
    din[0] = call->dout[0];
    return WEFT_OK;
}

GRAD(grad_silent)
{
    return WEFT_UNSUPPORTED;
}

GRAD(grad_block)
{
    return self->b->block(self->b->ctx, "mine", 0);
}

GRAD(grad_assign)
{
    return self->b->assign(self->b->ctx, call->in[0], call->dout[0], 0);
}

GRAD(grad_input)
{
    weft_shape s;
    weft_status st = self->b->shape(self->b->ctx, call->in[0], &s);
    return st != WEFT_OK
               ? st
               : self->b->input(self->b->ctx,
                                &(weft_input_args){sizeof(weft_input_args), 0, "mine", &s}, din);
}

GRAD(grad_endless)
{
    weft_tensor t = call->dout[0];
    for (;;) {
        weft_status st = self->b->op(self->b->ctx, "neg", NULL, 0, &t, 1, 0, &t, 1);
        if (st != WEFT_OK)
            return st;
    }
}

SHARD(as_input)
{
    out[0] = in[0];
    return WEFT_OK;
}

SHARD(by_embed)
{
    out[0] = (weft_place){WEFT_SPLIT, 1, 0, 0};
    return WEFT_OK;
}

SHARD(by_ninth)
{
    out[0] = (weft_place){WEFT_SPLIT, 9, 0, 0};
    return WEFT_OK;
}

SHARD(oddly)
{
    out[0].kind = 77;
    return WEFT_OK;
}

SHARD(held)
{
    out[0] = (weft_place){WEFT_HELD, 1, 0, 0};
    return WEFT_OK;
}

SHARD(sum_of_axis)
{
    out[0] = (weft_place){WEFT_PARTIAL_SUM, 3, 0, 0};
    return WEFT_OK;
}

SHARD(without_reason)
{
    return WEFT_INTERNAL;
}

SHARD(building)
{
    weft_tensor t;
    return self->b->op(self->b->ctx, "neg", NULL, 0, call->in, 1, 0, &t, 1);
}

/* What a context-parallel op does that knows its axis by name: it turns a split of tokens into one
 * of heads. */
SHARD(by_name)
{
    out[0] = strcmp(mesh_axis, "cp") ? in[0] : (weft_place){WEFT_SPLIT, 1, 0, 0};
    return WEFT_OK;
}

/* What an op does that holds its split against the size. */
SHARD(divides)
{
    weft_shape s;
    weft_status st = self->b->shape(self->b->ctx, call->in[0], &s);
    out[0] = in[0];
    return st == WEFT_OK && in[0].kind == WEFT_SPLIT && s.axes[in[0].axis].size % size
               ? WEFT_UNSUPPORTED
               : st;
}

#define OP(...)                                                                                    \
    {                                                                                              \
        .struct_size = sizeof(weft_op), __VA_ARGS__                                                \
    }
static const struct {
    const char *id;
    weft_op op;
} ops[] = {
    {"x.no_name", OP(.infer = no_name)},
    {"x.no_size", OP(.infer = no_size)},
    {"x.many_axes", OP(.infer = many_axes)},
    {"x.odd_type", OP(.infer = odd_type)},
    {"x.many_outputs", OP(.infer = many_outputs)},
    {"x.silent", OP(.infer = silent)},
    {"x.busy", OP(.infer = busy)},
    {"x.unknown", OP(.infer = unknown)},
    {"x.builds", OP(.infer = builds)},
    {"x.flags", OP(.infer = like_input, .flags = 64)},
    {"x.ew0", OP(.infer = like_input, .flags = WEFT_OP_ELEMENTWISE)},
    {"x.ew99", OP(.infer = like_input, .flags = WEFT_OP_ELEMENTWISE, .ew = 99)},
    {"x.ew_two", OP(.infer = like_input, .flags = WEFT_OP_ELEMENTWISE, .ew = WEFT_EW_ADD)},
    {"x.ew_turned", OP(.infer = turned, .flags = WEFT_OP_ELEMENTWISE, .ew = WEFT_EW_NEG)},
    {"x.ew_half", OP(.infer = half, .flags = WEFT_OP_ELEMENTWISE, .ew = WEFT_EW_COPY)},
    {"x.first", OP(.infer = like_input, .first_input = 2)},
    {"x.first_axis", OP(.infer = like_input, .first_input = 1, .first_axis = 5)},
    {"x.grad_garbage", OP(.infer = like_input, .grad = grad_garbage)},
    {"x.grad_other", OP(.infer = like_input, .grad = grad_other)},
    {"x.grad_silent", OP(.infer = like_input, .grad = grad_silent)},
    {"x.grad_block", OP(.infer = like_input, .grad = grad_block)},
    {"x.grad_assign", OP(.infer = like_input, .grad = grad_assign)},
    {"x.grad_input", OP(.infer = like_input, .grad = grad_input)},
    {"x.grad_endless", OP(.infer = like_input, .grad = grad_endless)},
    {"x.grad_right", OP(.infer = like_input, .grad = grad_right)},
    {"x.as_input", OP(.infer = like_input, .shard = as_input)},
    {"x.by_embed", OP(.infer = like_input, .shard = by_embed)},
    {"x.by_ninth", OP(.infer = like_input, .shard = by_ninth)},
    {"x.oddly", OP(.infer = like_input, .shard = oddly)},
    {"x.held", OP(.infer = like_input, .shard = held)},
    {"x.sum_of_axis", OP(.infer = like_input, .shard = sum_of_axis)},
    {"x.without_reason", OP(.infer = like_input, .shard = without_reason)},
    {"x.building", OP(.infer = like_input, .shard = building)},
    {"x.by_name", OP(.infer = like_input, .shard = by_name)},
    {"x.divides", OP(.infer = like_input, .shard = divides)},
};

static const weft_op *find(void *ctx, const char *id, weft_op_self *self)
{
    (void)ctx;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].id, id))
            return &ops[i].op;
    const graph_ops others = builtin_ops();
    return others.find(others.ctx, id, self);
}

/* --- a graph with one such op --- */

typedef struct net {
    graph g;
    weft_builder b;
    weft_tensor tokens, table, x;
} net;

/* x [tokens 8, `features`], from a table; tokens are split over what `data` has bits of. */
static void begin(net *n, const graph_mesh *m, int64_t features, uint32_t data)
{
    const weft_shape ids = {.dtype = WEFT_I32, .rank = 1, .axes = {{"tokens", 8}}};
    const weft_shape rows = {.rank = 2, .axes = {{"vocab", 10}, {"embed", features}}};
    *n = (net){0};
    graph_init(&n->g, m, (graph_ops){find, NULL}, WEFT_F32, WEFT_F32);
    n->b = graph_builder(&n->g);
    assert_int_equal(n->b.block(n->b.ctx, "all", 0), WEFT_OK);
    assert_int_equal(n->b.input(n->b.ctx,
                                &(weft_input_args){sizeof(weft_input_args), 0, "tokens", &ids},
                                &n->tokens),
                     WEFT_OK);
    assert_int_equal(
        n->b.param(n->b.ctx,
                   &(weft_param_args){sizeof(weft_param_args), 0, "table", &rows, "zeros", NULL},
                   &n->table),
        WEFT_OK);
    const weft_tensor in[2] = {n->table, n->tokens};
    assert_int_equal(n->b.op(n->b.ctx, "embedding", NULL, 0, in, 2, 0, &n->x, 1), WEFT_OK);
    for (uint32_t a = 0; a < m->n; a++)
        if (data >> a & 1)
            assert_int_equal(graph_split(&n->g, "tokens", "tokens", a), WEFT_OK);
}

static weft_status put(net *n, const char *id, weft_tensor *out)
{
    return n->b.op(n->b.ctx, id, NULL, 0, &n->x, 1, 0, out, 1);
}

static void expect(weft_status got, const char *text)
{
    if (got == WEFT_OK || !strstr(err_text(), text))
        fail_msg("status %d, '%s' where '%s' was expected", (int)got, err_text(), text);
    err_clear();
}

static weft_status place(net *n)
{
    return graph_propagate(&n->g, 0);
}

static const graph_mesh pair = {.n = 1, .name = {"cp"}, .size = {2}};

/* --- rows --- */

TEST(bad_tables_and_shapes)
{
    static const struct {
        const char *id, *text;
    } bad[] = {
        {"x.no_name", "op x.no_name: infer(): the name of axis 0 of its output is NULL"},
        {"x.no_size", "axis 0 of its output, 'tokens', is empty or too large: 0"},
        {"x.many_axes", "its output has 9 axes; at most 8"},
        {"x.odd_type", "its output has the unknown element type 99"},
        {"x.many_outputs", "op x.many_outputs: it has 40 outputs, 1 were asked for"},
        {"x.silent", "op x.silent: its infer() failed and gave no reason"},
        {"x.busy", "op x.busy: its infer() returned 1, which is not a failure status"},
        {"x.unknown", "op x.unknown: its infer() returned 99, which is not a failure status"},
        {"x.builds", "op x.builds: builder.constant() is called in infer()"},
        {"x.flags", "its table has the unknown flags 0x40"},
        {"x.ew0", "its table has ew = 0, which is not an elementwise operation"},
        {"x.ew99", "its table has ew = 99, which is not an elementwise operation"},
        {"x.ew_two", "an operation of 2 inputs and one output, but it has 1 and 1"},
        {"x.ew_turned",
         "op x.ew_turned: it is elementwise, but input 0 and the output of its infer()"},
        {"x.ew_half", "input 0 and the output of its infer() have not as many elements"},
        {"x.first", "first_input = 2 and first_axis = 0, and the op has no such axis"},
        {"x.first_axis", "first_input = 1 and first_axis = 5, and the op has no such axis"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        net n;
        weft_tensor t;
        begin(&n, &pair, 6, 1);
        const uint32_t nodes = n.g.nodes.n;
        expect(put(&n, bad[i].id, &t), bad[i].text);
        assert_int_equal(n.g.nodes.n, nodes);
        graph_free(&n.g);
    }
}

TEST(bad_gradients)
{
    static const struct {
        const char *id, *text;
    } bad[] = {
        {"x.grad_garbage", "its grad() gives input 0 the gradient 123456"},
        {"x.grad_other", "a gradient of other axes: tokens"},
        {"x.grad_silent", "op x.grad_silent: its grad() failed and gave no reason"},
        {"x.grad_block", "builder.block() is called in the gradient of an op"},
        {"x.grad_assign", "builder.assign() is called in the gradient of an op"},
        {"x.grad_input", "builder.input() is called in the gradient of an op"},
        {"x.grad_endless", "4096 times for this graph, which is the limit"},
        {"x.grad_right", NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        net n;
        weft_tensor t;
        begin(&n, &pair, 6, 1);
        assert_int_equal(put(&n, bad[i].id, &t), WEFT_OK);
        const weft_tensor both[2] = {t, n.x}; /* the gradient of t is x */
        assert_int_equal(n.b.op(n.b.ctx, "mul", NULL, 0, both, 2, 0, &t, 1), WEFT_OK);
        weft_status st = place(&n);
        if (st == WEFT_OK)
            st = graph_backward(&n.g, t);
        if (bad[i].text)
            expect(st, bad[i].text);
        else
            assert_int_equal(st, WEFT_OK);
        graph_free(&n.g);
    }
}

TEST(bad_claims)
{
    static const struct {
        const char *id;
        int64_t features; /* the second axis */
        const char *text; /* NULL: is accepted */
    } claims[] = {
        {"x.as_input", 6, NULL},
        {"x.by_embed", 6, NULL},
        {"x.by_embed", 1, "splits output 0 over cp = 2 along 'embed', which has 1 elements here"},
        {"x.by_embed", 7, "op x.by_embed: its shard() splits output 0 over cp = 2"},
        {"x.by_ninth", 6, "along axis 9 over cp, and it has 2"},
        {"x.oddly", 6, "its shard() places output 0 in the unknown way 77"},
        {"x.held", 6, "says that coordinate 1 of cp alone has output 0"},
        {"x.sum_of_axis", 6, "names axis 3 of output 0, which is not split"},
        {"x.without_reason", 6, "op x.without_reason: its shard() failed and gave no reason"},
        {"x.building", 6, "builder.op() is called in shard()"},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        net n;
        weft_tensor t;
        begin(&n, &pair, claims[i].features, 1);
        assert_int_equal(put(&n, claims[i].id, &t), WEFT_OK);
        weft_status st = place(&n);
        if (claims[i].text)
            expect(st, claims[i].text);
        else if (st != WEFT_OK)
            fail_msg("%s: %s", claims[i].id, err_text());
        graph_free(&n.g);
    }
}

/* shard() is told the name of the mesh axis: an op that goes by it is placed right also where other
 * axes have the same size, and once for each axis that has more than one coordinate. */
TEST(axes_of_one_size)
{
    static const struct {
        const char *id;
        graph_mesh m;
        uint32_t data;                 /* mesh axes over which tokens are split */
        weft_place out[WEFT_MAX_MESH]; /* [mesh axis] */
    } jobs[] = {
        {"x.by_name", {.n = 1, .name = {"cp"}, .size = {2}}, 1, {{WEFT_SPLIT, 1, 0, 0}}},
        {"x.by_name",
         {.n = 2, .name = {"cp", "dp"}, .size = {2, 4}},
         3,
         {{WEFT_SPLIT, 1, 0, 0}, {WEFT_SPLIT, 0, 0, 0}}},
        {"x.by_name",
         {.n = 2, .name = {"cp", "dp"}, .size = {2, 2}},
         3,
         {{WEFT_SPLIT, 1, 0, 0}, {WEFT_SPLIT, 0, 0, 0}}},
        {"x.by_name",
         {.n = 2, .name = {"dp", "cp"}, .size = {2, 2}},
         3,
         {{WEFT_SPLIT, 0, 0, 0}, {WEFT_SPLIT, 1, 0, 0}}},
        {"x.by_name", {.n = 2, .name = {"cp", "pp"}, .size = {2, 2}}, 1, {{WEFT_SPLIT, 1, 0, 0}}},
        {"x.by_name",
         {.n = 3, .name = {"tp", "cp", "dp"}, .size = {2, 2, 2}},
         6,
         {{0}, {WEFT_SPLIT, 1, 0, 0}, {WEFT_SPLIT, 0, 0, 0}}},
        {"x.divides",
         {.n = 2, .name = {"cp", "dp"}, .size = {2, 2}},
         3,
         {{WEFT_SPLIT, 0, 0, 0}, {WEFT_SPLIT, 0, 0, 0}}},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        net n;
        weft_tensor t;
        begin(&n, &jobs[i].m, 8, jobs[i].data);
        assert_int_equal(put(&n, jobs[i].id, &t), WEFT_OK);
        if (place(&n) != WEFT_OK)
            fail_msg("job %zu: %s", i, err_text());
        for (uint32_t a = 0; a < jobs[i].m.n; a++) {
            assert_int_equal(graph_tensor_at(&n.g, t)->place[a].kind, jobs[i].out[a].kind);
            assert_int_equal(graph_tensor_at(&n.g, t)->place[a].axis, jobs[i].out[a].axis);
        }
        graph_free(&n.g);
    }
}
