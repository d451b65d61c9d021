/* Recomputation of activations: memory savings, a check of every byte, and errors. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job.h"
#include "machine.h"

#include <test.h>

#include "builtin.h"
#include <weft/strategy.h>

enum { LAYERS = 12, EMBED = 96, TOKENS = 4 * 64, HIDDEN = 4 * EMBED };

static void make(planned *j, int layers, const char *recompute, const char *strategy)
{
    char text[512];
    snprintf(text, sizeof text,
             "[model]\nlayers = %d\nheads = 3\nembed = %d\nffn = %d\ncontext = 64\nvocab = 101\n"
             "[train]\nsequence = 64\nbatch = 8\nmicrobatch = 4\nrecompute = %s\n[parallel]\n"
             "strategy = %s\n",
             layers, EMBED, HIDDEN, recompute, strategy);
    if (planned_make(text, 1, SPEC_TRAIN, j) != WEFT_OK)
        fail_msg("%s", err_text());
}

static uint64_t activations(int layers, const char *recompute, const char *strategy)
{
    planned j;
    make(&j, layers, recompute, strategy);
    uint64_t bytes = j.plan->bytes.activations;
    planned_free(&j);
    return bytes;
}

/* The cost of one more block. Regions are whole pages. */
static void costs(const char *recompute, const char *strategy, uint64_t want)
{
    uint64_t few = activations(LAYERS, recompute, strategy);
    uint64_t more = activations(2 * LAYERS, recompute, strategy);
    uint64_t got = more - few;
    if (got + 4096 < LAYERS * want || got > LAYERS * want + 4096)
        fail_msg("recompute = %s, strategy %s: %d blocks more take %llu bytes, not %llu", recompute,
                 strategy, LAYERS, (unsigned long long)got, (unsigned long long)(LAYERS * want));
}

/* In bytes, for bf16. What GPT-2 saves of a block: its input, the output of both normalisations and
 * two numbers per token of each, queries, keys and values, the attention output and its
 * log-sum-exp, the residual stream between the halves, and the ffn's hidden values before and after
 * the GELU. */
#define ROW (TOKENS * EMBED * 2ull)
#define INSIDE (TOKENS * HIDDEN * 2ull)
#define STATISTICS (2 * 2 * TOKENS * 4ull)
#define ATTENTION (ROW + 3 * TOKENS * 4ull)
#define WHOLE (ROW + 2 * ROW + STATISTICS + 3 * ROW + ATTENTION + ROW + 2 * INSIDE)

TEST(what_a_block_costs)
{
    costs("none", "none", WHOLE);
    costs("selective", "none", WHOLE - ATTENTION);
    costs("block", "none", ROW);
    costs("none", "remaker", WHOLE - INSIDE);
    /* Three products and the GELU are saved; the stream is recomputed from the second product. */
    costs("block", "keeper", ROW + 3 * ROW + ROW + 2 * INSIDE);
}

/* Twelve block inputs, and one recomputed block: all its activations and the gradients of its
 * widest tensors. */
TEST(the_peak)
{
    uint64_t all = activations(LAYERS, "none", "none");
    uint64_t block = activations(LAYERS, "block", "none");
    assert_true(all > LAYERS * WHOLE);
    assert_true(block < LAYERS * ROW + 2 * WHOLE);
}

/* Recomputation does not count in the model's FLOPs. */
TEST(flops_are_the_same)
{
    static const char *const words[] = {"none", "selective", "block"};
    double flops[3];
    uint64_t digest[3];
    for (int i = 0; i < 3; i++) {
        planned j;
        make(&j, 2, words[i], "none");
        flops[i] = j.plan->flops_step;
        digest[i] = j.plan->digest;
        planned_free(&j);
    }
    assert_true(flops[0] > 0 && flops[0] == flops[1] && flops[0] == flops[2]);
    assert_true(digest[0] != digest[1] && digest[1] != digest[2] && digest[2] != digest[0]);
}

static void walk(const char *text, uint32_t ranks)
{
    planned j;
    if (planned_make(text, ranks, SPEC_TRAIN, &j) != WEFT_OK)
        fail_msg("%s", err_text());
    machine_walk_all(&j.plans, j.plan);
    planned_free(&j);
}

TEST(every_byte)
{
#define AGAIN(word) TINY "batch = 12\nmicrobatch = 2\nrecompute = " word "\n"
    walk(AGAIN("block"), 1);
    walk(AGAIN("selective"), 1);
    walk(AGAIN("block") "precision = fp16\n", 1);
    walk(AGAIN("block") "precision = fp32\n[model]\ntied = off\n", 1);
    walk(AGAIN("block") "[parallel]\nstrategy = dp\n", 3);
    walk(AGAIN("selective") "[parallel]\nstrategy = dp, rows\ndp = 3\nrows = 2\n", 6);
}

static void refused(const char *strategy, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, TINY "batch = 2\nmicrobatch = 2\n[parallel]\nstrategy = %s\n",
             strategy);
    planned_refused(text, 1, why);
}

TEST(refusals)
{
    refused("cutter", "strategy cutter: edits.activations(): '*' in shards over 'rows'");
    refused("hasty",
            "strategy hasty: edits.activations(): this is phase 3; the edit belongs to phase 4");
    refused("misled", "no activation of the model has a name like 'no.such#*'");
    refused("vague", "in the unknown mode 7");
    refused("remaker, keeper",
            "stored in one mode by strategy remaker and in another by strategy keeper");
}

