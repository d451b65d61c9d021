/* axis.c: ops along an axis: what cases.c and referee.c have of them.
 *
 * The sizes of a case are `tokens` before the axis, `inner` along it and `cols` behind it; a size
 * of 1 is no axis at all, and one that three divides is two. */
#include "cases.h"
#include "referee.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const ids[] = {"sum_axis", "max_axis", "broadcast", "repeat"};

int is_axis(const char *id)
{
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++)
        if (strcmp(id, ids[k]) == 0)
            return 1;
    return 0;
}

static uint32_t add_axes(int64_t *size, uint32_t rank, int64_t n)
{
    if (n > 3 && n % 3 == 0) {
        size[rank++] = 3;
        n /= 3;
    }
    if (n > 1)
        size[rank++] = n;
    return rank;
}

void make_axis(struct call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    int64_t full[WEFT_MAX_AXES], rest[WEFT_MAX_AXES];
    const uint32_t at = add_axes(full, 0, n->tokens);
    full[at] = n->inner;
    const uint32_t rank = add_axes(full, at + 1, n->cols);
    memcpy(rest, full, at * sizeof *full);
    memcpy(rest + at, full + at + 1, (rank - at - 1) * sizeof *full);
    c->attr[c->nattr++] = (weft_attr)WEFT_ATTR_INT("channels", at);
    if (strcmp(c->id, "sum_axis") == 0 || strcmp(c->id, "max_axis") == 0) {
        add_input(c, ct, rank, full, -2, 2);
        add_output(c, gt, rank - 1, rest);
        return;
    }
    add_input(c, ct, rank - 1, rest, -2, 2);
    add_output(c, ct, rank, full);
    if (strcmp(c->id, "repeat") == 0) {
        c->attr[c->nattr++] = (weft_attr)WEFT_ATTR_INT("size", n->inner);
        return;
    }
    add_input(c, WEFT_F32, rank, full, 0, 1);
    free(c->x[1]);
    c->x[1] = NULL; /* only its shape is used: no address */
}

/* Element (outer, k, inner) of the operand that has the axis, and (outer, inner) of the other. */
void referee_axis(const struct call *c)
{
    const int reduces = c->id[0] == 's' || c->id[0] == 'm', sums = c->id[0] == 's';
    const weft_operand *full = reduces ? &c->in[0] : &c->out[0];
    const int64_t at = c->attr[0].i, n = full->size[at];
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
            c->y[0][i] = r + (c->flags & WEFT_SPEC_ACCUMULATE ? c->y[0][i] : 0);
    }
}
