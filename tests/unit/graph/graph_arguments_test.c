/* Is every bad argument that a plugin hands to the builder refused, with its sentence?
 *
 * A row is a call and a part of what it says. The rows run where plugins run: in a model, in a
 * replacement, in an update rule, in a list. A refused call leaves the graph as it was. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "graph/arguments.h"
#include "graph/inputs.h"

#include <test.h>

#include "builtin.h"

static const graph_mesh meshes = {.n = 2, .name = {"tp", "dp"}, .size = {2, 4}};
static uint32_t rows;

static void row(int line, weft_status got, const char *text)
{
    rows++;
    if (got == WEFT_OK || !strstr(err_text(), text))
        fail_msg("line %d: status %d, '%s' where '%s' was expected", line, (int)got, err_text(),
                 text);
    err_clear();
}
#define COMM(kind, redop, mesh_axis, axis, root)                                                   \
    &(weft_comm_args)                                                                              \
    {                                                                                              \
        sizeof(weft_comm_args), 0, kind, redop, mesh_axis, axis, root, 0                           \
    }
#define PARAM(name, shape, init, flags)                                                            \
    &(weft_param_args)                                                                             \
    {                                                                                              \
        sizeof(weft_param_args), flags, name, shape, init, NULL                                    \
    }
#define ARGS(suffix, tensor, type, axes)                                                           \
    &(weft_state_args)                                                                             \
    {                                                                                              \
        sizeof(weft_state_args), .name = suffix, .like = tensor, .dtype = type, .keep = axes       \
    }
#define INPUT(name, shape)                                                                         \
    &(weft_input_args)                                                                             \
    {                                                                                              \
        sizeof(weft_input_args), 0, name, shape                                                    \
    }

#define ROW(call, text) row(__LINE__, call, text)

static const weft_field fields[] = {{.name = "tokens", .dtype = WEFT_I32}};
static const weft_axis tokens = {"tokens", 8}, embed = {"embed", 6};
static char long_name[80], odd_name[] = "a\tb";
static weft_shape vec = {.rank = 1, .axes = {{"embed", 6}}};
static weft_shape mat = {.rank = 2, .axes = {{"ffn", 4}, {"embed", 6}}};

typedef struct net {
    graph g;
    weft_builder b;
    weft_tensor tokens, table, x, y, z, scalar;
} net;

static weft_tensor op(const net *n, const char *id, weft_tensor x, weft_tensor y)
{
    weft_tensor out;
    const weft_tensor in[2] = {x, y};
    if (n->b.op(n->b.ctx, id, NULL, 0, in, y ? 2 : 1, 0, &out, 1) != WEFT_OK)
        fail_msg("%s", err_text());
    return out;
}

static void begin(net *n)
{
    const weft_shape ids = {.dtype = WEFT_I32, .rank = 1, .axes = {tokens}};
    const weft_shape rows_of = {.rank = 2, .axes = {{"vocab", 10}, embed}};
    memset(long_name, 'n', sizeof long_name - 1);
    *n = (net){0};
    graph_init(&n->g, &meshes, builtin_ops(), WEFT_F32, WEFT_F32);
    n->g.fields = fields, n->g.nfields = 1;
    n->b = graph_builder(&n->g);
    assert_int_equal(n->b.block(n->b.ctx, "all", 0), WEFT_OK);
    assert_int_equal(n->b.input(n->b.ctx, INPUT("tokens", &ids), &n->tokens), WEFT_OK);
    assert_int_equal(n->b.param(n->b.ctx, PARAM("table", &rows_of, "zeros", 0), &n->table),
                     WEFT_OK);
    assert_int_equal(n->b.scalar(n->b.ctx, "lr", 0, &n->scalar), WEFT_OK);
    n->x = op(n, "embedding", n->table, n->tokens);
    n->y = op(n, "neg", n->x, 0);
    n->z = op(n, "exp", n->y, 0);
}

/* --- new tensors --- */

