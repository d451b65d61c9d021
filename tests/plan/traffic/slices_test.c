/* Sharding: the bytes and traffic of each placement against the arithmetic of the paper
 * (Rajbhandari et al., 2020), and errors. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job.h"

#include <test.h>

static const char *const placements[] = {"none", "zero1", "zero2", "zero3"};

typedef struct job {
    int layers, heads, embed;
    uint32_t ranks, passes;
    const char *precision; /* and how gradients are summed */
} job;

static void make(const job *x, uint32_t placement, planned *j)
{
    char text[512];
    snprintf(text, sizeof text,
             "[model]\nlayers = %d\nheads = %d\nembed = %d\nffn = %d\ncontext = 128\n[train]\n"
             "sequence = 128\nmicrobatch = 1\nbatch = %u\nprecision = %s\n[parallel]\n"
             "strategy = dp\n[optim]\nplacement = %s\n",
             x->layers, x->heads, x->embed, 4 * x->embed, x->ranks * x->passes, x->precision,
             placements[placement]);
    if (planned_make(text, x->ranks, SPEC_TRAIN, j) != WEFT_OK)
        fail_msg("%s", err_text());
}

static void near(double got, double want, double share, const char *what, uint32_t placement)
{
    if (got < want * (1 - share) || got > want * (1 + share))
        fail_msg("%s with %s: %g, not %g", what, placements[placement], got, want);
}

/* Bytes per parameter, with Adam. */
static void model_state(const job *x, double param, double grad, double state)
{
    for (uint32_t k = 0; k < 4; k++) {
        planned j;
        make(x, k, &j);
        double psi = (double)j.plan->param_elements, n = x->ranks;
        const plan_bytes *b = &j.plan->bytes;
        near((double)b->params, psi * param / (k < 3 ? 1 : n), 2e-3, "parameters", k);
        near((double)b->grads, psi * grad / (k < 2 ? 1 : n), 2e-3, "gradients", k);
        near((double)b->state, psi * state / (k < 1 ? 1 : n), 2e-3, "state", k);
        assert_int_equal(b->params + b->grads + b->state + b->activations + b->comm, b->peak);
        assert_int_equal(plan_check(&j.plans), WEFT_OK);
        planned_free(&j);
    }
}

TEST(bytes)
{
    model_state(&(job){12, 12, 768, 8, 1, "bf16\naccumulate = compute"}, 2, 2, 12);
    model_state(&(job){12, 12, 768, 4, 3, "bf16"}, 2, 4, 12);
    model_state(&(job){12, 12, 768, 3, 2, "fp32"}, 4, 4, 8);
}

/* Figure 1 of the paper: 7.5 G parameters on 64 ranks, in GB. */
TEST(the_papers_example)
{
    static const double gigabytes[] = {120, 31.4, 16.6, 1.88};
    const job x = {36, 32, 4096, 64, 1, "bf16\naccumulate = compute"};
    for (uint32_t k = 0; k < 4; k++) {
        planned j;
        make(&x, k, &j);
        const plan_bytes *b = &j.plan->bytes;
        near((double)j.plan->param_elements, 7.5e9, 0.01, "parameters", k);
        near((double)(b->params + b->grads + b->state) * 1e-9, gigabytes[k], 0.01, "GB", k);
        planned_free(&j);
    }
}

/* 10^12 parameters, 16 GB per rank. */
TEST(large)
{
    const job x = {128, 160, 25600, 1024, 1, "bf16\naccumulate = compute"};
    planned j;
    make(&x, 3, &j);
    const plan_bytes *b = &j.plan->bytes;
    near((double)j.plan->param_elements, 1e12, 0.01, "parameters", 3);
    near((double)(b->params + b->grads + b->state), 16e12 / 1024, 0.01, "bytes", 3);
    assert_int_equal(plan_check(&j.plans), WEFT_OK);
    planned_free(&j);
}

/* Bytes that a rank sends, in units of the parameters' bytes times (N - 1) / N. */
static void traffic(const job *x, double bytes_each)
{
    const double m = x->passes, want[] = {2, 2, m + 1, 3 * m};
    for (uint32_t k = 0; k < 4; k++) {
        planned j;
        make(x, k, &j);
        double unit = (double)j.plan->param_elements * bytes_each * (x->ranks - 1) / x->ranks;
        double reduced = (double)planned_sent(j.plan, WEFT_REDUCE_SCATTER) / unit;
        double gathered = (double)planned_sent(j.plan, WEFT_ALL_GATHER) / unit;
        double all = (double)planned_sent(j.plan, WEFT_ALL_REDUCE) / unit + reduced + gathered;
        near(all, want[k], 3e-3, "traffic", k);
        if (k)
            near(reduced, k == 1 ? 1 : m, 3e-3, "reduce-scatter", k);
        planned_free(&j);
    }
}

TEST(bytes_sent)
{
    traffic(&(job){12, 12, 768, 4, 1, "bf16\naccumulate = compute"}, 2);
    traffic(&(job){12, 12, 768, 8, 5, "bf16\naccumulate = compute"}, 2);
    traffic(&(job){12, 12, 768, 3, 2, "fp32"}, 4);
}

