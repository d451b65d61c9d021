/* bench/fit.h: costs from measurements. */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

#include "schedule/algorithm.h"

/* What was done, in terms of the model (cost.c), and what it took. */
typedef struct bench_fit_point {
    sched_way way;
    double seconds; /* > 0 */
} bench_fit_point;

/* The fitted speed of all points, with non-negative costs. */
sched_speed bench_fit_speed(const bench_fit_point *p, uint32_t n);

/* Seconds a byte of points whose rounds and messages take what `s` says; never below zero. */
double bench_fit_bytes(const bench_fit_point *p, uint32_t n, const sched_speed *s);

double bench_fit_median(double *v, uint32_t n); /* sorts v; n > 0 */

#endif