static void bad_names_and_shapes(const net *n)
{
    const weft_builder *b = &n->b;
    weft_tensor t;
    weft_shape s = vec;
    ROW(b->param(b->ctx, PARAM(NULL, &vec, "zeros", 0), &t), "builder.param(): name is NULL");
    ROW(b->param(b->ctx, PARAM("", &vec, "zeros", 0), &t), "builder.param(): name is empty");
    ROW(b->param(b->ctx, PARAM(long_name, &vec, "zeros", 0), &t), "is longer than 63 bytes");
    ROW(b->param(b->ctx, PARAM(odd_name, &vec, "zeros", 0), &t), "has the byte 0x09");
    ROW(b->param(b->ctx, PARAM("\xff", &vec, "zeros", 0), &t), "has the byte 0xff");
    ROW(b->param(b->ctx, PARAM("a*", &vec, "zeros", 0), &t), "has a '*' or '|'");
    ROW(b->param(b->ctx, PARAM("a|b", &vec, "zeros", 0), &t), "has a '*' or '|'");
    ROW(b->param(b->ctx, PARAM("table", &vec, "zeros", 0), &t), "already has a tensor named table");
    ROW(b->param(b->ctx, PARAM("p", NULL, "zeros", 0), &t), "builder.param(): shape is NULL");
    ROW(b->param(b->ctx, PARAM("p", &vec, "zeros", 0), NULL), "builder.param(): out is NULL");
    s.rank = 9;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "p has 9 axes; at most 8");
    s.rank = UINT32_MAX;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "at most 8 are possible");
    s = vec;
    s.axes[0].name = NULL;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "the name of axis 0 of p is NULL");
    s.axes[0].name = "";
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "the name of axis 0 of p is empty");
    s.axes[0].name = long_name;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "is longer than 63 bytes");
    s.axes[0].name = odd_name;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "has the byte 0x09");
    s = vec;
    s.axes[0].size = 0;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "is empty or too large: 0");
    s.axes[0].size = -3;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "is empty or too large: -3");
    s = mat;
    s.axes[0].size = s.axes[1].size = INT64_MAX / 2;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "is empty or too large");
    s = mat;
    s.axes[0].name = "embed";
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "has the axis 'embed' twice");
    s = vec;
    s.dtype = 99;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "unknown element type 99");
    s.dtype = WEFT_I32;
    ROW(b->param(b->ctx, PARAM("p", &s, "zeros", 0), &t), "a parameter has the job's: 0");
}

static void bad_params_and_scalars(const net *n)
{
    const weft_builder *b = &n->b;
    weft_tensor t;
    ROW(b->param(b->ctx, PARAM("p", &vec, NULL, 0), &t), "builder.param(): init is NULL");
    ROW(b->param(b->ctx, PARAM("p", &vec, "", 0), &t), "init is empty");
    ROW(b->param(b->ctx, PARAM("p", &vec, "uniform:1", 0), &t), "must be zeros, ones or normal");
    ROW(b->param(b->ctx, PARAM("p", &vec, "normal:", 0), &t), "must be zeros, ones or normal");
    ROW(b->param(b->ctx, PARAM("p", &vec, "normal:x", 0), &t), "must be zeros, ones or normal");
    ROW(b->param(b->ctx, PARAM("p", &vec, "normal:nan", 0), &t), "must be zeros, ones or normal");
    ROW(b->param(b->ctx, PARAM("p", &vec, "normal:inf", 0), &t), "must be zeros, ones or normal");
    ROW(b->param(b->ctx, PARAM("p", &vec, "normal:-1", 0), &t), "must be zeros, ones or normal");
    ROW(b->param(b->ctx, PARAM("p", &vec, "zeros", 8), &t), "the flags 0x8 are not known");
    ROW(b->param(b->ctx, NULL, &t), "builder.param(): args is NULL");
    ROW(b->param(b->ctx, &(weft_param_args){.struct_size = 4}, &t),
        "builder.param(): struct_size of the arguments is 4");
    struct {
        weft_param_args args;
        uint64_t later;
    } grown = {{sizeof grown, 0, "grown", &vec, "zeros", NULL}, 1};
    ROW(b->param(b->ctx, &grown.args, &t), "use fields behind the 40 bytes");
    ROW(b->scalar(b->ctx, "s", 1, &t), "builder.scalar(): the flags 0x1 are not known");
    ROW(b->scalar(b->ctx, NULL, 0, &t), "builder.scalar(): name is NULL");
    ROW(b->scalar(b->ctx, "", 0, &t), "builder.scalar(): name is empty");
    ROW(b->scalar(b->ctx, long_name, 0, &t), "is longer than 63 bytes");
    ROW(b->scalar(b->ctx, odd_name, 0, &t), "has the byte 0x09");
    ROW(b->scalar(b->ctx, "s", 0, NULL), "builder.scalar(): out is NULL");
    ROW(b->scalar(b->ctx, "table", 0, &t), "is a tensor, not a scalar");
    ROW(b->constant(b->ctx, 0.0 / (double)(rows == 0), 0, &t), "is not a number (NaN)");
    ROW(b->constant(b->ctx, 1, 0, NULL), "builder.constant(): out is NULL");
    ROW((b->fail)(b->ctx, WEFT_IO, NULL), "no reason given");
    ROW((b->fail)(b->ctx, WEFT_IO, ""), "no reason given");
    ROW((b->fail)(b->ctx, WEFT_OK, "so it is"),
        "so it is (reported with status 0, which is not a failure)");
    ROW((b->fail)(b->ctx, WEFT_BUSY, "later"), "which is not a failure");
    ROW((b->fail)(b->ctx, (weft_status)77, "what"), "reported with status 77");
}

