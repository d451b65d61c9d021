/* Simulates every list of many jobs with a tag on every two bytes: see machine.h. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "job.h"
#include "machine.h"

#include <test.h>

static void walk_all(const char *text, uint32_t ranks)
{
    planned j;
    if (planned_make(text, ranks, SPEC_TRAIN, &j) != WEFT_OK)
        fail_msg("%u ranks of\n%s\nare refused: %s", ranks, text, err_text());
    machine_walk_all(&j.plans, j.plan);
    planned_free(&j);
}

TEST(one_rank)
{
    walk_all(TINY "batch = 1\nmicrobatch = 1\n", 1);
    walk_all(TINY "batch = 6\nmicrobatch = 2\nprecision = fp32\n", 1);
    walk_all(TINY "batch = 6\nmicrobatch = 2\nprecision = fp16\naccumulate = compute\n", 1);
}

TEST(data_parallel)
{
    walk_all(TINY "batch = 4\nmicrobatch = 2\n[parallel]\nstrategy = dp\n", 2);
    walk_all(TINY "batch = 12\nmicrobatch = 2\nbucket_mb = 0.001\n[parallel]\nstrategy = dp\n", 3);
    walk_all(TINY "batch = 12\nmicrobatch = 2\nbucket_mb = 0.001\n[parallel]\nstrategy = dp\n"
                  "[comm]\ncompress = int8\n",
             3);
}

TEST(two_mesh_axes)
{
    walk_all(TINY "batch = 12\nmicrobatch = 1\nbucket_mb = 0.004\n[parallel]\n"
                  "strategy = dp, rows\ndp = 2\nrows = 3\n",
             6);
}

/* Rotary embeddings and the gated unit overwrite their inputs. */
TEST(llama)
{
    static const char sizes[] =
        "[model]\nfamily = llama\nlayers = 2\nheads = 6\nkv_heads = 2\nembed = 36\nffn = 37\n"
        "context = 12\nvocab = 23\n[train]\nsequence = 7\nclip = 1\nbatch = 12\nmicrobatch = 2\n";
    char text[512];
    walk_all(sizes, 1);
    snprintf(text, sizeof text, "%sbucket_mb = 0.004\n[parallel]\nstrategy = dp\n", sizes);
    walk_all(text, 3);
}

/* Blocks with different shard levels, and unsharded ones, in one model. */
TEST(some_in_slices)
{
    walk_all(TINY "batch = 12\nmicrobatch = 2\n[parallel]\nstrategy = dp\n[optim]\nplacement = "
                  "turns\n[model]\ntied = off\n",
             3);
    walk_all(TINY
             "batch = 12\nmicrobatch = 2\nprecision = fp32\n[parallel]\nstrategy = dp\n[optim]\n"
             "placement = turns\n",
             2);
}

/* Dropout draws again in backward, may overwrite its input, and reads an input without tokens. */
TEST(dropout)
{
    static const char *const families[] = {"", "family = llama\n"};
    static const char *const jobs[] = {
        "batch = 12\nmicrobatch = 2\n[parallel]\nstrategy = dp\n",
        "batch = 12\nmicrobatch = 2\nrecompute = block\nprecision = fp32\n[parallel]\n"
        "strategy = dp\n[optim]\nplacement = zero3\n",
        "batch = 12\nmicrobatch = 2\nrecompute = selective\naccumulate = compute\n[parallel]\n"
        "strategy = dp\n[optim]\nplacement = zero1\n",
        "batch = 12\nmicrobatch = 1\n[parallel]\nstrategy = dp, rows\ndp = 2\nrows = 3\n"};
    for (uint32_t f = 0; f < 2; f++)
        for (uint32_t k = 0; k < 4; k++) {
            char text[1024];
            snprintf(text, sizeof text,
                     "[model]\n%slayers = 2\nheads = 3\nembed = 18\nffn = 37\ncontext = 12\n"
                     "vocab = 23\ndropout = 0.1\n[train]\nsequence = 7\nclip = 1\n%s",
                     families[f], jobs[k]);
            walk_all(text, k == 3 ? 6 : 3);
        }
}

#define IN_SLICES(placement) "[optim]\nplacement = zero" placement "\n"

TEST(in_slices)
{
    static const char *const placements[] = {IN_SLICES("1"), IN_SLICES("2"), IN_SLICES("3"),
                                             IN_SLICES("3\nprefetch = 0"),
                                             IN_SLICES("3\nprefetch = 4")};
    static const char *const jobs[] = {
        "batch = 4\nmicrobatch = 2\n[parallel]\nstrategy = dp\n",
        "batch = 12\nmicrobatch = 2\nbucket_mb = 0.002\n[parallel]\nstrategy = dp\n",
        "batch = 12\nmicrobatch = 2\nprecision = fp32\n[parallel]\nstrategy = dp\n[model]\n"
        "tied = off\n",
        "batch = 12\nmicrobatch = 2\naccumulate = compute\nrecompute = block\n[parallel]\n"
        "strategy = dp\n[comm]\nalgorithm = ring\n",
        "batch = 12\nmicrobatch = 2\nbucket_mb = 0.002\n[parallel]\nstrategy = dp\n[comm]\n"
        "compress = int8\n"};
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t k = 0; k < 5; k++) {
            char text[1024];
            snprintf(text, sizeof text, "%s%s%s", TINY, jobs[k], placements[i]);
            walk_all(text, k == 0 ? 2 : 3);
        }
}

