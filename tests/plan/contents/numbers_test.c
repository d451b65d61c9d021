/* Byte sums, digests, and jobs with contradicting settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job.h"

#include <test.h>

#define GPT2 "[model]\nlayers = %d\nheads = %d\nembed = %d\nffn = %d\n"
#define PART "[parallel]\nstrategy = dp\n"

static void make(const char *text, uint32_t ranks, planned *j)
{
    if (planned_make(text, ranks, SPEC_TRAIN, j) != WEFT_OK)
        fail_msg("%s", err_text());
}

static uint64_t digest(const char *text, uint32_t ranks)
{
    planned j;
    make(text, ranks, &j);
    uint64_t d = j.plan->digest;
    planned_free(&j);
    return d;
}

TEST(bytes_add_up)
{
    static const char *const jobs[] = {
        TINY "batch = 2\nmicrobatch = 1\n",
        TINY "batch = 2\nmicrobatch = 1\nprecision = fp32\n",
        TINY "batch = 2\nmicrobatch = 1\naccumulate = compute\n" PART,
        TINY "batch = 8\nmicrobatch = 1\nbucket_mb = 0.002\n" PART "[optim]\nrule = sgd\n",
    };
    for (uint32_t i = 0; i < 4; i++) {
        planned j;
        make(jobs[i], i < 2 ? 1 : 2, &j);
        const plan_bytes *b = &j.plan->bytes;
        assert_int_equal(b->params + b->grads + b->state + b->activations + b->comm, b->peak);
        assert_true(i < 2 ? b->comm == 0 : b->comm > 0);
        planned_free(&j);
    }
}

/* Regions are whole pages, tensors begin at multiples of 32 elements: this bounds the padding. */
static void about(uint64_t got, uint64_t want, uint32_t tensors)
{
    if (got < want || got > want + tensors * 31 * 4 + 2 * 4096)
        fail_msg("%llu bytes; %llu and a little padding are expected", (unsigned long long)got,
                 (unsigned long long)want);
}

/* The published sizes of GPT-2, and 16 bytes per parameter with AdamW in bf16. */
TEST(known_models)
{
    static const struct {
        int layers, heads, embed;
        uint64_t params;
    } known[] = {{12, 12, 768, 124439808},
                 {24, 16, 1024, 354823168},
                 {36, 20, 1280, 774030080},
                 {48, 25, 1600, 1557611200}};
    for (uint32_t i = 0; i < 4; i++) {
        planned j;
        char text[512];
        snprintf(text, sizeof text, GPT2 PART, known[i].layers, known[i].heads, known[i].embed,
                 4 * known[i].embed);
        make(text, 8, &j);
        uint64_t n = known[i].params;
        uint32_t tensors = (uint32_t)known[i].layers * 12 + 4;
        assert_int_equal(j.plan->param_elements, n);
        about(j.plan->bytes.params, 2 * n, tensors);
        about(j.plan->bytes.state, 12 * n, 3 * tensors);
        about(j.plan->bytes.grads, 4 * n, tensors);
        double sent = 2.0 * 7 / 8 * 4 * (double)n; /* each gradient once around a ring */
        assert_true((double)planned_sent(j.plan, WEFT_ALL_REDUCE) > sent);
        assert_true((double)planned_sent(j.plan, WEFT_ALL_REDUCE) < sent * 1.001);
        assert_int_equal(plan_check(&j.plans), WEFT_OK);
        planned_free(&j);
    }
}

