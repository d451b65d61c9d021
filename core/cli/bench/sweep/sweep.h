/* cli/bench/sweep/sweep.h: weft bench SWEEP.ini: one job in many combinations of keys.
 *
 * input.c reads the lists of [sweep] and makes the rows, execute.c runs a row in child processes,
 * results.c computes numbers from the files of its runs, table.c prints them, bench_sweep.c calls
 * these in order. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include "base/mem.h"
#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

#define SWEEP_AXES 16
#define SWEEP_ROWS 4096
#define SWEEP_RANKS "ranks" /* the axis that is no key of the job */

typedef struct sweep_axis {
    const char *key, *head; /* "parallel.tp"; what stands over its column */
    const char *where;      /* of its list: "sweep.ini:12" */
    const char **value;
    uint32_t n;
} sweep_axis;

/* The result of planning a row, from a child process. */
typedef struct sweep_plan {
    int32_t status; /* weft_status */
    uint32_t ranks, exact;
    uint64_t sent, peak; /* bytes of rank 0, a step on average; of the rank with the most */
    char why[2048];
} sweep_plan;

/* The measured steps of one run. */
typedef struct sweep_sample {
    double tokens, mfu_ms; /* sums over the steps */
    double step_ms, compute_ms, exposed_ms, bubble_ms, optimizer_ms;
    uint64_t steps, sent, peak;
} sweep_sample;

#define SWEEP_WAITS 0
#define SWEEP_DONE 1
#define SWEEP_SKIPPED 2 /* an invalid combination, or not possible here */
#define SWEEP_FAILED 3

typedef struct sweep_row {
    const char *value[SWEEP_AXES]; /* [axis] */
    uint32_t status, number;
    const char *why; /* skipped or failed */
    sweep_plan plan;
    sweep_sample *sample; /* [repeat] */
    uint32_t samples;
    uint32_t reference; /* index into sweep.references */
    double *loss;       /* [step] of the first repeat */
    double worst;       /* largest relative difference of a loss; < 0: nothing to compare with */
    uint32_t worst_step;
} sweep_row;

/* The reference job on one rank: shared by all rows that should give the same losses. */
typedef struct sweep_reference {
    const char *keys; /* "section.key=value" of what changes results, one a line */
    sweep_row row;
} sweep_reference;

typedef struct sweep {
    pool pool;
    config *cfg; /* the file as written, overrides included */
    const char *ini, *out;
    uint32_t ranks; /* 0: not given on the command line */
    sweep_axis axis[SWEEP_AXES];
    uint32_t naxes, left_out; /* left_out: combinations that only and skip removed */
    uint64_t steps, warmup, repeats, deadline;
    bool compare;
    VEC(sweep_row) rows;
    VEC(sweep_reference) references;
} sweep;

/* Read [sweep] and make the rows. Free with cli_sweep_free() also after a failure. */
weft_status cli_sweep_read(sweep *s, const char *ini, const char *const *overrides, uint32_t n);
void cli_sweep_free(sweep *s);
void cli_sweep_print_keys(FILE *to); /* the keys of [sweep], in Markdown */

/* The value of an axis, NULL when there is none of that key. */
const char *cli_sweep_value(const sweep *s, const sweep_row *r, const char *key);

/* The job of a row, without [sweep]; `alone`: on one rank, with nothing that shares work. `folder`
 * becomes run.out. The caller frees it with config_destroy(). */
weft_status cli_sweep_job(const sweep *s, const sweep_row *r, bool alone, const char *folder,
                          config **out);

/* Plan the row in a child process; a plugin that crashes costs the row only. */
void cli_sweep_plan_row(const sweep *s, sweep_row *r, bool alone);

/* Train in a child process, once. `tick` is called some times a second. Puts status and why. */
typedef struct sweep_try {
    const char *folder; /* of this run */
    bool alone;
    uint32_t repeat;
    void (*tick)(void *ctx);
    void *ctx;
    volatile int *stop; /* not 0: end the run */
} sweep_try;
void cli_sweep_run(sweep *s, sweep_row *r, const sweep_try *t);

/* Numbers of OUT/metrics.jsonl into the row; false when there are not enough. */
bool cli_sweep_measure(sweep *s, sweep_row *r, const sweep_try *t);

/* Compare the losses with those of the reference. */
void cli_sweep_compare(sweep *s, sweep_row *r, const sweep_row *one);
double cli_sweep_bound(const sweep_row *r);

typedef struct sweep_rate {
    double median, least, most; /* tokens a second of the repeats */
} sweep_rate;
sweep_rate cli_sweep_rate_of(const sweep_row *r);
sweep_sample cli_sweep_mean(const sweep_row *r); /* times a step; mfu_ms is then the MFU itself */

const char *cli_sweep_status(const sweep_row *r);
const char *cli_sweep_label(sweep *s, const sweep_row *r); /* "tp=2 placement=zero1", for a line */
void cli_sweep_print(sweep *s);
weft_status cli_sweep_write(sweep *s); /* OUT/sweep.csv and OUT/sweep.json */

#endif
