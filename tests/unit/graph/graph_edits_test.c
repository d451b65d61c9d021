/* Communication that somebody builds into a graph, splits of sums, and replacements: what is
 * accepted, where it ends up, what backward makes of it. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"

static const graph_mesh two = {.n = 2, .name = {"tp", "one"}, .size = {2, 1}};

typedef struct net {
    graph g;
    weft_builder b;
    weft_tensor tokens, targets, x, y, loss;
} net;

static const weft_axis tokens = {"tokens", 8}, embed = {"embed", 6}, ffn = {"ffn", 4},
                       vocab = {"vocab", 10};

static weft_tensor param(net *n, const char *name, weft_axis a, weft_axis c)
{
    weft_shape s = {.rank = c.size ? 2 : 1, .axes = {a, c}};
    weft_tensor t;
    assert_int_equal(n->b.param(n->b.ctx,
                                &(weft_param_args){sizeof(weft_param_args), WEFT_PARAM_PAD, name,
                                                   &s, "zeros", NULL},
                                &t),
                     WEFT_OK);
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

static weft_tensor comm(net *n, uint32_t kind, const char *axis, weft_tensor in)
{
    weft_tensor out = 0;
    if (n->b.comm(n->b.ctx,
                  &(weft_comm_args){sizeof(weft_comm_args), 0, kind, WEFT_SUM, "tp", axis, 0, 0},
                  in, &out) != WEFT_OK)
        fail_msg("%s", err_text());
    return out;
}

/* x = rows of a table; y = x w1 w2, cut between the two: a partial sum. */
static void begin(net *n)
{
    weft_shape ids = {.dtype = WEFT_I32, .rank = 1, .axes = {tokens}};
    *n = (net){0};
    graph_init(&n->g, &two, builtin_ops(), WEFT_F32, WEFT_F32);
    n->b = graph_builder(&n->g);
    assert_int_equal(n->b.block(n->b.ctx, "all", 0), WEFT_OK);
    assert_int_equal(n->b.input(n->b.ctx,
                                &(weft_input_args){sizeof(weft_input_args), 0, "tokens", &ids},
                                &n->tokens),
                     WEFT_OK);
    assert_int_equal(n->b.input(n->b.ctx,
                                &(weft_input_args){sizeof(weft_input_args), 0, "targets", &ids},
                                &n->targets),
                     WEFT_OK);
    n->x = OP(n, "embedding", 1, param(n, "table", vocab, embed), n->tokens);
    weft_tensor h = OP(n, "linear", 1, n->x, param(n, "w1", ffn, embed));
    n->y = OP(n, "linear", 1, h, param(n, "w2", embed, ffn));
    assert_int_equal(graph_split(&n->g, "w1|w2", "ffn", 0), WEFT_OK);
}

static void end_with_loss(net *n, weft_tensor t)
{
    weft_tensor scale, logits = OP(n, "linear", 1, t, param(n, "head", vocab, embed));
    assert_int_equal(graph_split(&n->g, "head", "vocab", 0), WEFT_OK);
    assert_int_equal(n->b.scalar(n->b.ctx, "scale", 0, &scale), WEFT_OK);
    weft_tensor max = OP(n, "xent.max", 1, logits);
    weft_tensor sums = OP(n, "xent.sums", 1, logits, n->targets, max);
    n->loss = OP(n, "xent.finish", 2, logits, n->targets, max, sums, scale);
}

static weft_status place(net *n, uint32_t first)
{
    return graph_propagate(&n->g, first);
}

static uint32_t count(const net *n, uint32_t kind, bool backward)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n->g.nodes.n; i++)
        found +=
            n->g.nodes.at[i].comm == kind && (n->g.nodes.at[i].phase != PHASE_FORWARD) == backward;
    return found;
}

static void expect_place(const net *n, weft_tensor t, uint32_t kind)
{
    assert_int_equal(graph_tensor_at(&n->g, t)->place[0].kind, kind);
    assert_int_equal(graph_tensor_at(&n->g, t)->place[0].axis, 0);
}