/* --- a hand-written graph: communication inside a block is recomputed too --- */

static weft_tensor op(weft_builder *b, const char *id, weft_tensor x, weft_tensor y)
{
    weft_tensor in[2] = {x, y}, out = 0;
    assert_int_equal(b->op(b->ctx, id, NULL, 0, in, y ? 2 : 1, 0, &out, 1), WEFT_OK);
    return out;
}

/* loss = sum over the tokens of mul(exp(all_reduce(x w)), the same), as a block and what follows */
static weft_tensor build(graph *g, weft_builder *b)
{
    weft_shape x = {WEFT_F32, 2, 0, 0, {{"tokens", 8}, {"embed", 4}}};
    weft_shape w = {WEFT_F32, 2, 0, 0, {{"ffn", 6}, {"embed", 4}}};
    weft_tensor param, t, sum, out;
    assert_int_equal(b->block(g, "first", 0), WEFT_OK);
    assert_int_equal(
        b->param(g, &(weft_param_args){sizeof(weft_param_args), 0, "x", &x, "ones", NULL}, &t),
        WEFT_OK);
    t = op(b, "abs", t, 0);
    assert_int_equal(b->block(g, "middle", 0), WEFT_OK);
    assert_int_equal(
        b->param(g, &(weft_param_args){sizeof(weft_param_args), 0, "w", &w, "ones", NULL}, &param),
        WEFT_OK);
    t = op(b, "linear", t, param);
    assert_int_equal(b->comm(g,
                             &(weft_comm_args){sizeof(weft_comm_args), 0, WEFT_ALL_REDUCE, WEFT_SUM,
                                               "m", NULL, 0, 0},
                             t, &t),
                     WEFT_OK);
    t = op(b, "exp", t, 0);
    t = op(b, "mul", t, t);
    assert_int_equal(b->block(g, "last", 0), WEFT_OK);
    t = op(b, "exp", t, 0);
    assert_int_equal(b->scalar(g, "loss", 0, &sum), WEFT_OK);
    out = op(b, "sumsq", t, 0);
    (void)out;
    g->nodes.at[g->nodes.n - 1].out[0] = sum;
    graph_tensor_at(g, sum)->sum = true;
    return t;
}

static uint32_t count(const graph *g, const char *id, uint32_t phase, bool again)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *x = &g->nodes.at[i];
        n += !strcmp(x->id, id) && x->phase == phase && x->recomputed == again;
    }
    return n;
}

TEST(communication)
{
    graph_mesh m = {1, {"m"}, {2}};
    graph g;
    graph_init(&g, &m, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    weft_tensor loss = build(&g, &b);
    assert_int_equal(graph_backward(&g, loss), WEFT_OK);
    uint32_t before = g.nodes.n;
    for (weft_tensor t = 1; t <= g.tensors.n; t++)
        graph_tensor_at(&g, t)->place[0] = (weft_place){WEFT_SPLIT, 0, 0, 0};
    assert_int_equal(graph_set_keep(&g, "*", WEFT_ACTIVATION_RECOMPUTE, NULL), WEFT_OK);
    graph_recompute(&g);
    assert_int_equal(g.nodes.n, before + 3); /* the product, its sum, and exp in "middle" */
    assert_int_equal(count(&g, "all_reduce", PHASE_INPUTS, true), 1);
    assert_int_equal(count(&g, "linear", PHASE_INPUTS, true), 1);
    assert_int_equal(count(&g, "exp", PHASE_INPUTS, true), 1);
    for (uint32_t i = 0; i < g.nodes.n; i++)
        for (uint32_t k = 0; k < g.nodes.at[i].nin; k++) {
            const graph_tensor *t = graph_tensor_at(&g, g.nodes.at[i].in[k]);
            assert_true(t->producer <= i); /* produced before it is read */
            if (strstr(t->name, ".again"))
                assert_true(g.nodes.at[i].phase != PHASE_FORWARD && t->place[0].kind == WEFT_SPLIT);
        }
    graph_free(&g);
}

/* What only parameter gradients need is recomputed with them; the block of the loss, whose nodes
 * accumulate sums, is not; and nothing unused is recomputed. */
TEST(when_and_where)
{
    planned j;
    machine m;
    make(&j, 2, "block", "none");
    machine_begin(&m, j.plan, 0, 0);
    const graph *g = &m.g;
    assert_int_equal(count(g, "gelu", PHASE_PARAMS, true), 2); /* input of the last product */
    assert_int_equal(count(g, "gelu", PHASE_INPUTS, true), 0);
    assert_int_equal(count(g, "attention", PHASE_INPUTS, true), 2);
    assert_int_equal(count(g, "linear", PHASE_INPUTS, true), 2 * 3);
    assert_int_equal(count(g, "bias_residual", PHASE_INPUTS, true), 2);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        assert_false(n->recomputed && !strncmp(g->blocks.at[n->block], "head", 4));
        bool read = !n->recomputed;
        for (uint32_t k = i + 1; !read && k < g->nodes.n; k++)
            for (uint32_t a = 0; a < g->nodes.at[k].nin; a++)
                for (uint32_t o = 0; o < n->nout; o++)
                    read |= g->nodes.at[k].in[a] == n->out[o];
        assert_true(read);
    }
    machine_end(&m);
    planned_free(&j);
}
