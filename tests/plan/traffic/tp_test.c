/* Plans of the strategy tp: what each rank holds, and the traffic. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job.h"

#include <test.h>

#define LAYERS 3
#define TOKENS (2 * 8) /* of a micro-batch */
#define EMBED 16
#define PASSES 2

#define SIZES                                                                                      \
    "layers = 3\nheads = 4\nembed = 16\nffn = 24\ncontext = 10\nvocab = 1001\n"                    \
    "[train]\nsequence = 8\nbatch = 4\nmicrobatch = 2\nprecision = fp32\n"
#define GPT2 "[model]\n" SIZES
#define LLAMA "[model]\nfamily = llama\nkv_heads = 2\n" SIZES
#define TP "[parallel]\nstrategy = tp\n"

static void make(const char *text, uint32_t ranks, planned *j)
{
    if (planned_make(text, ranks, SPEC_TRAIN, j) != WEFT_OK)
        fail_msg("%s", err_text());
    assert_int_equal(plan_check(&j->plans), WEFT_OK);
}

/* Collectives of this kind that the step starts on the channel `on`, with this number of elements;
 * 0: any. */
static uint32_t started(const plan *p, const char *on, uint32_t kind, uint64_t count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->step.entries.n; i++) {
        const plan_entry *e = &p->step.entries.at[i];
        const plan_collective *c = &p->collectives.at[e->what];
        n += e->kind == ENTRY_START && c->kind == kind && (!count || c->count == count) &&
             !strcmp(p->channels.at[c->channel].name, on);
    }
    return n;
}

/* Two all-reduces per block forward and two backward, one of the embedding, one of the head's
 * input; two numbers per token for the loss. The logits, 62 times as many, are not communicated. */
TEST(all_reduces)
{
    const char *const models[] = {GPT2 TP, LLAMA TP};
    for (int i = 0; i < 2; i++) {
        planned j;
        make(models[i], 2, &j);
        const plan *p = j.plan;
        const uint32_t sums = PASSES * (4 * LAYERS + 2);
        assert_int_equal(started(p, "tp.pass", WEFT_ALL_REDUCE, TOKENS * EMBED), sums);
        assert_int_equal(started(p, "tp.pass", WEFT_ALL_REDUCE, TOKENS), PASSES);
        assert_int_equal(started(p, "tp.pass", WEFT_ALL_REDUCE, 2 * TOKENS), PASSES);
        assert_int_equal(started(p, "tp.pass", WEFT_ALL_REDUCE, 0), sums + 2 * PASSES);
        assert_int_equal(started(p, "tp.grads", WEFT_ALL_REDUCE, 0), 0);
        assert_int_equal(planned_sent(p, WEFT_REDUCE_SCATTER), 0);
        assert_int_equal(planned_sent(p, WEFT_ALL_GATHER), 0);
        uint64_t passes = PASSES * (4 * (uint64_t)LAYERS + 2) * TOKENS * EMBED * 4;
        assert_true(planned_sent(p, WEFT_ALL_REDUCE) >= passes); /* 2 (n-1)/n is 1 here */
        assert_true(planned_sent(p, WEFT_ALL_REDUCE) <= passes + PASSES * 6 * TOKENS * 4 + 64);
        planned_free(&j);
    }
}

/* Ten halves (all-gather or reduce-scatter) per block: forward two of each kind; backward two
 * gathers of gradients, two of what forward had gathered, two scatters. Embedding: a scatter
 * forward, a gather backward. Head: a gather forward, a gather and a scatter backward. */
TEST(halves)
{
    const char *const models[] = {GPT2 TP "sequence = on\n", LLAMA TP "sequence = on\n"};
    for (int i = 0; i < 2; i++) {
        planned j;
        make(models[i], 2, &j);
        const plan *p = j.plan;
        const uint32_t scatters = PASSES * (4 * LAYERS + 2), gathers = PASSES * (6 * LAYERS + 3);
        assert_int_equal(started(p, "tp.pass", WEFT_ALL_REDUCE, 0), 2 * PASSES);
        assert_int_equal(started(p, "tp.pass", WEFT_REDUCE_SCATTER, TOKENS * EMBED), scatters);
        assert_int_equal(started(p, "tp.pass", WEFT_ALL_GATHER, TOKENS * EMBED), gathers);
        assert_int_equal(planned_sent(p, WEFT_REDUCE_SCATTER), scatters * TOKENS * EMBED / 2 * 4);
        assert_int_equal(planned_sent(p, WEFT_ALL_GATHER), gathers * TOKENS * EMBED / 2 * 4);
        assert_true(started(p, "tp.grads", WEFT_ALL_REDUCE, 0) > 0); /* norms and biases */
        planned_free(&j);
    }
}