/* --- ops --- */

static void bad_ops(const net *n)
{
    const weft_builder *b = &n->b;
    weft_tensor t[33], in[33] = {n->x, n->x};
    weft_attr twice[2] = {{.key = "k"}, {.key = "k"}}, key = {.key = NULL}, many[16] = {{0}};
    char keys[16][4];
    for (uint32_t i = 0; i < 16; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        many[i].key = keys[i];
    }
    ROW(b->op(b->ctx, NULL, NULL, 0, in, 1, 0, t, 1), "builder.op(): id is NULL");
    ROW(b->op(b->ctx, "", NULL, 0, in, 1, 0, t, 1), "builder.op(): id is empty");
    ROW(b->op(b->ctx, long_name, NULL, 0, in, 1, 0, t, 1), "is longer than 63 bytes");
    ROW(b->op(b->ctx, odd_name, NULL, 0, in, 1, 0, t, 1), "has the byte 0x09");
    ROW(b->op(b->ctx, "nonsense", NULL, 0, in, 1, 0, t, 1), "unknown op 'nonsense'");
    ROW(b->op(b->ctx, "neg", NULL, 0, NULL, 1, 0, t, 1), "builder.op(): in is NULL");
    ROW(b->op(b->ctx, "neg", NULL, 0, in, 1, 0, NULL, 1), "builder.op(): out is NULL");
    ROW(b->op(b->ctx, "neg", NULL, 0, in, 1, 0, t, 0), "is asked for no output");
    ROW(b->op(b->ctx, "neg", NULL, 0, in, 33, 0, t, 1), "more than 32 operands: 33 inputs");
    ROW(b->op(b->ctx, "neg", NULL, 0, in, UINT32_MAX, 0, t, 1), "more than 32 operands");
    ROW(b->op(b->ctx, "neg", NULL, 0, in, 1, 0, t, 33), "1 inputs, 33 outputs");
    ROW(b->op(b->ctx, "neg", NULL, 0, in, 1, 0, t, 2), "op neg: it has 1 outputs, 2 were");
    ROW(b->op(b->ctx, "neg", NULL, 0, in, 0, 0, t, 1), "neg");
    ROW(b->op(b->ctx, "neg", NULL, 1, in, 1, 0, t, 1), "builder.op(): attrs is NULL");
    ROW(b->op(b->ctx, "neg", many, 16, in, 1, 0, t, 1), "neg has 16 attributes; at most 15");
    ROW(b->op(b->ctx, "neg", many, UINT32_MAX, in, 1, 0, t, 1), "at most 15 are possible");
    ROW(b->op(b->ctx, "neg", &key, 1, in, 1, 0, t, 1), "the key of an attribute is NULL");
    key.key = "";
    ROW(b->op(b->ctx, "neg", &key, 1, in, 1, 0, t, 1), "the key of an attribute is empty");
    key.key = long_name;
    ROW(b->op(b->ctx, "neg", &key, 1, in, 1, 0, t, 1), "is longer than 63 bytes");
    ROW(b->op(b->ctx, "neg", twice, 2, in, 1, 0, t, 1), "has the attribute 'k' twice");
    in[0] = 0;
    ROW(b->op(b->ctx, "neg", NULL, 0, in, 1, 0, t, 1), "neg: the graph has no tensor number 0");
    in[0] = 9999;
    ROW(b->op(b->ctx, "neg", NULL, 0, in, 1, 0, t, 1), "neg: the graph has no tensor number 9999");
}

