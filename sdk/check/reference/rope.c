/* check/reference/rope.c: rotary positions. */
#include "check/reference/loops.h"
#include <math.h>
#include <string.h>

/* The wavelength of pair i in positions, stretched as transformers does it: long waves by the
 * factor, short ones not, those between by a mean of both frequencies. */
static double wavelength(const check_call *c, double i, double d)
{
    const double theta = attr_f(c, "theta", 1e4);
    const double factor = attr_f(c, "factor", 1);
    const double wave = 2 * acos(-1.0) * pow(theta, 2 * i / d);
    const double low = attr_f(c, "low", 0), high = attr_f(c, "high", 0),
                 turns = (double)attr_i(c, "original", 0) / wave;
    if (turns <= low || turns > high)
        return turns <= low ? wave * factor : wave;
    const double smooth = (turns - low) / (high - low);
    return 1 / ((1 - smooth) / (wave * factor) + smooth / wave);
}

/* Elements i and i + half of a head as one complex number, times exp(i angle). */
static void rope(const check_call *c)
{
    const int64_t heads = c->in[0].size[1], d = c->in[0].size[2], half = d / 2;
    for (int64_t k = 0; k < c->in[0].size[0] * heads * half; k++) {
        const int64_t i = k % half, first = k / half * d + i;
        const int64_t n = attr_i(c, "sequence", 0), row = k / half / heads;
        const double given = c->nin > 1 ? c->x[1][row] : (double)(row % n);
        const double p = fmin(fmax(given, 0), (double)n - 1);
        const double a = p * 2 * acos(-1.0) / wavelength(c, (double)i, (double)d);
        const double turn = attr_i(c, "sign", 1) < 0 ? -a : a;
        const double x = c->x[0][first], y = c->x[0][first + half];
        c->y[0][first] = x * cos(turn) - y * sin(turn);
        c->y[0][first + half] = y * cos(turn) + x * sin(turn);
    }
}

const check_loops check_loops_rope[] = {{"rope", rope}, {0}};