/* Built by hand or asked for by an edit, the communication is the same, and its conjugates. */
TEST(sums_in_parts)
{
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        net n;
        begin(&n);
        weft_tensor r = n.y, g = param(&n, "g", embed, (weft_axis){0}), b = 0;
        b = param(&n, "b", embed, (weft_axis){0});
        if (by_hand)
            r = comm(&n, WEFT_REDUCE_SCATTER, "tokens", r);
        else
            assert_int_equal(graph_split(&n.g, graph_tensor_at(&n.g, n.y)->name, "tokens", 0),
                             WEFT_OK);
        weft_tensor z = OP(&n, "layernorm", 3, r, g, b);
        end_with_loss(&n, by_hand ? comm(&n, WEFT_ALL_GATHER, "tokens", z) : z);
        if (place(&n, 0) != WEFT_OK)
            fail_msg("%s", err_text());
        expect_place(&n, n.y, WEFT_PARTIAL_SUM);
        expect_place(&n, z, WEFT_SPLIT);
        expect_place(&n, n.loss, WEFT_WHOLE);
        assert_int_equal(graph_local_shape(&n.g, z).axes[0].size, 4);
        assert_int_equal(count(&n, WEFT_REDUCE_SCATTER, false), 1);
        assert_int_equal(count(&n, WEFT_ALL_GATHER, false), 1);
        assert_int_equal(count(&n, WEFT_ALL_REDUCE, false), 2); /* of the loss */
        uint32_t forward = n.g.nodes.n;
        assert_int_equal(graph_backward(&n.g, n.loss), WEFT_OK);
        if (place(&n, forward) != WEFT_OK)
            fail_msg("%s", err_text());
        /* the gradient of z; that of y, and z again; that of x, which is whole */
        assert_int_equal(count(&n, WEFT_REDUCE_SCATTER, true), 1);
        assert_int_equal(count(&n, WEFT_ALL_GATHER, true), 2);
        assert_int_equal(count(&n, WEFT_ALL_REDUCE, true), 1);
        expect_place(&n, graph_tensor_at(&n.g, g)->grad, WEFT_PARTIAL_SUM);
        expect_place(&n, graph_tensor_at(&n.g, graph_find(&n.g, "table"))->grad, WEFT_WHOLE);
        expect_place(&n, graph_tensor_at(&n.g, graph_find(&n.g, "w1"))->grad, WEFT_SPLIT);
        graph_free(&n.g);
    }
}

static void expect_refusal(weft_status got, weft_status want, const char *why)
{
    if (got != want || !strstr(err_text(), why))
        fail_msg("status %d, '%s' where '%s' was expected", (int)got, err_text(), why);
    err_clear();
}

static weft_status comm_of(net *n, uint32_t kind, uint32_t redop, const char *mesh_axis,
                           const char *axis, uint32_t root, weft_tensor *out)
{
    const weft_comm_args args = {sizeof args, 0, kind, redop, mesh_axis, axis, root, 0};
    return n->b.comm(n->b.ctx, &args, n->y, out);
}

TEST(bad_communication)
{
    net n;
    weft_tensor out;
    begin(&n);
    expect_refusal(comm_of(&n, WEFT_BROADCAST, WEFT_SUM, "tp", NULL, 0, &out), WEFT_UNSUPPORTED,
                   "cannot be built into a graph in this version");
    expect_refusal(comm_of(&n, WEFT_ALL_TO_ALL, 0, "tp", NULL, 0, &out), WEFT_USAGE,
                   "takes an axis");
    expect_refusal(comm_of(&n, WEFT_SHIFT, 0, "tp", "tokens", 1, &out), WEFT_USAGE,
                   "takes no axis of the tensor");
    expect_refusal(comm_of(&n, WEFT_SHIFT, 0, "tp", NULL, 0, &out), WEFT_USAGE, "goes 1 to 1");
    expect_refusal(comm_of(&n, WEFT_SHIFT, 0, "tp", NULL, 2, &out), WEFT_USAGE, "goes 1 to 1");
    expect_refusal(comm_of(&n, WEFT_ALL_REDUCE, WEFT_SUM, "cp", NULL, 0, &out), WEFT_USAGE,
                   "is neither a mesh axis of this job");
    expect_refusal(comm_of(&n, WEFT_ALL_REDUCE, WEFT_SUM, "tp", "tokens", 0, &out), WEFT_USAGE,
                   "takes no axis");
    expect_refusal(comm_of(&n, WEFT_ALL_GATHER, WEFT_SUM, "tp", NULL, 0, &out), WEFT_USAGE,
                   "takes an axis");
    expect_refusal(comm_of(&n, WEFT_ALL_GATHER, WEFT_SUM, "tp", "ffn", 0, &out), WEFT_USAGE,
                   "it has no such axis");
    assert_int_equal(comm_of(&n, WEFT_ALL_REDUCE, WEFT_SUM, "one", NULL, 0, &out), WEFT_OK);
    assert_int_equal(out, n.y);
    comm(&n, WEFT_ALL_REDUCE, NULL, n.x);
    expect_refusal(place(&n, 0), WEFT_USAGE, "is not a partial result there");
    graph_free(&n.g);
    begin(&n);
    comm(&n, WEFT_ALL_GATHER, "tokens", n.y);
    expect_refusal(place(&n, 0), WEFT_USAGE, "is not a tensor split along 'tokens' there");
    graph_free(&n.g);
}

