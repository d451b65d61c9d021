/* Every list of many jobs, walked with a tag on every two bytes: see machine.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "job.h"
#include "machine.h"

#include <cmocka.h>

static void walk_all(const char *text, uint32_t ranks)
{
    planned j;
    if (planned_make(text, ranks, SPEC_TRAIN, &j))
        fail_msg("%u ranks of\n%s\nare refused: %s", ranks, text, err_text());
    machine m;
    machine_begin(&m, j.plan, 0);
    machine_walk(&m, &j.plan->step);
    machine_end_of_step(&m);
    machine_end(&m);
    machine_begin(&m, j.plan, 1);
    machine_walk(&m, &j.plan->eval);
    assert_int_equal(m.works, m.g.blocks.n);
    machine_end(&m);
    assert_int_equal(plan_check(&j.plans), WEFT_OK);
    planned_free(&j);
}

static void one_rank(void **state)
{
    (void)state;
    walk_all(TINY "batch = 1\nmicrobatch = 1\n", 1);
    walk_all(TINY "batch = 6\nmicrobatch = 2\nprecision = fp32\n", 1);
    walk_all(TINY "batch = 6\nmicrobatch = 2\nprecision = fp16\naccumulate = compute\n", 1);
}

static void data_parallel(void **state)
{
    (void)state;
    walk_all(TINY "batch = 4\nmicrobatch = 2\n[parallel]\nstrategy = dp\n", 2);
    walk_all(TINY "batch = 12\nmicrobatch = 2\nbucket_mb = 0.001\n[parallel]\nstrategy = dp\n", 3);
}

static void two_mesh_axes(void **state)
{
    (void)state;
    walk_all(TINY "batch = 12\nmicrobatch = 1\nbucket_mb = 0.004\n[parallel]\n"
                  "strategy = dp, rows\ndp = 2\nrows = 3\n",
             6);
}

/* Rotations and the gated unit write over what they read. */
static void llama(void **state)
{
    (void)state;
    static const char sizes[] =
        "[model]\nfamily = llama\nlayers = 2\nheads = 6\nkv_heads = 2\nembed = 36\nffn = 37\n"
        "context = 12\nvocab = 23\n[train]\nsequence = 7\nclip = 1\nbatch = 12\nmicrobatch = 2\n";
    char text[512];
    walk_all(sizes, 1);
    snprintf(text, sizeof text, "%sbucket_mb = 0.004\n[parallel]\nstrategy = dp\n", sizes);
    walk_all(text, 3);
}

/* Fifty jobs of sizes that are drawn. */
static void drawn(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        uint64_t n = 0, r[12];
        for (; n < 12; n++)
            r[n] = rng_below(17, i * 12 + n, 1000);
        uint32_t ranks = (uint32_t)(1 + r[0] % 5), micro = (uint32_t)(1 + r[1] % 3);
        uint32_t heads = (uint32_t)(1 + r[2] % 4), passes = (uint32_t)(1 + r[3] % 4);
        char text[1024];
        snprintf(
            text, sizeof text,
            "[model]\nlayers = %u\nheads = %u\nembed = %u\nffn = %u\ncontext = 16\nvocab = %u\n"
            "tied = %s\n[train]\nsequence = %u\nbatch = %u\nmicrobatch = %u\nprecision = %s\n"
            "accumulate = %s\nbucket_mb = %g\n[parallel]\nstrategy = %s\n[optim]\nrule = %s\n"
            "[comm]\nalgorithm = %s\n",
            (unsigned)(1 + r[4] % 4), heads, heads * (unsigned)(1 + r[5] % 9),
            (unsigned)(1 + r[6] % 70), (unsigned)(2 + r[7] % 90), r[8] % 2 ? "on" : "off",
            (unsigned)(1 + r[9] % 16), ranks * micro * passes, micro, r[10] % 2 ? "fp32" : "bf16",
            r[10] % 3 ? "fp32" : "compute", r[11] % 2 ? 0.001 : 0.02, ranks > 1 ? "dp" : "none",
            r[11] % 3 ? "adamw" : "sgd", r[11] % 5 ? "auto" : "ring");
        walk_all(text, ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),      cmocka_unit_test(data_parallel),
        cmocka_unit_test(two_mesh_axes), cmocka_unit_test(llama),
        cmocka_unit_test(drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