/* Sharded over one of two data-parallel axes: gradients of slices are summed over the other. */
TEST(in_slices_over_one_axis)
{
#define TWO_AXES TINY "batch = 24\nmicrobatch = 2\nbucket_mb = 0.004\n[parallel]\n"
    walk_all(TWO_AXES "strategy = dp, rows\ndp = 2\nrows = 3\n" IN_SLICES("1"), 6);
    walk_all(TWO_AXES "strategy = dp, rows\ndp = 2\nrows = 3\n" IN_SLICES("2"), 6);
    walk_all(TWO_AXES
             "strategy = dp, rows\ndp = 2\nrows = 3\n[comm]\ncompress = fp16\n" IN_SLICES("2"),
             6);
    walk_all(TWO_AXES "strategy = rows, dp\ndp = 3\nrows = 2\n" IN_SLICES("3"), 6);
}

/* Jobs of random sizes. */
TEST(drawn)
{
    static const char *const placements[] = {"none", "zero1", "zero2", "zero3"};
    for (uint64_t i = 0; i < 80; i++) {
        uint64_t n = 0, r[13];
        for (; n < 13; n++)
            r[n] = rng_below(17, i * 13 + n, 1000);
        uint32_t ranks = (uint32_t)(1 + r[0] % 5), micro = (uint32_t)(1 + r[1] % 3);
        uint32_t heads = (uint32_t)(1 + r[2] % 4), passes = (uint32_t)(1 + r[3] % 4);
        char text[1024];
        snprintf(
            text, sizeof text,
            "[model]\nlayers = %u\nheads = %u\nembed = %u\nffn = %u\ncontext = 16\nvocab = %u\n"
            "tied = %s\ndropout = %s\n[train]\nsequence = %u\nbatch = %u\nmicrobatch = "
            "%u\nprecision = %s\n"
            "accumulate = %s\nbucket_mb = %g\n[parallel]\nstrategy = %s\n[optim]\nrule = %s\n"
            "placement = %s\n[comm]\nalgorithm = %s\n",
            (unsigned)(1 + r[4] % 4), heads, heads * (unsigned)(1 + r[5] % 9),
            (unsigned)(1 + r[6] % 70), (unsigned)(2 + r[7] % 90), r[8] % 2 ? "on" : "off",
            r[8] % 3 ? "0" : "0.2", (unsigned)(1 + r[9] % 16), ranks * micro * passes, micro,
            r[10] % 2 ? "fp32" : "bf16", r[10] % 3 ? "fp32" : "compute", r[11] % 2 ? 0.001 : 0.02,
            ranks > 1 ? "dp" : "none", r[11] % 3 ? "adamw" : "sgd",
            placements[ranks > 1 ? r[12] % 4 : 0], r[11] % 5 ? "auto" : "ring");
        walk_all(text, ranks);
    }
}

/* The plan queries the requirements of some ranks of a large group; the others must not need
 * more. */
TEST(capacity_for_every_rank)
{
    static const struct {
        uint32_t size[6], machines;
    } groups[] = {{{3, 8, 5, 8}, 4}, {{1, 1, 9, 1, 14}, 5}, {{12, 2, 2, 2, 7, 2}, 6}, {{19}, 1}};
    static const char *const algorithms[] = {"auto", "hierarchical", "ring", "double_tree"};
    const uint32_t names = sizeof algorithms / sizeof *algorithms;
    for (uint32_t i = 0; i < 3 * names * sizeof groups / sizeof *groups; i++) {
        const uint32_t g = i / 3 / names;
        const char *algorithm = algorithms[i / 3 % names];
        const bool levels = !strcmp(algorithm, "hierarchical");
        char text[600];
        planned j;
        uint32_t ranks = 0;
        for (uint32_t m = 0; m < groups[g].machines; m++)
            ranks += groups[g].size[m];
        snprintf(text, sizeof text,
                 TINY "batch = %u\nmicrobatch = 1\nbucket_mb = 0.002\n[parallel]\nstrategy = dp\n"
                      "[optim]\nplacement = zero%u\n[comm]\nalgorithm = all_reduce=%s, "
                      "reduce_scatter=%s, all_gather=%s\n",
                 ranks, 1 + i % 3, algorithm, levels ? "hierarchical" : "ring",
                 levels ? "hierarchical" : "auto");
        if (planned_at(text, groups[g].size, groups[g].machines, &j) != WEFT_OK)
            fail_msg("%s", err_text());
        const plan *p = j.plan;
        assert_true(p->collectives.n > 3);
        for (uint32_t k = 0; k < p->collectives.n; k++)
            for (uint32_t me = 0; me < ranks; me++) {
                sched_request r;
                sched_schedule *s;
                plan_request(p, &p->collectives.at[k], me, &r);
                assert_int_equal(sched_make(&r, &s), WEFT_OK);
                if (s->scratch > p->collectives.at[k].scratch_bytes)
                    fail_msg("rank %u needs %llu bytes for %s and has %llu; machines %u, %s", me,
                             (unsigned long long)s->scratch, p->collectives.at[k].name,
                             (unsigned long long)p->collectives.at[k].scratch_bytes, g,
                             s->r.algorithm);
                sched_free(s);
            }
        planned_free(&j);
    }
}
