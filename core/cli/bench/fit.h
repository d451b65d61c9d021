/* cli/bench/fit.h: costs from measurements. */
#ifndef CLI_BENCH_FIT_H
#define CLI_BENCH_FIT_H

#include "schedule/algorithm.h"

/* What was done, in terms of the model (cost.c), and what it took. */
typedef struct fit_point {
    comm_way way;
    double seconds; /* > 0 */
} fit_point;

/* The speed with which the model gives the times of all points best, none of it negative. */
comm_speed fit_speed(const fit_point *p, uint32_t n);

/* Seconds a byte of points whose rounds and messages take what `s` says; never below zero. */
double fit_bytes(const fit_point *p, uint32_t n, const comm_speed *s);

double fit_median(double *v, uint32_t n); /* sorts v; n > 0 */

#endif