TEST(digests)
{
    static const char same[] = TINY "batch = 4\nmicrobatch = 2\n" PART;
    static const char *const others[] = {
        TINY "batch = 8\nmicrobatch = 2\n" PART,
        TINY "batch = 4\nmicrobatch = 1\n" PART,
        TINY "batch = 4\nmicrobatch = 2\nprecision = fp32\n" PART,
        TINY "batch = 4\nmicrobatch = 2\nprecision = fp16\n" PART,
        TINY "batch = 4\nmicrobatch = 2\naccumulate = compute\n" PART,
        TINY "batch = 4\nmicrobatch = 2\nbucket_mb = 0.002\n" PART,
        TINY "batch = 4\nmicrobatch = 2\n" PART "[optim]\nrule = sgd\n",
        TINY "batch = 4\nmicrobatch = 2\n" PART "[comm]\nalgorithm = ring\n",
        TINY "batch = 4\nmicrobatch = 2\n" PART "[optim]\nlr = 1e-3\n",
        TINY "batch = 4\nmicrobatch = 2\n" PART "[run]\nsteps = 300\n",
        "[model]\nlayers = 2\nheads = 3\nembed = 15\nffn = 38\ncontext = 12\nvocab = 23\n"
        "[train]\nsequence = 7\nbatch = 4\nmicrobatch = 2\n" PART,
    };
    uint64_t d = digest(same, 2);
    assert_true(d == digest(same, 2));
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
        if (digest(others[i], 2) == d)
            fail_msg("the digest does not see: %s", others[i]);
}

TEST(strategies_that_contradict)
{
#define ROWS(name) TINY "batch = 4\nmicrobatch = 2\n[parallel]\nstrategy = " name "\n"
    planned_refused(ROWS("silent"), 2,
                    "is a partial sum over the mesh axis silent, and no strategy");
    planned_refused(ROWS("late"), 2, "strategy late: edits.split(): this is phase 3");
    planned_refused(
        ROWS("secret"), 2,
        "parallel.secret: its strategy splits the inputs over the mesh axis secret, whose flags");
    planned_refused(TINY
                    "batch = 4\nmicrobatch = 2\n[parallel]\nstrategy = twice, secret\ntwice = 1\n",
                    2, "parallel.secret: its strategy splits");
    planned_refused(
        ROWS("idle"), 2,
        "parallel.idle: its strategy does not split the inputs over the mesh axis idle, whose");
    planned_refused(ROWS("twice"), 2, "summed over twice twice, by strategy twice as well");
    planned_refused(ROWS("dp, dp"), 2, "two strategies bring the mesh axis dp");
    planned_refused(ROWS("dp, rows"), 2, "only one of the mesh axes can be auto");
    planned_refused(ROWS("dp, none.such"), 2, "no parallel plugin 'none.such'");
    planned_refused(ROWS("none"), 2, "the strategies use 1 rank, but the job has 2");
    planned_refused(ROWS("dp\ndp = 3"), 2, "3 does not divide the 2 ranks");
    planned_refused(ROWS("dp\ndp = 2"), 4, "the strategies use 2 ranks, but the job has 4");
}

TEST(sizes_that_do_not_fit)
{
#define SIZES(model, train) "[model]\n" model "[train]\n" train
    planned_refused(TINY "batch = 3\nmicrobatch = 2\n", 1,
                    "3 sequences are not a multiple of microbatch");
    planned_refused(TINY "batch = 4\nmicrobatch = 2\n" PART, 4,
                    "times the 4 ranks that share the data");
    planned_refused(SIZES("heads = 7\n", ""), 1, "7 heads do not divide model.embed = 768");
    planned_refused(SIZES("context = 8\n", "sequence = 9\n"), 1,
                    "9 tokens are more than the context of the model, 8");
    planned_refused(SIZES("vocab = 0\n", ""), 1,
                    "0 means what the data says, but this data has no ids");
    planned_refused(SIZES("family = gpt2\nkv_heads = 3\n", ""), 1, "model.kv_heads is 3");
    planned_refused(SIZES("", "precision = fp8\n"), 1, "precision");
}

/* The deterministic flag reaches the device in every query. */
TEST(deterministic)
{
    for (int on = 0; on < 2; on++) {
        planned j;
        make(on ? TINY "batch = 2\nmicrobatch = 1\n[run]\ndeterministic = on\n"
                : TINY "batch = 2\nmicrobatch = 1\n",
             1, &j);
        for (uint32_t i = 0; i < j.plan->kernels.n; i++)
            assert_int_equal((j.plan->kernels.at[i].spec.flags & WEFT_SPEC_DETERMINISTIC) != 0, on);
        planned_free(&j);
    }
}
