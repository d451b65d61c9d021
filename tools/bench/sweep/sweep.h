/* bench/sweep/sweep.h: weft bench SWEEP.ini: one job in many combinations of keys.
 *
 * keys.c and lists.c read [sweep], input.c makes the rows, execute.c plans a row and runs it
 * in child processes, results.c computes numbers from the files of its runs, ledger.c keeps which
 * runs are done, rank.c compares rows (noise.h), table.c prints them and files.c writes them,
 * bench_sweep.c calls these in order. */
#ifndef BENCH_SWEEP_SWEEP_H
#define BENCH_SWEEP_SWEEP_H

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "config/config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SWEEP_AXES 16
#define SWEEP_COLUMNS 48
#define SWEEP_ROWS 4096
#define SWEEP_RANKS "ranks" /* the column that is no key of the job */

/* A key that rows set. */
typedef struct bench_sweep_column {
    const char *key, *head; /* "parallel.tp"; what stands over it */
    uint32_t axis;          /* the list that sets it */
    bool varies;            /* rows differ in it */
} bench_sweep_column;

/* A list: of values of one key, or of bundles, which set several. */
typedef struct bench_sweep_axis {
    const char *name, *text, *where;      /* where: "sweep.ini:12" */
    const char *(*choice)[SWEEP_COLUMNS]; /* [n]; NULL: the choice does not set the column */
    uint32_t n;
} bench_sweep_axis;

/* The result of planning a row, from a child process. */
typedef struct bench_sweep_plan {
    int32_t status; /* weft_status */
    uint32_t ranks, exact;
    uint32_t threads;    /* that the job names for a rank; 0: it does not */
    uint64_t sent, peak; /* bytes of rank 0, a step on average; of the rank with the most */
    uint64_t identity;   /* equal: the same job */
    uint64_t binding;    /* bit i: column i is a key that changes results */
    double flops;        /* of all ranks in a step */
    double flops_first;  /* of rank 0 */
    uint32_t compute;    /* element type of products */
    uint64_t device;     /* equal: the same settings of the device */
    double bubble;       /* share of the pipeline's schedule */
    uint32_t former;     /* 1: the job has words of an earlier version */
    char why[2048];
} bench_sweep_plan;

/* A part of a step: compute, exposed communication, bubble, optimizer. */
#define SWEEP_PARTS 4
#define SWEEP_BUBBLE 2
typedef struct bench_sweep_part {
    double mean, most; /* of all ranks; of the rank where it is longest */
} bench_sweep_part;
extern const char *const bench_sweep_parts[SWEEP_PARTS]; /* "compute_ms": names of the metrics */

/* The measured steps of one run. */
typedef struct bench_sweep_sample {
    double tokens, mfu_ms, step_ms;     /* sums over the steps */
    bench_sweep_part part[SWEEP_PARTS]; /* shares of a step; the means add up to 1 */
    uint64_t steps, sent, peak;
} bench_sweep_sample;

#define SWEEP_WAITS 0
#define SWEEP_DONE 1
#define SWEEP_SKIPPED 2 /* an invalid combination, or not possible here */
#define SWEEP_FAILED 3
#define SWEEP_SAME 4 /* the same job as an earlier row */

/* How a row that has run compares with the others. */
typedef struct bench_sweep_standing {
    uint32_t rank;             /* 1: the fastest, and those that cannot be told from it; 0: none */
    double low, high;          /* of tokens a second, 95 %; NAN: unknown */
    double ratio, rlow, rhigh; /* to the baseline; NAN: there is none */
    double efficiency;         /* NAN: nothing to compare with */
} bench_sweep_standing;

