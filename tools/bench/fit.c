/* bench/fit.c: least-squares fit of the three numbers of a sched_speed.
 *
 * Idea: the model is linear in them, so each point is an equation, and the fit minimizes the sum of
 * squared relative errors: each equation is divided by its time, or the longest messages would
 * dominate. Costs must not be negative; where the best solution has a negative one, the best
 * solution without it is used. With three numbers there are seven non-empty subsets of non-zero
 * numbers: all are tried, by the normal equations of each.
 *
 * Cost: a few hundred operations a point. It loses accuracy with many numbers, or with nearly
 * collinear columns; columns are normalized to length one first. */
#include "bench/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N 3

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_fit_median(double *v, uint32_t n)
{
    qsort(v, n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Row of a point: how much of each number it takes, by its time. */
static void row_of(const bench_fit_point *p, double out[N])
{
    const sched_way *w = &p->way;
    out[0] = w->rounds / p->seconds;
    out[1] = (w->messages > w->rounds ? w->messages - w->rounds : 0) / p->seconds;
    out[2] = (w->bytes + w->fill) / p->seconds;
}

/* Solves m x = y by elimination with pivoting; 0 when m is singular. Destroys m and y. */
static bool solve(double m[N][N], double y[N], uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t best = k;
        for (uint32_t i = k + 1; i < n; i++)
            best = fabs(m[i][k]) > fabs(m[best][k]) ? i : best;
        if (fabs(m[best][k]) < 1e-12)
            return false;
        for (uint32_t j = 0; j < n; j++) {
            double swap = m[k][j];
            m[k][j] = m[best][j];
            m[best][j] = swap;
        }
        double swap = y[k];
        y[k] = y[best];
        y[best] = swap;
        for (uint32_t i = 0; i < n; i++) {
            double f = i == k ? 0 : m[i][k] / m[k][k];
            for (uint32_t j = 0; j < n; j++)
                m[i][j] -= f * m[k][j];
            y[i] -= f * y[k];
        }
    }
    for (uint32_t k = 0; k < n; k++)
        y[k] /= m[k][k];
    return true;
}

/* The least-squares solution restricted to the columns of `mask`. */
static bool solve_some(const double m[N][N], const double y[N], uint32_t mask, double x[N])
{
    double part[N][N] = {{0}}, right[N] = {0};
    uint32_t of[N], n = 0;
    for (uint32_t i = 0; i < N; i++)
        if (mask >> i & 1)
            of[n++] = i;
    for (uint32_t i = 0; i < n; i++) {
        right[i] = y[of[i]];
        for (uint32_t j = 0; j < n; j++)
            part[i][j] = m[of[i]][of[j]];
    }
    memset(x, 0, N * sizeof *x);
    if (!solve(part, right, n))
        return false;
    for (uint32_t i = 0; i < n; i++)
        x[of[i]] = right[i];
    return x[0] >= 0 && x[1] >= 0 && x[2] >= 0;
}

sched_speed bench_fit_speed(const bench_fit_point *p, uint32_t n)
{
    double m[N][N] = {{0}}, y[N] = {0}, length[N] = {0}, row[N], x[N], best[N] = {0};
    double max = 0; /* what the solution takes from the sum of squares */
    for (uint32_t i = 0; i < n; i++) {
        row_of(&p[i], row);
        for (uint32_t j = 0; j < N; j++)
            length[j] += row[j] * row[j];
    }
    for (uint32_t j = 0; j < N; j++)
        length[j] = length[j] > 0 ? sqrt(length[j]) : 1;
    for (uint32_t i = 0; i < n; i++) {
        row_of(&p[i], row);
        for (uint32_t j = 0; j < N; j++) {
            for (uint32_t k = 0; k < N; k++)
                m[j][k] += row[j] * row[k] / (length[j] * length[k]);
            y[j] += row[j] / length[j];
        }
    }
    for (uint32_t mask = 1; mask < 1u << N; mask++) {
        if (!solve_some((const double(*)[N])m, y, mask, x))
            continue;
        double taken = x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
        if (taken > max) {
            max = taken;
            memcpy(best, x, sizeof best);
        }
    }
    return (sched_speed){best[0] / length[0], best[1] / length[1], best[2] / length[2]};
}

double bench_fit_bytes(const bench_fit_point *p, uint32_t n, const sched_speed *s)
{
    double above = 0, below = 0;
    for (uint32_t i = 0; i < n; i++) {
        double row[N];
        row_of(&p[i], row);
        double left = 1 - row[0] * s->latency - row[1] * s->message; /* of the point's time */
        above += row[2] * left;
        below += row[2] * row[2];
    }
    return above > 0 ? above / below : 0;
}
