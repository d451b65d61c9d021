/* bench_sweep_test.c: a sweep's judgements, from metrics written here: medians, parts of a step,
 * and losses held against a reference. */
#include "bench/sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <test.h>

static char folder[] = "/tmp/weft-sweep-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[256];
    (void)state;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    unlink(path);
    return rmdir(folder);
}

/* Steps of `ms` milliseconds, losses 4, 3, 2, 1; the loss of step `at` is off by the share `by`. */
static void write_steps(uint32_t n, double ms, uint32_t at, double by)
{
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (uint32_t i = 1; i <= n; i++) {
        double step = i == 1 ? 1000 : ms; /* the first is the warm-up */
        fprintf(f,
                "{\"step\":%u,\"loss\":%.9g,\"tokens\":100,\"step_ms\":%g,\"mfu\":%g,"
                "\"compute_ms\":%g,\"exposed_comm_ms\":%g,\"bubble_ms\":%g,\"optimizer_ms\":%g,"
                "\"comm_bytes\":77,\"peak_bytes\":88}\n",
                i, (5.0 - i) * (i == at ? 1 + by : 1), step, 0.5, step / 2, step / 4, step / 8,
                step / 8);
    }
    fclose(f);
}

static bool take(bench_sweep *s, bench_sweep_row *r, uint32_t repeat)
{
    static volatile int stop;
    const bench_sweep_try t = {.folder = folder, .repeat = repeat, .stop = &stop};
    return bench_sweep_measure(s, r, &t);
}

static void release(bench_sweep *s, bench_sweep_row *r)
{
    free(r->sample);
    free(r->loss);
    pool_free(&s->pool);
}

TEST(the_middle_of_the_runs)
{
    bench_sweep s = {.warmup = 1, .steps = 3, .repeats = 3};
    bench_sweep_row r = {.status = SWEEP_DONE};
    static const double ms[] = {10, 40, 20};
    for (uint32_t i = 0; i < 3; i++) {
        write_steps(4, ms[i], 0, 0);
        assert_true(take(&s, &r, i));
    }
    const bench_sweep_rate rate = bench_sweep_rate_of(&r);
    assert_float_equal(rate.median, 5000, 1e-6);
    assert_float_equal(rate.least, 2500, 1e-6);
    assert_float_equal(rate.max, 10000, 1e-6);
    r.peak_flops = 1e9;
    r.plan.flops_first = 1e7;
    const bench_sweep_sample m = bench_sweep_typical(&r);
    assert_float_equal(m.step_ms, 20, 1e-6);
    static const double parts[SWEEP_PARTS] = {10, 5, 2.5, 2.5};
    for (uint32_t p = 0; p < SWEEP_PARTS; p++) {
        assert_float_equal(m.part[p].mean, parts[p], 1e-6);
        assert_float_equal(m.part[p].most, parts[p], 1e-6); /* one rank */
    }
    assert_float_equal(m.mfu_ms, 0.5, 1e-6);
    assert_int_equal(m.sent, 77);
    assert_int_equal(m.peak, 88);
    release(&s, &r);
}

/* A pipeline of two ranks: rank 0 has the bubble, rank 1 computes. Exchanges follow steps 1, 2 and
 * 4; where no measured step has one, that of the warm-up counts. */
TEST(parts_of_all_ranks)
{
    static const struct {
        uint64_t warmup, steps;
        double mean[SWEEP_PARTS], most[SWEEP_PARTS];
    } cases[] = {{2, 2, {6, 1, 2, 1}, {8, 2, 4, 2}},
                 {1, 3, {5, 1, 3, 1}, {7, 2, 5, 2}},
                 {2, 1, {3, 1, 5, 1}, {5, 2, 7, 2}}};
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (uint32_t i = 1; i <= 4; i++) {
        fprintf(f,
                "{\"step\":%u,\"loss\":1,\"tokens\":100,\"step_ms\":10,\"compute_ms\":2,"
                "\"exposed_comm_ms\":0,\"bubble_ms\":8,\"optimizer_ms\":0",
                i);
        const double late = i == 4 ? 3 : 0;
        if (i != 3)
            fprintf(f,
                    ",\"ranks.steps\":%u,\"ranks.compute_ms.mean\":%g,\"ranks.compute_ms.max\":%g,"
                    "\"ranks.exposed_comm_ms.mean\":1,\"ranks.exposed_comm_ms.max\":2,"
                    "\"ranks.bubble_ms.mean\":%g,\"ranks.bubble_ms.max\":%g,"
                    "\"ranks.optimizer_ms.mean\":1,\"ranks.optimizer_ms.max\":2",
                    i == 4 ? 2 : 1, 3 + late, 5 + late, 5 - late, 7 - late);
        fputs("}\n", f);
    }
    fclose(f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench_sweep s = {.warmup = cases[i].warmup, .steps = cases[i].steps, .repeats = 1};
        bench_sweep_row r = {.status = SWEEP_DONE};
        assert_true(take(&s, &r, 0));
        const bench_sweep_sample m = bench_sweep_typical(&r);
        for (uint32_t p = 0; p < SWEEP_PARTS; p++) {
            assert_float_equal(m.part[p].mean, cases[i].mean[p], 1e-6);
            assert_float_equal(m.part[p].most, cases[i].most[p], 1e-6);
        }
        release(&s, &r);
    }
}