/* Gathered parameters and gradients of the tied table and of three blocks are among the
 * activations, and no more: a deeper model does not need more. */
TEST(whole_for_a_while)
{
    uint64_t more[2];
    for (uint32_t i = 0; i < 2; i++) {
        planned whole, cut;
        const job x = {i ? 24 : 12, 12, 768, 8, 2, "bf16"};
        make(&x, 0, &whole);
        make(&x, 3, &cut);
        more[i] = cut.plan->bytes.activations - whole.plan->bytes.activations;
        planned_free(&whole);
        planned_free(&cut);
    }
    uint64_t block = 12ull * 768 * 768, table = 50257ull * 768;
    assert_true(more[0] <= (2 + 4) * table + 3 * (2 + 4) * block);
    assert_true(more[1] <= more[0] + 4096);
}

static void refused(const char *text, uint32_t ranks, const char *why)
{
    char all[1024];
    snprintf(all, sizeof all, TINY "batch = 12\nmicrobatch = 2\n%s", text);
    planned_refused(all, ranks, why);
}

TEST(refusals)
{
#define OVER_DP "[parallel]\nstrategy = dp\n[optim]\nplacement = "
    refused("[optim]\nplacement = zero1\n", 1, "in this job none do (parallel.strategy = none)");
    refused(OVER_DP "zero2\n", 1, "in this job none do (parallel.dp = 1)");
    refused(OVER_DP "half\n", 2, "sharded gradients need sharded state");
    refused(OVER_DP "some\n", 2, "differently from the rest of its block block.0");
    refused(OVER_DP "once\n", 2, "it is summed there once a step");
    refused(OVER_DP "often\n", 2, "does not shard gradients");
    refused(OVER_DP "misled\n", 2, "no parameter has a name like 'no.such.*'");
}

#define TWO_AXES "[parallel]\nstrategy = dp, rows\ndp = %d\nrows = %d\n[optim]\nplacement = %s\n"

/* dp = 2 is inside a machine, rows = 4 between machines. */
static void slices_over(const char *placement, const char *keys, const char *axis)
{
    planned j;
    char all[1024];
    snprintf(all, sizeof all, TINY "batch = 16\nmicrobatch = 1\n" TWO_AXES "%s", 2, 4, placement,
             keys);
    if (planned_on(all, 8, 4, &j) != WEFT_OK)
        fail_msg("%s", err_text());
    uint32_t scatters = 0;
    for (uint32_t i = 0; i < j.plan->collectives.n; i++) {
        const plan_collective *c = &j.plan->collectives.at[i];
        if (c->kind != WEFT_REDUCE_SCATTER)
            continue;
        assert_string_equal(j.spec.mesh.name[j.plan->channels.at[c->channel].mesh_axis], axis);
        scatters++;
    }
    assert_true(scatters > 0);
    assert_int_equal(plan_check(&j.plans), WEFT_OK);
    planned_free(&j);
}

TEST(over_which_axis)
{
    for (uint32_t k = 1; k < 4; k++) {
        slices_over(placements[k], "", "rows"); /* the axis with the most ranks */
        slices_over(placements[k], "slice_axis = auto\n", "rows");
        slices_over(placements[k], "slice_axis = rows\n", "rows");
        slices_over(placements[k], "slice_axis = dp\n", "dp");
    }
}

TEST(no_data_axis)
{
    for (uint32_t k = 1; k < 4; k++) {
        char text[512];
        snprintf(text, sizeof text, TWO_AXES "slice_axis = none.such\n", 1, 3, placements[k]);
        refused(text, 3, "optim.slice_axis = none.such: ranks along that mesh axis do not share");
        snprintf(text, sizeof text, TWO_AXES "slice_axis = dp\n", 1, 3, placements[k]);
        refused(text, 3, "name one along which they do (rows), or set auto");
        snprintf(text, sizeof text,
                 "[parallel]\nstrategy = pp, dp\npp = 2\ndp = 2\n[optim]\nplacement = %s\n"
                 "slice_axis = pp\n",
                 placements[k]);
        refused(text, 4, "optim.slice_axis = pp: ranks along that mesh axis do not share");
    }
}

/* A rule of unit matrix that is elementwise gathers nothing: it sends what any rule sends, and
 * the padding of groups of one parameter. */
TEST(whole_matrices)
{
    for (uint32_t k = 1; k <= 3; k++) {
        planned plain, matrices;
        char text[512];
        const char *const rules[] = {"sgd\nmomentum = 0", "matrices"};
        for (uint32_t i = 0; i < 2; i++) {
            planned *j = i ? &matrices : &plain;
            snprintf(text, sizeof text,
                     TINY "batch = 12\nmicrobatch = 2\n" OVER_DP "zero%u\nrule = %s\n", k,
                     rules[i]);
            if (planned_make(text, 2, SPEC_TRAIN, j) != WEFT_OK)
                fail_msg("%s", err_text());
        }
        for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_ALL_GATHER; kind++) {
            const double a = (double)planned_sent(plain.plan, kind);
            near((double)planned_sent(matrices.plan, kind), a, 0.1, "sent", k);
        }
        planned_free(&plain);
        planned_free(&matrices);
    }
}