/* --- communication, assignments, looks --- */

static void bad_communication(const net *n)
{
    const weft_builder *b = &n->b;
    weft_tensor t;
    weft_shape s;
    void *c = b->ctx;
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, NULL, NULL, 0), n->x, &t), "mesh_axis is NULL");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "", NULL, 0), n->x, &t), "mesh_axis is empty");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, long_name, NULL, 0), n->x, &t),
        "longer than 63");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "even", NULL, 0), n->x, &t),
        "'even' is neither a mesh axis of this job, which has tp, dp, nor a group");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "tp", NULL, 0), 0, &t), "no tensor number 0");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "tp", NULL, 0), 9999, &t),
        "no tensor number 9999");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "tp", NULL, 0), n->x, NULL), "out is NULL");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_MIN, "tp", NULL, 0), n->x, &t), "by the operation 3");
    ROW(b->comm(c, COMM(WEFT_REDUCE_SCATTER, 77, "tp", "tokens", 0), n->x, &t),
        "by the operation 77");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "tp", "tokens", 0), n->x, &t), "takes no axis");
    ROW(b->comm(c, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "tp", NULL, 1), n->x, &t), "and no root");
    ROW(b->comm(c, COMM(WEFT_ALL_GATHER, 0, "tp", odd_name, 0), n->x, &t), "has the byte 0x09");
    ROW(b->comm(c, COMM(WEFT_ALL_GATHER, 0, "tp", "ffn", 0), n->x, &t), "it has no such axis");
    ROW(b->comm(c, COMM(WEFT_ALL_TO_ALL, 0, "tp", "ffn", 0), n->x, &t), "it has no such axis");
    ROW(b->comm(c, COMM(WEFT_ALL_TO_ALL, 0, "tp", NULL, 0), n->x, &t), "takes an axis");
    ROW(b->comm(c, COMM(WEFT_ALL_TO_ALL, 0, "tp", "embed", 1), n->x, &t), "and no root");
    ROW(b->comm(c, COMM(99, WEFT_SUM, "tp", NULL, 0), n->x, &t), "communication of kind 99");
    ROW(b->comm(c, COMM(WEFT_BARRIER, WEFT_SUM, "tp", NULL, 0), n->x, &t), "cannot be built");
    ROW(b->comm(c, COMM(WEFT_SHIFT, 0, "tp", NULL, 2), n->x, &t), "goes 1 to 1 further");
    ROW(b->shape(c, 0, &s), "no tensor number 0");
    ROW(b->shape(c, n->x, NULL), "builder.shape(): out is NULL");
    ROW(b->shape(NULL, n->x, &s), "builder.shape(): ctx is NULL");
    assert_string_equal(b->name(c, 9999), "(no tensor)");
    assert_string_equal(b->name(NULL, 1), "(no tensor)");
    assert_int_equal(b->kind(NULL, 1), 0);
}