/* With recomputation, a block sums its attention once more; its gathers are shared. */
TEST(halves_again)
{
    planned j;
    make(GPT2 "recompute = block\n" TP "sequence = on\n", 2, &j);
    const uint32_t scatters = PASSES * (5 * LAYERS + 2), gathers = PASSES * (6 * LAYERS + 3);
    assert_int_equal(started(j.plan, "tp.pass", WEFT_REDUCE_SCATTER, TOKENS * EMBED), scatters);
    assert_int_equal(started(j.plan, "tp.pass", WEFT_ALL_GATHER, TOKENS * EMBED), gathers);
    planned_free(&j);
}

/* The tensor axis of a parameter that tp splits: 1 + its index; 0: none. */
static uint32_t cut(const plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->pieces.n; i++)
        if (!strcmp(p->pieces.at[i].name, name))
            return p->pieces.at[i].split[0];
    fail_msg("there is no %s", name);
    return 0;
}

TEST(weights)
{
    static const struct {
        const char *model, *name;
        uint32_t axis;
    } known[] = {
        {GPT2, "embed.tok.w", 1},
        {GPT2, "embed.pos.w", 1},
        {GPT2, "block.1.ln1.g", 0},
        {GPT2, "block.1.attn.qkv.w", 2},
        {GPT2, "block.1.attn.qkv.b", 2},
        {GPT2, "block.1.attn.out.w", 2},
        {GPT2, "block.1.attn.out.b", 0},
        {GPT2, "block.1.ffn.in.w", 1},
        {GPT2, "block.1.ffn.in.b", 1},
        {GPT2, "block.1.ffn.out.w", 2},
        {GPT2, "block.1.ffn.out.b", 0},
        {GPT2, "block.1.ffn.out.w.m", 2},
        {GPT2, "head.ln.b", 0},
        {LLAMA, "block.0.attn.q.w", 1},
        {LLAMA, "block.0.attn.k.w", 1},
        {LLAMA, "block.0.attn.v.w", 1},
        {LLAMA, "block.0.attn.out.w", 2},
        {LLAMA, "block.0.ffn.gate.w", 1},
        {LLAMA, "block.0.ffn.up.w", 1},
        {LLAMA, "block.0.ffn.down.w", 2},
        {LLAMA, "head.w", 1},
    };
    for (uint32_t i = 0; i < sizeof known / sizeof *known; i++) {
        planned j;
        char text[512];
        snprintf(text, sizeof text, "%s" TP, known[i].model);
        make(text, 2, &j);
        if (cut(j.plan, known[i].name) != known[i].axis)
            fail_msg("%s is cut along %u", known[i].name, cut(j.plan, known[i].name));
        planned_free(&j);
    }
}

/* 1001 rows in four parts are 251 each, the last with three of padding; the kernels get the index
 * at which a rank's part begins, the loss the number of real columns. */
TEST(padded_rows)
{
    planned j;
    uint32_t tables = 0, losses = 0;
    make(GPT2 TP, 4, &j);
    for (uint32_t i = 0; i < j.plan->kernels.n; i++) {
        const plan_kernel *k = &j.plan->kernels.at[i];
        const weft_opspec *op = &k->spec;
        if (!strcmp(op->id, "embedding") && op->in[0].size[0] != 3) {
            assert_int_equal(op->in[0].size[0], 251);
            assert_int_equal(k->first[0], 251);
            assert_string_equal(op->attrs[op->nattr - 1].key, "first");
            tables++;
        }
        if (!strncmp(op->id, "xent.", 5) && strcmp(op->id, "xent.loss")) {
            assert_int_equal(op->in[0].size[1], 251);
            assert_int_equal(k->first[0], 251);
            assert_string_equal(op->attrs[0].key, "valid");
            assert_int_equal(op->attrs[0].i, 1001);
            losses++;
        }
        if (!strcmp(op->id, "linear"))
            assert_int_equal(k->first[0], 0);
    }
    assert_int_equal(tables, 1);
    assert_int_equal(losses, 3);
    planned_free(&j);
}