typedef struct bench_sweep_row {
    const char *value[SWEEP_COLUMNS]; /* [column]; NULL: not set */
    uint32_t status, number;
    const char *why; /* skipped, failed or the same */
    bench_sweep_plan plan;
    bench_sweep_sample *sample; /* [repeat] */
    uint32_t samples;
    uint32_t same;      /* SWEEP_SAME: index of the row that runs */
    uint32_t reference; /* index into sweep.references */
    double *loss;       /* [step] of the first repeat */
    double worst;       /* largest relative difference of a loss; < 0: nothing to compare with */
    uint32_t worst_step;
    double norm;        /* of the gradients in the first step; NAN: unknown */
    double norm_apart;  /* its relative difference */
    uint32_t pinned;    /* ranks that were bound to cores, in the worst of its runs; and whether */
    bool looked;        /* the runs of this process were looked at */
    double other_cores; /* cores that other processes kept busy, in the worst of its runs */
    uint64_t resident;  /* bytes of memory of its largest process */
    double peak_flops;  /* of a rank in a second; 0: unknown */
    bench_sweep_standing standing;
} bench_sweep_row;

/* The reference job on one rank: shared by all rows that should give the same losses. */
typedef struct bench_sweep_reference {
    const char *keys; /* "section.key=value" of what changes results, one a line */
    bench_sweep_row row;
} bench_sweep_reference;

typedef struct bench_sweep {
    pool pool;
    config *cfg; /* the file as written, overrides included */
    const char *ini, *out;
    uint32_t ranks; /* 0: not given on the command line */
    bench_sweep_axis axis[SWEEP_AXES];
    bench_sweep_column column[SWEEP_COLUMNS];
    uint32_t naxes, ncolumns, left_out; /* left_out: combinations that only and skip removed */
    uint64_t steps, warmup, repeats, deadline;
    bool compare;
    VEC(bench_sweep_row) rows;
    VEC(bench_sweep_reference) references;
    int32_t baseline; /* index of the row; -1: none */
    double noise;     /* relative deviation of a run, the median over rows; NAN: unknown */
    json_t *began;    /* the environment at the begin (environment.c) */
    uint32_t goings;  /* how often the sweep has gone on after an interruption */
    bool finished;    /* OUT has all of its runs */
    bool stopped;     /* by a signal; the same command goes on */
    bool former;      /* a row's warning has named words of an earlier version */
    int ledger;       /* descriptor of OUT/runs.jsonl; 0: none */
} bench_sweep;

/* lists.c: the lists of [sweep] and -n; then columns and choices. */
weft_status bench_sweep_take(bench_sweep *s, const config_line *e);
weft_status bench_sweep_take_list(bench_sweep *s, const char *name, const char *text,
                                  const char *where);
weft_status bench_sweep_parse_lists(bench_sweep *s);

/* input.c: read [sweep] and make the rows. Free with bench_sweep_free() also after a failure. */
weft_status bench_sweep_read(bench_sweep *s, const char *ini, const char *const *overrides,
                             uint32_t n);
void bench_sweep_free(bench_sweep *s);

/* keys.c: the keys of [sweep] that are no lists. */
void bench_sweep_print_keys(FILE *to); /* in Markdown */
bool bench_sweep_is_own(const char *key);
const char *bench_sweep_own_text(const bench_sweep *s,
                                 const char *key); /* as given, or the default */
weft_status bench_sweep_unknown(const char *where, const char *key);

/* rules.c: whether a row fits one of the alternatives of the key ("only", with text `rule`). */
weft_status bench_sweep_fits(const bench_sweep *s, const char *key, const char *rule,
                             const bench_sweep_row *r, bool *out);

/* The value that the row sets for a key, NULL: none. */
const char *bench_sweep_value(const bench_sweep *s, const bench_sweep_row *r, const char *key);

/* The job of a row, without [sweep]; `alone`: of one that has been planned, on one rank, with
 * nothing that shares work and of the row's keys only those that change results. `folder` becomes
 * run.out. The caller frees it with config_destroy(). */
weft_status bench_sweep_job(const bench_sweep *s, const bench_sweep_row *r, bool alone,
                            const char *folder, config **out);

/* Plan the row in a child process; a plugin that crashes costs the row only. */
void bench_sweep_plan_row(const bench_sweep *s, bench_sweep_row *r, bool alone);

/* Train in a child process, once. `tick` is called some times a second. Puts status and why. */
typedef struct bench_sweep_try {
    const char *folder; /* of this run */
    bool alone;
    uint32_t repeat;
    void (*tick)(void *ctx);
    void *ctx;
    volatile int *stop; /* not 0: end the run */
} bench_sweep_try;
void bench_sweep_run(bench_sweep *s, bench_sweep_row *r, const bench_sweep_try *t);