static void no_ctx(const net *n)
{
    const weft_builder *b = &n->b;
    weft_tensor t;
    ROW(b->block(NULL, "b", 0), "builder.block() is called with ctx NULL");
    ROW(b->input(NULL, INPUT("i", &vec), &t), "builder.input() is called with ctx NULL");
    ROW(b->param(NULL, PARAM("p", &vec, "zeros", 0), &t),
        "builder.param() is called with ctx NULL");
    ROW(b->scalar(NULL, "s", 0, &t), "builder.scalar() is called with ctx NULL");
    ROW(b->constant(NULL, 1, 0, &t), "builder.constant() is called with ctx NULL");
    ROW(b->state(NULL, ARGS("m", n->table, 0, NULL), &t),
        "builder.state() is called with ctx NULL");
    ROW(b->op(NULL, "neg", NULL, 0, &n->x, 1, 0, &t, 1), "builder.op() is called with ctx NULL");
    ROW(b->comm(NULL, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "tp", NULL, 0), n->x, &t),
        "builder.comm() is called with ctx NULL");
    ROW(b->assign(NULL, n->table, n->table, 0), "builder.assign() is called with ctx NULL");
}

TEST(in_a_model)
{
    net n;
    weft_tensor t;
    begin(&n);
    const uint32_t nodes = n.g.nodes.n, tensors = n.g.tensors.n;
    ROW(n.b.block(n.b.ctx, NULL, 0), "builder.block(): name is NULL");
    ROW(n.b.block(n.b.ctx, "", 0), "builder.block(): name is empty");
    ROW(n.b.block(n.b.ctx, long_name, 0), "is longer than 63 bytes");
    ROW(n.b.input(n.b.ctx, INPUT(NULL, &vec), &t), "builder.input(): name is NULL");
    ROW(n.b.input(n.b.ctx, INPUT("i", NULL), &t), "builder.input(): shape is NULL");
    ROW(n.b.input(n.b.ctx, INPUT("i", &vec), NULL), "builder.input(): out is NULL");
    ROW(n.b.state(n.b.ctx, ARGS("m", n.table, 0, NULL), &t),
        "builder.state() is called in a model; it may be called in: an update rule, a list");
    ROW(n.b.assign(n.b.ctx, 9999, n.x, 0), "dst: the graph has no tensor number 9999");
    ROW(n.b.assign(n.b.ctx, n.table, 9999, 0), "src: the graph has no tensor number 9999");
    ROW(n.b.assign(n.b.ctx, n.x, n.y, 0), "is neither parameter, state nor scalar");
    bad_names_and_shapes(&n);
    bad_params_and_scalars(&n);
    bad_ops(&n);
    bad_communication(&n);
    no_ctx(&n);
    assert_int_equal(n.g.nodes.n, nodes);
    assert_int_equal(n.g.tensors.n, tensors);
    graph_free(&n.g);
}

/* --- replacements --- */

static weft_status replacement(void *user, const weft_builder *b)
{
    const net *n = user;
    weft_tensor t;
    weft_shape ids = {.dtype = WEFT_I32, .rank = 1, .axes = {tokens}}, s = ids;
    ROW(b->block(b->ctx, "block.1", 0),
        "builder.block() is called in a replacement; it may be called in: a model");
    ROW(b->state(b->ctx, ARGS("m", n->table, 0, NULL), &t),
        "builder.state() is called in a replacement");
    ROW(b->input(b->ctx, INPUT("mask", &ids), &t),
        "nothing fills an input 'mask'; there are tokens, positions and first_token");
    ROW(b->input(b->ctx, INPUT("first_token", &ids), &t), "'first_token' must be WEFT_I64 []");
    ROW(b->input(b->ctx, INPUT("tokens", &ids), &t), "already has a tensor named tokens");
    s.dtype = 0;
    ROW(b->input(b->ctx, INPUT("positions", &s), &t), "must be WEFT_I32 [tokens 8]");
    s = ids;
    s.axes[0].size = 16;
    ROW(b->input(b->ctx, INPUT("positions", &s), &t), "must be WEFT_I32 [tokens 8]");
    s.axes[0] = (weft_axis){"rows", 8};
    ROW(b->input(b->ctx, INPUT("positions", &s), &t), "must be WEFT_I32 [tokens 8]");
    s = (weft_shape){.dtype = WEFT_I32};
    ROW(b->input(b->ctx, INPUT("positions", &s), &t), "must be WEFT_I32 [tokens 8]");
    ROW(b->assign(b->ctx, n->x, n->y, 0), "which is not an output of it");
    ROW(b->assign(b->ctx, n->table, n->y, 0), "which is not an output of it");
    ROW(b->assign(b->ctx, n->y, n->scalar, 0), "a tensor of another shape or type");
    ROW(b->assign(b->ctx, 0, n->y, 0), "dst: the graph has no tensor number 0");
    ROW(b->assign(b->ctx, n->y, 0, 0), "src: the graph has no tensor number 0");
    bad_names_and_shapes(n);
    bad_params_and_scalars(n);
    bad_ops(n);
    bad_communication(n);
    no_ctx(n);
    if (b->input(b->ctx, INPUT("positions", &ids), &t) != WEFT_OK) /* which it may ask for */
        fail_msg("%s", err_text());
    weft_tensor again;
    s = (weft_shape){.dtype = WEFT_I64};
    if (b->input(b->ctx, INPUT("first_token", &s), &t) != WEFT_OK ||
        b->input(b->ctx, INPUT("first_token", &s), &again) != WEFT_OK || t != again)
        fail_msg("%s", err_text());
    ROW(b->input(b->ctx, INPUT("first_token", &ids), &t), "'first_token' must be WEFT_I64 []");
    return b->op(b->ctx, "neg", NULL, 0, &n->x, 1, 0, &t, 1) != WEFT_OK ||
           b->assign(b->ctx, n->y, t, 0) != WEFT_OK;
}