static uint64_t activations(const char *text, uint32_t ranks)
{
    planned j;
    make(text, ranks, &j);
    uint64_t bytes = j.plan->bytes.activations;
    planned_free(&j);
    return bytes;
}

TEST(less_memory)
{
    uint64_t one = activations(GPT2 "[parallel]\nstrategy = none\n", 1);
    uint64_t two = activations(GPT2 TP, 2), parts = activations(GPT2 TP "sequence = on\n", 2);
    assert_true(parts < two && two < one);
    planned whole, half;
    make(GPT2, 1, &whole);
    make(GPT2 TP, 2, &half);
    assert_true(half.plan->bytes.params < whole.plan->bytes.params * 0.6);
    assert_true(half.plan->flops_step < whole.plan->flops_step * 0.51);
    assert_true(half.plan->digest != whole.plan->digest);
    planned_free(&whole);
    planned_free(&half);
}

/* Split and whole parameters alternate in memory but share buckets: no bucket except the last
 * is smaller than its size demands. The norm counts the two kinds separately. */
TEST(buckets_of_both_kinds)
{
    planned j;
    make(GPT2 "bucket_mb = 0.008\n[parallel]\nstrategy = tp, dp\ntp = 2\ndp = 2\n", 4, &j);
    const plan *p = j.plan;
    uint64_t elements = 0;
    uint32_t small = 0;
    for (uint32_t i = 0; i < p->step.entries.n; i++) {
        const plan_collective *c = &p->collectives.at[p->step.entries.at[i].what];
        if (p->step.entries.at[i].kind != ENTRY_START ||
            strcmp(p->channels.at[c->channel].name, "dp.grads") != 0)
            continue;
        elements += c->count;
        small += c->count < 1000; /* of 0.008 MiB, 2097 elements; halves of a bucket and more */
    }
    assert_true(elements * 4 >= p->bytes.grads - 4096 && elements * 4 <= p->bytes.grads);
    assert_true(small <= 1);
    assert_int_equal(started(p, "tp.scalars", WEFT_ALL_REDUCE, 1), 1);
    assert_int_equal(started(p, "dp.scalars", WEFT_ALL_REDUCE, 1), 1); /* the loss */
    planned_free(&j);
}

TEST(refusals)
{
    planned_refused(GPT2 TP, 3, "which do not divide all sizes that are split (model.heads = 4");
    planned_refused(GPT2 TP, 8, "parallel.tp may be 1, 2, 4");
    planned_refused("[model]\nlayers = 1\nheads = 6\nembed = 12\nffn = 40\ncontext = 8\nvocab = 9\n"
                    "[train]\nsequence = 8\nbatch = 2\nmicrobatch = 1\n" TP,
                    3, "(model.heads = 6, model.ffn = 40): for this model parallel.tp may be 1, 2");
    planned_refused(LLAMA TP, 4, "the mesh axis tp has 4 ranks (parallel.tp, or if that is auto");
    planned_refused(LLAMA TP, 4, "model.kv_heads = 2");
    planned_refused("[model]\nlayers = 1\nheads = 3\nembed = 12\nffn = 40\ncontext = 8\nvocab = 9\n"
                    "[train]\nsequence = 8\nbatch = 2\nmicrobatch = 1\n" TP,
                    2, "may be 1; give the model sizes that have a divisor in common");
    planned_refused("[model]\nlayers = 1\nheads = 2\nembed = 12\nffn = 40\ncontext = 8\nvocab = 9\n"
                    "[train]\nsequence = 7\nbatch = 2\nmicrobatch = 1\n" TP "sequence = on\n",
                    2, "has 7 elements, which tp = 2 does not divide");
    planned_refused(GPT2 "[parallel]\nstrategy = dp\nsequence = sideways\n", 2, "sequence");
}
