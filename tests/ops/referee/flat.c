/* flat.c: the ops that know no axes: sums of flat ranges, and the order of elements. */
#include "referee.h"
#include <string.h>

static void accumulate(const struct call *c)
{
    for (int64_t i = 0; i < count_of(&c->in[0]); i++)
        put(c, 0, i, c->x[0][i]);
}

static void sumsq(const struct call *c)
{
    double s = 0;
    for (int64_t i = 0; i < count_of(&c->in[0]); i++)
        s += c->x[0][i] * c->x[0][i];
    put(c, 0, 0, s);
}

/* x [a, b, n] to y [b, a, n] */
static void interchange(const struct call *c)
{
    const int64_t a = c->in[0].size[0], b = c->in[0].size[1], n = c->in[0].size[2];
    for (int64_t i = 0; i < a; i++)
        for (int64_t j = 0; j < b; j++)
            for (int64_t k = 0; k < n; k++)
                put(c, 0, (j * a + i) * n + k, c->x[0][(i * b + j) * n + k]);
}

int referee_flat(const struct call *c)
{
    if (strcmp(c->id, "accumulate") == 0)
        accumulate(c);
    else if (strcmp(c->id, "sumsq") == 0)
        sumsq(c);
    else if (strcmp(c->id, "interchange") == 0)
        interchange(c);
    else
        return 0;
    return 1;
}