static weft_status without_reason(void *user, const weft_builder *b)
{
    (void)b;
    return *(const weft_status *)user;
}

TEST(in_a_replacement)
{
    net n;
    weft_status answers[] = {WEFT_IO, WEFT_BUSY, (weft_status)4711, (weft_status)-1};
    const char *const said[] = {"its emit() failed and gave no reason",
                                "returned 1, which is not a failure status",
                                "returned 4711, which is not a failure status", "returned -1"};
    begin(&n);
    const uint32_t at = graph_tensor_at(&n.g, n.y)->producer - 1;
    ROW(graph_replace(&n.g, at, NULL, NULL), "edits.replace(): emit is NULL");
    ROW(graph_replace(&n.g, 4711, replacement, &n), "op number 4711 cannot be replaced");
    if (graph_replace(&n.g, at, replacement, &n) != WEFT_OK)
        fail_msg("%s", err_text());
    assert_int_equal(graph_apply_replacements(&n.g), WEFT_OK);
    graph_free(&n.g);
    for (uint32_t i = 0; i < 4; i++) {
        begin(&n);
        ROW(graph_replace(&n.g, at, without_reason, &answers[i]), said[i]);
        graph_free(&n.g);
    }
}

/* --- rules and lists --- */

static void bad_states(const net *n)
{
    const weft_builder *b = &n->b;
    weft_tensor t;
    void *c = b->ctx;
    ROW(b->state(c, ARGS(NULL, n->table, 0, NULL), &t), "builder.state(): name is NULL");
    ROW(b->state(c, ARGS("", n->table, 0, NULL), &t), "builder.state(): name is empty");
    ROW(b->state(c, ARGS(long_name, n->table, 0, NULL), &t), "is longer than 63 bytes");
    ROW(b->state(c, ARGS("m*", n->table, 0, NULL), &t), "has a '*' or '|'");
    ROW(b->state(c, ARGS("m", 0, 0, NULL), &t), "like: the graph has no tensor number 0");
    ROW(b->state(c, ARGS("m", 9999, 0, NULL), &t), "like: the graph has no tensor number 9999");
    ROW(b->state(c, ARGS("m", n->table, 99, NULL), &t), "'m' has the unknown element type 99");
    ROW(b->state(c, ARGS("m", n->table, 0, NULL), NULL), "builder.state(): out is NULL");
    ROW(b->block(c, "b", 0), "builder.block() is called in ");
    ROW(b->input(c, INPUT("positions", &vec), &t), "builder.input() is called in ");
    ROW(b->param(c, PARAM("p", &vec, "zeros", 0), &t), "builder.param() is called in ");
    bad_ops(n);
    bad_communication(n);
    no_ctx(n);
}