TEST(shifts)
{
    static const graph_mesh ring = {.n = 1, .name = {"cp"}, .size = {4}};
    weft_shape ids = {.dtype = WEFT_I32, .rank = 1, .axes = {tokens}};
    net n = {0};
    graph_init(&n.g, &ring, builtin_ops(), WEFT_F32, WEFT_F32);
    n.b = graph_builder(&n.g);
    assert_int_equal(n.b.block(n.b.ctx, "all", 0), WEFT_OK);
    assert_int_equal(n.b.input(n.b.ctx,
                               &(weft_input_args){sizeof(weft_input_args), 0, "tokens", &ids},
                               &n.tokens),
                     WEFT_OK);
    weft_tensor table = param(&n, "table", vocab, embed), moved = 0, nowhere = 0;
    n.x = OP(&n, "embedding", 1, table, n.tokens);
    assert_int_equal(
        n.b.comm(n.b.ctx,
                 &(weft_comm_args){sizeof(weft_comm_args), 0, WEFT_SHIFT, 0, "cp", NULL, 1, 0}, n.x,
                 &moved),
        WEFT_OK);
    n.loss = OP(&n, "sumsq", 1, OP(&n, "mul", 1, n.x, moved));
    assert_int_equal(
        n.b.comm(n.b.ctx,
                 &(weft_comm_args){sizeof(weft_comm_args), 0, WEFT_SHIFT, 0, "cp", NULL, 1, 0},
                 table, &nowhere),
        WEFT_OK);
    assert_int_equal(graph_split(&n.g, "tokens", "tokens", 0), WEFT_OK);
    expect_refusal(place(&n, 0), WEFT_USAGE, "shift over cp: table is not split there");
    n.g.nodes.n--;
    assert_int_equal(place(&n, 0), WEFT_OK);
    expect_place(&n, moved, WEFT_SPLIT);
    expect_place(&n, n.loss, WEFT_PARTIAL_SUM);
    uint32_t forward = n.g.nodes.n;
    n.g.nodes.n--; /* a square has no gradient; what it squares stands for the loss */
    assert_int_equal(graph_backward(&n.g, n.g.nodes.at[forward - 1].in[0]), WEFT_OK);
    assert_int_equal(place(&n, forward - 1), WEFT_OK);
    assert_int_equal(count(&n, WEFT_SHIFT, true), 1);
    for (uint32_t i = forward - 1; i < n.g.nodes.n; i++)
        if (n.g.nodes.at[i].comm == WEFT_SHIFT)
            assert_int_equal(n.g.nodes.at[i].root, 3);
    graph_free(&n.g);
}

/* In an update: a partial result is completed first, one that lies elsewhere is refused. */
TEST(assignments)
{
    net n;
    begin(&n);
    weft_tensor w = graph_find(&n.g, "w1"), sum;
    assert_int_equal(n.b.scalar(n.b.ctx, "norm", 0, &sum), WEFT_OK);
    assert_int_equal(n.b.assign(n.b.ctx, sum, OP(&n, "sumsq", 1, w), 0), WEFT_OK);
    assert_int_equal(n.b.assign(n.b.ctx, w, OP(&n, "neg", 1, w), 0), WEFT_OK);
    if (place(&n, 0) != WEFT_OK)
        fail_msg("%s", err_text());
    assert_int_equal(count(&n, WEFT_ALL_REDUCE, false), 1);
    weft_tensor whole = param(&n, "whole", ffn, embed);
    uint32_t first = n.g.nodes.n;
    n.g.now.state_of = ""; /* a list: what ops make has the name of what it is made of */
    assert_int_equal(n.b.assign(n.b.ctx, w, OP(&n, "abs", 1, OP(&n, "neg", 1, whole)), 0), WEFT_OK);
    char words[200];
    snprintf(words, sizeof words,
             "w1 cannot take abs#%u.0(whole) over the mesh axis tp: the first is split along 'ffn' "
             "there, the second whole; assign what is placed alike",
             first + 2);
    expect_refusal(place(&n, first), WEFT_UNSUPPORTED, words);
    graph_free(&n.g);
}