/* Numbers of OUT/metrics.jsonl into the row; false when there are not enough. */
bool bench_sweep_measure(bench_sweep *s, bench_sweep_row *r, const bench_sweep_try *t);

/* Compare the losses with those of the reference. */
void bench_sweep_compare(bench_sweep *s, bench_sweep_row *r, const bench_sweep_row *one);
#define SWEEP_LOSS_UNKNOWN 0u
#define SWEEP_LOSS_AGREES 1u
#define SWEEP_LOSS_ROUNDING 2u /* 16-bit types alone (results.c) */
#define SWEEP_LOSS_DIFFERS 3u
uint32_t
bench_sweep_loss(const bench_sweep_row *r); /* whether a row's losses are those of one rank */
double bench_sweep_bound(const bench_sweep_row *r);

typedef struct bench_sweep_rate {
    double median, least, max; /* tokens a second of the repeats */
} bench_sweep_rate;
bench_sweep_rate bench_sweep_rate_of(const bench_sweep_row *r);
double bench_sweep_run_rate(const bench_sweep_row *r, uint32_t repeat);
/* Of the run with the median rate, a step; mfu_ms is then the MFU itself, parts are in ms. */
bench_sweep_sample bench_sweep_typical(const bench_sweep_row *r);
/* The peak of the device in a row, from the runs that are there; 0: unknown. */
double bench_sweep_peak(const bench_sweep *s, const bench_sweep_row *r);
/* Sets peak_flops of all rows. */
void bench_sweep_find_peaks(bench_sweep *s);

/* ledger.c: OUT/runs.jsonl has a line for each run that has ended. open() reads what an interrupted
 * or finished (sweep.finished) sweep of the same jobs has left, or begins anew; note() adds a run;
 * complete() says that all are done. `fresh`: never go on. The folder is locked by the caller's
 * `lock`. */
struct run_outlock;
weft_status bench_sweep_ledger_open(bench_sweep *s, bool fresh, struct run_outlock *lock,
                                    uint64_t *done);
weft_status bench_sweep_ledger_note(bench_sweep *s, const bench_sweep_row *r,
                                    const bench_sweep_try *t);
weft_status bench_sweep_ledger_complete(bench_sweep *s);
const char *bench_sweep_folder(bench_sweep *s, uint32_t number, uint32_t repeat, bool alone);
bool bench_sweep_has_run(const bench_sweep *s, const bench_sweep_row *r, uint32_t repeat);

/* rank.c: ranks, ratios and efficiency of all rows, from their runs. */
void bench_sweep_rank_rows(bench_sweep *s);

/* environment.c: seconds that the usable processors were busy since the system began; < 0: unknown.
 * How many of a process and those below it may use a part of the usable processors only. */
double bench_sweep_busy_seconds(void);
uint32_t bench_sweep_bound_processes(pid_t first);

const char *bench_sweep_status(const bench_sweep_row *r);
const char *bench_sweep_label(bench_sweep *s,
                              const bench_sweep_row *r); /* "tp=2 placement=zero1", for a line */
void bench_sweep_print(bench_sweep *s);
void bench_sweep_print_plan(bench_sweep *s);

/* Sentences about what makes the numbers doubtful; NULL after the last. */
const char *bench_sweep_warning(bench_sweep *s, uint32_t i);
bool bench_sweep_is_pinned(const bench_sweep_row *r); /* all of its ranks were bound to cores */
bool bench_sweep_is_oversubscribed(
    const bench_sweep_row *r); /* it starts more ranks than there are cores */

/* files.c: OUT/sweep.csv and OUT/sweep.json, each whole or as before. */
weft_status bench_sweep_write(bench_sweep *s);
json_t *bench_sweep_json(bench_sweep *s); /* the caller frees it with json_decref() */

/* compare.c: weft bench compare A B. Returns the exit status. */
int bench_sweep_compare_main(const cli_command *of, int argc, char **argv);

#endif