/* A sweep of rows with so many ranks and rates. */
static void make_rows(bench_sweep *s, bench_sweep_sample *samples, const double (*is)[2],
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        samples[i] = (bench_sweep_sample){.steps = 1, .step_ms = 1000, .tokens = is[i][1]};
        *vec_push(&s->rows) = (bench_sweep_row){.status = SWEEP_DONE,
                                                .number = i + 1,
                                                .samples = 1,
                                                .sample = &samples[i],
                                                .plan = {.ranks = (uint32_t)is[i][0]}};
    }
}

/* No row has one rank: the reference on one rank, which is no combination, does not count. */
TEST(scaling_without_one_rank)
{
    static const double is[][2] = {{4, 1800}, {2, 900}, {2, 1000}};
    static const double efficiency[] = {0.9, 0.9, 1};
    bench_sweep_sample samples[3], one = {.steps = 1, .step_ms = 1000, .tokens = 2000};
    bench_sweep s = {.repeats = 1, .baseline = -1};
    make_rows(&s, samples, is, 3);
    *vec_push(&s.references) = (bench_sweep_reference){
        .row = {.status = SWEEP_DONE, .samples = 1, .sample = &one, .plan = {.ranks = 1}}};
    bench_sweep_rank_rows(&s);
    for (uint32_t i = 0; i < 3; i++)
        assert_float_equal(s.rows.at[i].standing.efficiency, efficiency[i], 1e-9);
    free(s.rows.at);
    free(s.references.at);
}

/* Does the only warning have these words? NULL: there is none. */
static void warns(bench_sweep *s, const char *words)
{
    const char *text = bench_sweep_warning(s, 0);
    if (!words) {
        assert_null(text);
        return;
    }
    assert_non_null(text);
    assert_non_null(strstr(text, words));
    assert_null(bench_sweep_warning(s, 1));
}

TEST(warnings)
{
    static const double is[][2] = {{1, 900}, {1, 900}};
    bench_sweep_sample samples[2];
    bench_sweep s = {.repeats = 3, .noise = 0.01};
    make_rows(&s, samples, is, 2);
    bench_sweep_row *r = s.rows.at;
    r[0].worst = r[1].worst = -1;
    warns(&s, NULL);
    r[1].plan.ranks = cli_cpus() + 1;
    warns(&s, "combinations 2 have more ranks, or threads of them, than the");
    r[1].plan.ranks = 1;
    r[1].plan.threads = cli_cpus() + 1;
    warns(&s, "combinations 2 have more ranks, or threads of them, than the");
    r[1].plan.threads = 1;
    r[1].other_cores = 0.9 * cli_cpus();
    warns(&s, "processors busy during runs of combinations 2: measure again");
    r[1].other_cores = 0;
    if (cli_cpus() > 1) { /* the ranks of one row were bound to cores */
        r[0].plan.ranks = r[1].plan.ranks = 2;
        r[0].looked = r[1].looked = true;
        warns(&s, NULL);
        r[0].pinned = 2;
        warns(&s, "ranks of combinations 2 were not bound to cores, those of others were");
        r[1].pinned = 2;
    }
    r[1].worst = 2e-2;
    r[1].worst_step = 2;
    warns(&s, "losses of combinations 2 leave those of one rank after a step that agrees");
    r[1].worst = -1;
    s.noise = 0.06;
    warns(&s, "runs of one combination scatter by 6 %");
    s.noise = NAN;
    warns(&s, NULL);
    s.repeats = 1;
    warns(&s, "each combination has one run: how far numbers scatter is unknown");
    pool_free(&s.pool);
    free(s.rows.at);
}