TEST(bad_splits)
{
    net n;
    begin(&n);
    expect_refusal(graph_split(&n.g, "w1", "embed", 0), WEFT_USAGE, "and along 'ffn'");
    expect_refusal(graph_split(&n.g, "w3", "embed", 0), WEFT_USAGE, "no tensor is named");
    expect_refusal(graph_split(&n.g, "w1", "vocab", 0), WEFT_USAGE, "no axis 'vocab'");
    weft_tensor odd = param(&n, "odd", ffn, (weft_axis){"nine", 9});
    expect_refusal(graph_split(&n.g, "odd", "nine", 0), WEFT_USAGE, "possible are 1, 3, 9");
    odd = param(&n, "rows", (weft_axis){"nine", 9}, embed); /* may be padded */
    assert_int_equal(graph_split(&n.g, "rows", "nine", 0), WEFT_OK);
    assert_int_equal(graph_local_shape(&n.g, odd).axes[0].size, 5);
    assert_int_equal(graph_split(&n.g, graph_tensor_at(&n.g, n.x)->name, "tokens", 0), WEFT_OK);
    expect_refusal(place(&n, 0), WEFT_USAGE, "only a partial sum can be split there");
    graph_free(&n.g);
}

/* --- replacements --- */

typedef struct wish { /* what an emit() is to do */
    weft_tensor from, to;
    const char *ids; /* ops in a row, a word each */
    int times;
} wish;

static weft_status emit(void *user, const weft_builder *b)
{
    const wish *w = user;
    weft_tensor t = w->from;
    char word[16];
    for (const char *p = w->ids; *p; p += strcspn(p, " "), p += *p == ' ') {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
        weft_status st = b->op(b->ctx, word, NULL, 0, &t, 1, 0, &t, 1);
        if (st != WEFT_OK)
            return st;
    }
    weft_status st = WEFT_OK;
    for (int i = 0; st == WEFT_OK && i < w->times; i++)
        st = b->assign(b->ctx, w->to, t, 0);
    return st;
}

static uint32_t number_of(const net *n, weft_tensor t)
{
    return graph_tensor_at(&n->g, t)->producer - 1;
}

TEST(ops_in_the_place_of_one)
{
    net n;
    begin(&n);
    weft_tensor a = OP(&n, "abs", 1, n.y), e = OP(&n, "exp", 1, a), z = OP(&n, "neg", 1, e);
    uint32_t first = number_of(&n, a), second = number_of(&n, e), tensors = n.g.tensors.n;
    wish later = {a, e, "copy sqrt", 1}, earlier = {n.y, a, "neg cos", 1};
    assert_int_equal(graph_replace(&n.g, second, emit, &later), WEFT_OK);
    assert_int_equal(graph_replace(&n.g, first, emit, &earlier), WEFT_OK); /* numbers are good */
    assert_string_equal(n.g.nodes.at[first].id, "abs");
    assert_int_equal(graph_apply_replacements(&n.g), WEFT_OK);
    const char *const ids[] = {"embedding", "linear", "linear", "neg",
                               "cos",       "copy",   "sqrt",   "neg"};
    assert_int_equal(n.g.nodes.n, 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_string_equal(n.g.nodes.at[i].id, ids[i]);
        assert_int_equal(graph_tensor_at(&n.g, n.g.nodes.at[i].out[0])->producer, i + 1);
        assert_int_equal(n.g.nodes.at[i].block, 0);
    }
    assert_int_equal(n.g.nodes.at[4].out[0], a); /* handles and names stay */
    assert_int_equal(n.g.nodes.at[5].in[0], a);
    assert_int_equal(n.g.nodes.at[6].out[0], e);
    assert_int_equal(n.g.nodes.at[7].in[0], e);
    assert_true(z <= tensors && !strncmp(graph_tensor_at(&n.g, e)->name, "exp#", 4));
    graph_free(&n.g);
}

