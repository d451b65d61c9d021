/* bench/sweep/noise.h: how far rates of repeated runs can be told apart.
 *
 * A row is a combination with the rates of its runs; its value is their median. Runs of a row
 * scatter, and a few runs say little about how much, so the relative deviations from the median are
 * pooled over rows of one group (the same number of ranks), and over all rows where a group has few
 * of them. A row that scatters twice as much as its group keeps its own. The deviation of a median
 * of n runs is found by drawing from the pool (a bootstrap with a fixed seed, so that equal files
 * give equal tables), with the correction of Student's t for few runs.
 *
 * Two rows are told apart if their medians differ by more than the range that as many equal rows
 * would show in 19 of 20 sweeps: the largest of many differences is large without any cause. */
#ifndef BENCH_SWEEP_NOISE_H
#define BENCH_SWEEP_NOISE_H

#include <stdbool.h>
#include <stdint.h>

#define NOISE_Z 1.959963985 /* 95 % of a normal distribution, both sides */

typedef struct bench_noise_row {
    const double *rate; /* [n] of its runs, above 0 */
    uint32_t n, group;
    double median;    /* found by bench_noise_find() */
    double run;       /* relative deviation of one run; NAN: unknown, no row was run twice */
    double deviation; /* of the median; NAN likewise */
} bench_noise_row;

/* Finds the deviations, and returns the range of the medians of `n` equal rows in units of their
 * deviation. [any] */
double bench_noise_find(bench_noise_row *rows, uint32_t n);

/* a's median / b's, with its bounds at 95 %; these are NAN if unknown. [any] */
double bench_noise_ratio(const bench_noise_row *a, const bench_noise_row *b, double *low,
                         double *high);

/* Whether the medians differ by more than chance, `range` from bench_noise_find(). False if
 * unknown.
 */
bool bench_noise_apart(const bench_noise_row *a, const bench_noise_row *b, double range);

double bench_noise_median(double *v, uint32_t n); /* sorts v; n > 0 */

#endif
