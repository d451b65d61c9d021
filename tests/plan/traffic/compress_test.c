/* Which sums are compressed, what they send, their residuals; and the report of the plan. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job.h"

#include <test.h>

#define MODEL                                                                                      \
    "[model]\nlayers = 4\nheads = 4\nembed = 64\nffn = 256\ncontext = 16\nvocab = 96\n[train]\n"   \
    "sequence = 16\nmicrobatch = 1\nbatch = 24\nbucket_mb = 0.05\n"

static void make(const char *more, uint32_t ranks, planned *j)
{
    char text[1024];
    snprintf(text, sizeof text, MODEL "%s", more);
    if (planned_make(text, ranks, SPEC_TRAIN, j) != WEFT_OK)
        fail_msg("%s\nis refused: %s", text, err_text());
    assert_int_equal(plan_check(&j->plans), WEFT_OK);
}

/* Is every gradient sum over `axis` compressed to `form`, and nothing else? */
static uint32_t only_gradients(const planned *j, const char *axis, uint32_t form)
{
    uint32_t found = 0;
    char grads[32];
    snprintf(grads, sizeof grads, "%s.grads", axis);
    for (uint32_t k = 0; k < j->plans.n; k++)
        for (uint32_t i = 0; i < j->plans.at[k].collectives.n; i++) {
            const plan *p = &j->plans.at[k];
            const plan_collective *c = &p->collectives.at[i];
            int is = form && strcmp(p->channels.at[c->channel].name, grads) == 0;
            assert_int_equal(c->compress, is ? form : SCHED_PLAIN);
            assert_int_equal(strcmp(c->algorithm, "compressed") == 0, is);
            assert_true(is ? c->sent < c->plain : c->sent == c->plain);
            found += (uint32_t)is;
        }
    return found;
}

TEST(which)
{
    static const char *const jobs[] = {
        "[parallel]\nstrategy = dp\n",
        "[parallel]\nstrategy = dp\n[optim]\nplacement = zero1\n",
        "[parallel]\nstrategy = dp\n[optim]\nplacement = zero2\n",
        "[parallel]\nstrategy = dp\n[optim]\nplacement = zero3\n",
        "[parallel]\nstrategy = tp, dp\ntp = 2\nsequence = on\n",
        "[parallel]\nstrategy = dp, tp\ntp = 2\n[optim]\nplacement = zero2\n",
        "[parallel]\nstrategy = pp, dp\npp = 2\n[model]\ntied = on\n",
        "[parallel]\nstrategy = hybrid\ntp = 2\npp = 2\n[model]\ntied = on\n"};
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t axis = 0; axis < 2; axis++) {
            char text[512];
            planned j;
            snprintf(text, sizeof text, "%s[comm%s]\ncompress = int8\n", jobs[i],
                     axis ? ".dp" : "");
            make(text, i < 4 ? 2 : i < 7 ? 4 : 8, &j);
            assert_true(only_gradients(&j, "dp", SCHED_TO_INT8) >= 4);
            assert_non_null(strstr(j.plan->changes, "compress = int8: sums of gradients over dp"));
            planned_free(&j);
        }
}

/* An axis with its own setting: sums over the other are uncompressed. */
TEST(one_of_two_axes)
{
    planned j;
    make("[parallel]\nstrategy = dp, rows\ndp = 2\n[comm]\ncompress = bf16\n[comm.dp]\n"
         "compress = none\n",
         6, &j);
    only_gradients(&j, "rows", SCHED_TO_BF16);
    planned_free(&j);
    make("[parallel]\nstrategy = dp\n[comm]\ncompress = none\n", 2, &j);
    assert_int_equal(only_gradients(&j, "dp", SCHED_PLAIN), 0);
    assert_null(j.plan->changes);
    planned_free(&j);
}

static uint64_t gradients(const plan *p)
{
    return p->bytes.grads / 4; /* elements; fp32 is the default */
}

/* Residuals: an fp32 number per element, without the own slice where no sum is encoded; once for
 * any number of micro-batches; counted as communication memory. */
TEST(kept)
{
    static const char *const more[] = {"", "[optim]\nplacement = zero1\n",
                                       "[optim]\nplacement = zero2\n"};
    for (uint32_t feedback = 0; feedback < 2; feedback++)
        for (uint32_t i = 0; i < 3; i++) {
            char text[512];
            planned plain, j;
            snprintf(text, sizeof text, "[parallel]\nstrategy = dp\n%s", more[i]);
            make(text, 4, &plain);
            snprintf(text, sizeof text,
                     "[parallel]\nstrategy = dp\n%s[comm]\ncompress = int8\nfeedback = %s\n",
                     more[i], feedback ? "on" : "off");
            make(text, 4, &j);
            double elements = (double)gradients(plain.plan) * (i == 2 ? 4 : 1);
            double want = feedback ? 4 * elements * (i ? 0.75 : 1) : 0;
            assert_true((double)j.plan->residual_bytes >= want * 0.99);
            assert_true((double)j.plan->residual_bytes <= want * 1.01 + 4096);
            const plan_bytes *b = &j.plan->bytes;
            assert_true(b->comm >= j.plan->residual_bytes);
            assert_int_equal(b->params + b->grads + b->state + b->activations + b->comm, b->peak);
            assert_int_equal(plan_scalar(j.plan, "kept") != UINT64_MAX, feedback);
            planned_free(&plain);
            planned_free(&j);
        }
}

/* 65/256 of the uncompressed bytes, to within one scale per chunk. */
TEST(sent)
{
    static const char *const forms[] = {"none", "fp16", "bf16", "int8"};
    for (uint32_t form = 0; form < 4; form++) {
        char text[256];
        planned j;
        snprintf(text, sizeof text,
                 "[parallel]\nstrategy = dp\n[optim]\nplacement = zero1\n[comm]\n"
                 "compress = %s\n",
                 forms[form]);
        make(text, 3, &j);
        double share = form == 0 ? 1 : form == SCHED_TO_INT8 ? 65.0 / 256 : 0.5;
        double got = (double)planned_sent(j.plan, WEFT_REDUCE_SCATTER);
        double want = (double)planned_plain(j.plan, WEFT_REDUCE_SCATTER) * share;
        assert_true(got >= want * 0.999 && got <= want * 1.01);
        assert_int_equal(planned_sent(j.plan, WEFT_ALL_GATHER),
                         planned_plain(j.plan, WEFT_ALL_GATHER));
        planned_free(&j);
    }
}