/* A peak that was timed while something else ran is too low, and an MFU by it could exceed 1. */
TEST(one_peak_for_all)
{
    static bench_sweep_sample samples[3] = {{.steps = 2, .step_ms = 20, .mfu_ms = 2 * 10 * 1.25},
                                            {.steps = 2, .step_ms = 20, .mfu_ms = 2 * 10 * 0.5},
                                            {.steps = 2, .step_ms = 40, .mfu_ms = 2 * 20 * 0.5}};
    bench_sweep s = {.repeats = 2};
    for (uint32_t i = 0; i < 3; i++)
        samples[i].tokens = 200;
    *vec_push(&s.rows) = (bench_sweep_row){.samples = 2, .sample = samples, .plan = {.ranks = 2}};
    *vec_push(&s.rows) =
        (bench_sweep_row){.samples = 1, .sample = &samples[2], .plan = {.ranks = 2}};
    *vec_push(&s.rows) =
        (bench_sweep_row){.samples = 1, .sample = &samples[0], .plan = {.ranks = 4}};
    *vec_push(&s.rows) = (bench_sweep_row){.plan = {.ranks = 2, .device = 1}};
    for (uint32_t i = 0; i < 4; i++)
        s.rows.at[i].plan.flops_first = 1e7;
    bench_sweep_find_peaks(&s);
    assert_float_equal(s.rows.at[3].peak_flops, 0, 0);
    assert_float_equal(s.rows.at[0].peak_flops, 1e7 / 10e-3 / 0.5, 1);
    assert_float_equal(s.rows.at[1].peak_flops, s.rows.at[0].peak_flops, 1);
    assert_float_equal(s.rows.at[2].peak_flops, 1e7 / 10e-3 / 1.25, 1);
    assert_float_equal(bench_sweep_typical(&s.rows.at[0]).mfu_ms, 0.5, 1e-6);
    assert_float_equal(bench_sweep_typical(&s.rows.at[1]).mfu_ms, 0.25, 1e-6);
    free(s.rows.at);
}

TEST(a_run_that_is_cut_short)
{
    bench_sweep s = {.warmup = 1, .steps = 3, .repeats = 1};
    bench_sweep_row r = {0};
    write_steps(3, 10, 0, 0);
    assert_false(take(&s, &r, 0));
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *f = fopen(path, "a");
    fputs("{\"step\":4,\"loss\":", f);
    fclose(f);
    assert_false(take(&s, &r, 0));
    release(&s, &r);
}

enum { YES = SWEEP_LOSS_AGREES, ROUND = SWEEP_LOSS_ROUNDING, NO = SWEEP_LOSS_DIFFERS };

TEST(losses)
{
    static const struct {
        uint32_t at;
        double by, norm; /* the norm of step 1 is off by this share */
        uint32_t is[2];  /* fp32, bf16 */
    } cases[] = {
        {1, 0, 0, {YES, YES}},       {3, 0.9e-4, 0, {YES, YES}}, {4, -1.1e-4, 0, {NO, YES}},
        {1, 0.9e-2, 0, {NO, YES}}, /* the warm-up counts */
        {2, 1.1e-2, 0, {NO, ROUND}}, {2, NAN, 0, {NO, NO}},      {2, 4.9e-2, 0, {NO, ROUND}},
        {2, 5.1e-2, 0, {NO, NO}},    {1, 1.1e-2, 0, {NO, NO}}, /* what is wrong at once is no
                                                                  rounding */
        {1, 0, 1.1e-3, {NO, YES}},   {1, 0, -0.06, {NO, NO}},    {2, 1.1e-2, 0.06, {NO, NO}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench_sweep s = {.warmup = 1, .steps = 3, .repeats = 1};
        bench_sweep_row one = {.status = SWEEP_DONE}, r = {.status = SWEEP_DONE};
        write_steps(4, 10, 0, 0);
        assert_true(take(&s, &one, 0));
        write_steps(4, 10, cases[i].at, isnan(cases[i].by) ? 0 : cases[i].by);
        assert_true(take(&s, &r, 0));
        if (isnan(cases[i].by))
            r.loss[cases[i].at - 1] = NAN;
        bench_sweep_compare(&s, &r, &one);
        assert_true(cases[i].by == 0 || r.worst_step == cases[i].at);
        r.norm_apart = fabs(cases[i].norm);
        for (uint32_t k = 0; k < 2; k++) {
            r.plan.exact = !k;
            assert_int_equal(bench_sweep_loss(&r), cases[i].is[k]);
        }
        one.status = SWEEP_FAILED;
        bench_sweep_compare(&s, &r, &one);
        assert_int_equal(bench_sweep_loss(&r), SWEEP_LOSS_UNKNOWN); /* that is no agreement */
        free(one.sample);
        free(one.loss);
        release(&s, &r);
    }
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
