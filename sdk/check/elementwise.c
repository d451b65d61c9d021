/* check/elementwise.c: see elementwise.h. What is computed from a NaN is a NaN. */
#include "check/elementwise.h"

#include <math.h>
#include <string.h>

double check_elementwise(uint32_t ew, double a, double b, double c)
{
    switch (ew) {
    case WEFT_EW_COPY: return a;
    case WEFT_EW_ADD: return a + b;
    case WEFT_EW_SUB: return a - b;
    case WEFT_EW_MUL: return a * b;
    case WEFT_EW_DIV: return a / b;
    case WEFT_EW_MIN: return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
    case WEFT_EW_MAX: return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
    case WEFT_EW_SQRT: return sqrt(a);
    case WEFT_EW_NEG: return -a;
    case WEFT_EW_ABS: return fabs(a);
    case WEFT_EW_SIGN: return isnan(a) ? a : (a > 0) - (a < 0);
    case WEFT_EW_EXP: return exp(a);
    case WEFT_EW_LOG: return log(a);
    case WEFT_EW_POW: return pow(a, b);
    case WEFT_EW_SELECT: return c != 0 ? a : b;
    case WEFT_EW_LESS: return a < b;
    case WEFT_EW_FINITE: return isfinite(a) ? 1 : 0;
    case WEFT_EW_COS: return cos(a);
    case WEFT_EW_ROUND: return rint(a);
    default: return floor(a);
    }
}

uint32_t check_elementwise_number(const char *id)
{
    static const char *const ids[] = {
        [WEFT_EW_COPY] = "copy",   [WEFT_EW_ADD] = "add",       [WEFT_EW_SUB] = "sub",
        [WEFT_EW_MUL] = "mul",     [WEFT_EW_DIV] = "div",       [WEFT_EW_MIN] = "min",
        [WEFT_EW_MAX] = "max",     [WEFT_EW_SQRT] = "sqrt",     [WEFT_EW_NEG] = "neg",
        [WEFT_EW_ABS] = "abs",     [WEFT_EW_SIGN] = "sign",     [WEFT_EW_EXP] = "exp",
        [WEFT_EW_LOG] = "log",     [WEFT_EW_POW] = "pow",       [WEFT_EW_SELECT] = "select",
        [WEFT_EW_LESS] = "less",   [WEFT_EW_FINITE] = "finite", [WEFT_EW_COS] = "cos",
        [WEFT_EW_ROUND] = "round", [WEFT_EW_FLOOR] = "floor",
    };
    uint32_t ew = sizeof ids / sizeof *ids - 1;
    while (ew && (!ids[ew] || strcmp(id, ids[ew]) != 0))
        ew--;
    return ew;
}
