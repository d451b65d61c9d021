/* cli/bench/fit.h: costs from measurements. */
#ifndef CLI_BENCH_FIT_H
#define CLI_BENCH_FIT_H

#include "schedule/algorithm.h"

/* What was done, in terms of the model (cost.c), and what it took. */
typedef struct cli_fit_point {
    sched_way way;
    double seconds; /* > 0 */
} cli_fit_point;

/* The fitted speed of all points, with non-negative costs. */
sched_speed cli_fit_speed(const cli_fit_point *p, uint32_t n);

/* Seconds a byte of points whose rounds and messages take what `s` says; never below zero. */
double cli_fit_bytes(const cli_fit_point *p, uint32_t n, const sched_speed *s);

double cli_fit_median(double *v, uint32_t n); /* sorts v; n > 0 */

#endif
