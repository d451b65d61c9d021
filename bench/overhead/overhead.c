/* bench/overhead/overhead.c: what the plan costs. Plans a job, then walks its step list over a
 * device whose kernels do nothing. Prints a JSON line.
 *
 *   overhead JOB.ini [section.key=value ...]      (device.plugin=null is added) */
#include "base/clock.h"
#include "base/err.h"
#include "run/exec/arena.h"
#include "run/exec/walk.h"
#include "run/prepare.h"

#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: overhead JOB.ini [section.key=value ...]\n"), 2;
    const char *overrides[64] = {"device.plugin=null"};
    uint32_t n = 1;
    for (int i = 2; i < argc && n < 64; i++)
        overrides[n++] = argv[i];
    run_prepared j;
    run_executor e = {0};
    job_identity alone = {.ranks = 1, .local_ranks = 1};
    uint64_t began = clock_ns();
    config *cfg = NULL;
    weft_status st = config_load(argv[1], overrides, n, &cfg);
    if (st != WEFT_OK)
        return 1;
    st = run_prepare(cfg, 1, false, NULL, &j);
    double planned = (double)(clock_ns() - began) * 1e-6;
    if (st == WEFT_OK)
        st = run_exec_create(j.plans.at, &j.set, NULL, &alone, NULL, &e);
    enum { RUNS = 2001 };
    double *us = calloc(RUNS, sizeof *us);
    for (uint32_t i = 0; us && st == WEFT_OK && i < RUNS; i++) {
        uint64_t start = clock_ns();
        st = run_exec_list(&e, &j.plans.at->step);
        us[i] = (double)(clock_ns() - start) * 1e-3;
    }
    if (st != WEFT_OK)
        return fprintf(stderr, "%s\n", err_text()), 1;
    qsort(us, RUNS, sizeof *us, by_value);
    uint32_t instrs = 0;
    for (uint32_t i = 0; i < j.plans.at->step.entries.n; i++)
        if (j.plans.at->step.entries.at[i].kind == ENTRY_CALL)
            instrs += j.plans.at->segments.at[j.plans.at->step.entries.at[i].what].n;
    printf("{\"prepare_ms\":%.3f,\"entries\":%u,\"instructions\":%u,\"step_us_median\":%.3f,"
           "\"step_us_p99\":%.3f}\n",
           planned, j.plans.at->step.entries.n, instrs, us[RUNS / 2], us[RUNS * 99 / 100]);
    run_exec_destroy(&e, 0);
    run_unprepare(&j);
    free(us);
    return 0;
}