TEST(in_a_rule)
{
    net n;
    weft_tensor one, m;
    begin(&n);
    n.g.now.state_of = "table";
    bad_states(&n);
    assert_int_equal(n.b.constant(n.b.ctx, 1, 0, &one), WEFT_OK);
    assert_int_equal(n.b.state(n.b.ctx, ARGS("m", n.table, 0, "vocab"), &m), WEFT_OK);
    ROW(n.b.assign(n.b.ctx, n.table, n.scalar, 0),
        "table cannot take lr, a tensor of another shape");
    ROW(n.b.assign(n.b.ctx, n.table, one, 0), "table cannot take const.1");
    ROW(n.b.assign(n.b.ctx, n.table, m, 0), "table cannot take table.m");
    ROW(n.b.assign(n.b.ctx, n.scalar, n.table, 0), "lr cannot take table");
    ROW(n.b.assign(n.b.ctx, one, n.scalar, 0), "const.1 is a constant");
    ROW(n.b.state(n.b.ctx, ARGS("m", n.table, 0, NULL), &m), "already has a tensor named table.m");
    graph_free(&n.g);
}

TEST(in_a_list)
{
    net n;
    weft_tensor t, own;
    begin(&n);
    n.g.now.list_after = n.g.tensors.n;
    n.g.now.state_of = "";
    ROW(n.b.op(n.b.ctx, "neg", NULL, 0, &n.x, 1, 0, &t, 1), "no longer exists when a list runs");
    ROW(n.b.op(n.b.ctx, "neg", NULL, 0, &n.tokens, 1, 0, &t, 1),
        "no longer exists when a list runs");
    ROW(n.b.comm(n.b.ctx, COMM(WEFT_ALL_REDUCE, WEFT_SUM, "tp", NULL, 0), n.x, &t),
        "no longer exists");
    ROW(n.b.assign(n.b.ctx, n.table, n.x, 0), "no longer exists when a list runs");
    ROW(n.b.state(n.b.ctx, ARGS("m", n.x, 0, NULL), &t), "no longer exists when a list runs");
    ROW(n.b.state(n.b.ctx, ARGS("m", n.scalar, 0, NULL), &t), "like lr, which is not a parameter");
    ROW(n.b.assign(n.b.ctx, n.table, n.scalar, 0), "table cannot take lr");
    assert_int_equal(n.b.op(n.b.ctx, "neg", NULL, 0, &n.table, 1, 0, &own, 1), WEFT_OK);
    assert_int_equal(n.b.assign(n.b.ctx, n.table, own, 0), WEFT_OK);
    graph_free(&n.g);
}

/* --- endless loops --- */

static weft_status endless_ops(void *user, const weft_builder *b)
{
    weft_tensor t = *(const weft_tensor *)user;
    for (;;) {
        weft_status st = b->op(b->ctx, "neg", NULL, 0, &t, 1, 0, &t, 1);
        if (st != WEFT_OK)
            return st;
    }
}

static weft_status endless_params(void *user, const weft_builder *b)
{
    (void)user;
    for (uint32_t i = 0;; i++) {
        weft_tensor t;
        char name[32];
        snprintf(name, sizeof name, "p%u", i);
        weft_status st = b->param(b->ctx, PARAM(name, &vec, "zeros", 0), &t);
        if (st != WEFT_OK)
            return st;
    }
}

TEST(endless_replacements_end)
{
    const weft_emit emits[] = {endless_ops, endless_params};
    for (uint32_t i = 0; i < 2; i++) {
        net n;
        begin(&n);
        ROW(graph_replace(&n.g, graph_tensor_at(&n.g, n.y)->producer - 1, emits[i], &n.x),
            "131072 times for this graph, which is the limit; check for an endless loop");
        assert_true(n.g.pool.bytes < (uint64_t)100 << 20);
        graph_free(&n.g);
    }
}

TEST(rows_enough)
{
    print_message("%u bad arguments\n", rows);
    assert_true(rows > 250);
}
