/* Pipeline schedules: bubble and memory against the known formulas; a schedule that would hang is
 * an error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job.h"
#include "view/view.h"

#include <test.h>

/* The tied embedding is summed in many small buckets that wait for each other. */
static void make(uint32_t stages, uint32_t passes, const char *schedule, uint32_t chunks,
                 planned *j)
{
    char text[1024];
    snprintf(text, sizeof text,
             "[model]\nlayers = %u\nheads = 3\nembed = 15\nffn = 37\ncontext = 12\nvocab = 230\n"
             "[train]\nsequence = 7\nbatch = %u\nmicrobatch = 1\nbucket_mb = 0.001\n"
             "[parallel]\nstrategy = pp\nschedule = %s\nvirtual = %u\n",
             stages * chunks, passes, schedule, chunks);
    if (planned_make(text, stages, SPEC_TRAIN, j) != WEFT_OK)
        fail_msg("%u stages, %u micro-batches, %s: %s", stages, passes, schedule, err_text());
    if (plan_check(&j->plans) != WEFT_OK)
        fail_msg("%u stages, %u micro-batches, %s: %s", stages, passes, schedule, err_text());
}

static void bubble(uint32_t p, uint32_t m, const char *schedule, uint32_t v)
{
    planned j;
    make(p, m, schedule, v, &j);
    double want = (p - 1.0) / (v * m + p - 1.0), got = view_bubble(&j.plans, true);
    if (fabs(got - want) > 1e-9)
        fail_msg("%u stages of %u chunks, %u micro-batches, %s: idle %g, not %g", p, v, m, schedule,
                 got, want);
    for (uint32_t s = 0; s < p && v == 1; s++) {
        uint32_t max = !strcmp(schedule, "1f1b") && p - s < m ? p - s : m;
        assert_int_equal(view_live(&j.plans.at[s]), max);
    }
    planned_free(&j);
}

TEST(formulas)
{
    static const uint32_t stages[] = {2, 3, 4, 7}, passes[] = {1, 2, 3, 8, 13};
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < 5; k++) {
            bubble(stages[i], passes[k], "fthenb", 1);
            bubble(stages[i], passes[k], "1f1b", 1);
        }
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t v = 2; v < 5; v++)
            for (uint32_t k = 1; k < 5; k++)
                bubble(stages[i], k * stages[i], "interleaved", v);
}

/* A rank sends one activation per boundary and micro-batch forward, its gradient backward. */
TEST(traffic)
{
    planned j;
    make(4, 8, "1f1b", 1, &j);
    const uint64_t boundary = 7 * 15 * 2; /* tokens, features, bf16 */
    for (uint32_t s = 0; s < 4; s++) {
        uint64_t ways = (s > 0) + (s < 3);
        assert_int_equal(planned_sent(&j.plans.at[s], WEFT_SEND), 8 * ways * boundary);
        assert_int_equal(planned_sent(&j.plans.at[s], WEFT_RECV), 0);
    }
    planned_free(&j);
}

/* The nth entry of the kind whose collective is of `kind`. */
static plan_entry *find(plan *p, uint32_t what, uint32_t kind, uint32_t nth)
{
    for (uint32_t i = 0; i < p->step.entries.n; i++) {
        plan_entry *e = &p->step.entries.at[i];
        if (e->kind == what && p->collectives.at[e->what].kind == kind && !nth--)
            return e;
    }
    fail_msg("there is no such entry");
    return NULL;
}

static void refused(planned *j, const char *word)
{
    if (plan_check(&j->plans) != WEFT_USAGE)
        fail_msg("it was let through");
    if (!strstr(err_text(), word))
        fail_msg("'%s' does not say '%s'", err_text(), word);
    planned_free(j);
}

TEST(swapped_receives)
{
    planned j;
    make(2, 4, "fthenb", 1, &j);
    plan_entry *a = find(&j.plans.at[1], ENTRY_START, WEFT_RECV, 0),
               *b = find(&j.plans.at[1], ENTRY_START, WEFT_RECV, 1), was = *a;
    *a = *b;
    *b = was;
    refused(&j, "rank 1 starts 'receive");
}

/* Stage 1 waits for a receive before it sends what stage 0 waits for. */
TEST(waits_in_a_ring)
{
    planned j;
    make(2, 4, "1f1b", 1, &j);
    plan_list *l = &j.plans.at[1].step;
    plan_entry *send = find(&j.plans.at[1], ENTRY_START, WEFT_SEND, 0), gone = *send;
    plan_entry *last = &l->entries.at[l->entries.n - 1];
    memmove(send, send + 1, (size_t)((char *)last - (char *)send));
    *last = gone; /* it starts at the end of the step */
    refused(&j, "rank 0 is at entry");
}

/* The executed schedule has the algorithm of the plan, even if `auto` would choose another. */
TEST(algorithm_of_the_plan)
{
    static const char *const given[] = {"ring", "pairwise"};
    planned j;
    uint32_t sums = 0;
    if (planned_make("[model]\nlayers = 1\nheads = 2\nembed = 32\ncontext = 8\nvocab = 64\n"
                     "[train]\nsequence = 8\nmicrobatch = 1\nbatch = 4\n"
                     "[parallel]\nstrategy = dp\n",
                     4, SPEC_TRAIN, &j) != WEFT_OK)
        fail_msg("%s", err_text());
    for (uint32_t i = 0; i < j.plan->collectives.n; i++) {
        plan_collective c = j.plan->collectives.at[i];
        for (uint32_t k = 0; k < 3; k++)
            for (uint32_t me = 0; me < 4; me++) {
                sched_schedule *s;
                const char *wanted = k < 2 ? given[k] : j.plan->collectives.at[i].algorithm;
                c.algorithm = wanted;
                assert_int_equal(plan_schedule(j.plan, &c, me, &s), WEFT_OK);
                assert_string_equal(s->r.algorithm, wanted);
                sched_free(s);
                sums++;
            }
    }
    assert_true(sums >= 24);
    planned_free(&j);
}
