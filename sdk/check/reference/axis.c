/* check/reference/axis.c: ops along an axis, and batched products. */
#include "check/reference/loops.h"
#include <math.h>
#include <string.h>

/* The sum over l of a [i, l] b [j, l], in which each operand may have its axes the other way. */
static void bmm(const check_call *c)
{
    const uint32_t r = c->in[0].rank;
    const int dx = strcmp(c->id, "bmm.dx") == 0, dw = strcmp(c->id, "bmm.dw") == 0;
    const int64_t m = c->out[0].size[r - 2], n = c->out[0].size[r - 1];
    const int64_t k = c->in[0].size[dw ? r - 2 : r - 1], batch = count_of(&c->out[0]) / m / n;
    for (int64_t e = 0; e < batch * m * n; e++) {
        const int64_t i = e / n % m, j = e % n;
        const double *a = c->x[0] + e / n / m * m * k, *b = c->x[1] + e / n / m * n * k;
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += a[dw ? l * m + i : i * k + l] * b[dx || dw ? l * n + j : j * k + l];
        put(c, 0, e, sum);
    }
}

/* Element (outer, k, inner) of the operand that has the axis, and (outer, inner) of the other. */
static void along_axis(const check_call *c)
{
    const int reduces = c->id[0] == 's' || c->id[0] == 'm', sums = c->id[0] == 's';
    const weft_operand *full = reduces ? &c->in[0] : &c->out[0];
    const weft_attr *named = &c->attrs[!strcmp(c->attrs[0].key, "size")];
    const int64_t at = named->i, n = full->size[at];
    int64_t inner = 1;
    for (uint32_t k = (uint32_t)at + 1; k < full->rank; k++)
        inner *= full->size[k];
    for (int64_t i = 0; i < count_of(full) / n; i++) {
        const int64_t first = i / inner * n * inner + i % inner;
        double r = sums ? 0 : -INFINITY;
        for (int64_t k = 0; k < n; k++) {
            const int64_t e = first + k * inner;
            if (!reduces)
                c->y[0][e] = c->x[0][i];
            else if (sums)
                r += c->x[0][e];
            else
                r = isnan(r) || r > c->x[0][e] ? r : c->x[0][e];
        }
        if (reduces)
            put(c, 0, i, r);
    }
}

const check_loops check_loops_axis[] = {{"bmm", bmm},
                                        {"bmm.dx", bmm},
                                        {"bmm.dw", bmm},
                                        {"sum_axis", along_axis},
                                        {"max_axis", along_axis},
                                        {"broadcast", along_axis},
                                        {"repeat", along_axis},
                                        {0}};