TEST(a_replacement_replaced)
{
    net n;
    begin(&n);
    weft_tensor a = OP(&n, "abs", 1, n.y);
    OP(&n, "neg", 1, a);
    wish outer = {n.y, a, "exp log", 1};
    assert_int_equal(graph_replace(&n.g, number_of(&n, a), emit, &outer), WEFT_OK);
    uint32_t inner_op = number_of(&n, a) - 1; /* exp */
    weft_tensor made = n.g.nodes.at[inner_op].out[0];
    wish inner = {n.y, made, "cos", 1};
    assert_string_equal(n.g.nodes.at[inner_op].id, "exp");
    assert_int_equal(graph_replace(&n.g, inner_op, emit, &inner), WEFT_OK);
    assert_int_equal(graph_apply_replacements(&n.g), WEFT_OK);
    assert_string_equal(n.g.nodes.at[3].id, "cos");
    assert_string_equal(n.g.nodes.at[4].id, "log");
    assert_string_equal(n.g.nodes.at[5].id, "neg");
    graph_free(&n.g);
}

/* exp(abs(y)) becomes cos(x): what leads to abs is not run, unless something else reads it. */
TEST(what_only_the_replaced_read)
{
    for (int shared = 0; shared < 2; shared++) {
        net n;
        begin(&n);
        weft_tensor a = OP(&n, "abs", 1, n.y), e = OP(&n, "exp", 1, a);
        if (shared)
            OP(&n, "sqrt", 1, n.y);
        OP(&n, "neg", 1, e);
        weft_tensor unread = OP(&n, "sign", 1, n.x); /* nobody reads it, and nobody has */
        wish other = {n.x, e, "cos", 1};
        assert_int_equal(graph_replace(&n.g, number_of(&n, e), emit, &other), WEFT_OK);
        assert_int_equal(graph_apply_replacements(&n.g), WEFT_OK);
        const char *const few[] = {"embedding", "cos", "neg", "sign"};
        const char *const more[] = {"embedding", "linear", "linear", "cos", "sqrt", "neg", "sign"};
        assert_int_equal(n.g.nodes.n, shared ? 7 : 4);
        for (uint32_t i = 0; i < n.g.nodes.n; i++)
            assert_string_equal(n.g.nodes.at[i].id, shared ? more[i] : few[i]);
        assert_int_equal(graph_tensor_at(&n.g, unread)->producer, n.g.nodes.n);
        assert_int_equal(graph_tensor_at(&n.g, a)->producer, 0);
        for (int w = 0; w < 3; w++) {
            const char *const names[] = {"w1", "w2", "table"};
            const uint32_t kind = graph_tensor_at(&n.g, graph_find(&n.g, names[w]))->kind;
            assert_int_equal(kind, shared || w == 2 ? WEFT_T_PARAM : TENSOR_REMOVED);
        }
        graph_free(&n.g);
    }
}

TEST(bad_replacements)
{
    const struct {
        const char *ids;
        int from, to, times; /* from, to: x, y, abs, exp */
        const char *why;
    } bad[] = {
        {"neg", 1, 2, 0, "assigns nothing to abs#4.0, which is read"},
        {"neg", 1, 2, 2, "twice"},
        {"", 1, 2, 1, "for the second time or from a tensor that it has not made"},
        {"neg", 1, 3, 1, "which is not an output of it"},
        {"neg", 3, 2, 1, "before it is made"},
        {"sumsq", 1, 2, 1, "of another shape or type"},
        {"nonsense", 1, 2, 1, "unknown op 'nonsense'"},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        net n;
        begin(&n);
        weft_tensor t[4] = {n.x, n.y, 0, 0};
        t[2] = OP(&n, "abs", 1, n.y);
        t[3] = OP(&n, "exp", 1, t[2]);
        wish w = {t[bad[i].from], t[bad[i].to], bad[i].ids, bad[i].times};
        weft_status st = graph_replace(&n.g, number_of(&n, t[2]), emit, &w);
        expect_refusal(st != WEFT_OK ? st : graph_apply_replacements(&n.g), WEFT_USAGE, bad[i].why);
        graph_free(&n.g);
    }
    net n;
    begin(&n);
    wish w = {n.x, n.y, "neg", 1};
    expect_refusal(graph_replace(&n.g, 99, emit, &w), WEFT_USAGE, "cannot be replaced");
    assert_int_equal(graph_replace(&n.g, number_of(&n, n.y), emit, &w), WEFT_OK);
    expect_refusal(graph_replace(&n.g, 2, emit, &w), WEFT_USAGE, "already been replaced");
    graph_free(&n.g);
}
