/* axis.c: ops along an axis, and batched products: what cases.c has of them.
 *
 * The sizes of a case are `tokens` before the axis, `inner` along it and `cols` behind it; a size
 * of 1 is no axis at all, and one that three divides is two. Of a product `heads` is the batch. */
#include "cases.h"
#include <stdlib.h>
#include <string.h>

static const char *const ids[] = {"sum_axis", "max_axis", "broadcast", "repeat",
                                  "bmm",      "bmm.dx",   "bmm.dw"};

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

/* Operands [batch.., rows, cols]. */
static void make_bmm(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    int64_t x[WEFT_MAX_AXES] = {0}, w[WEFT_MAX_AXES], y[WEFT_MAX_AXES];
    uint32_t at = add_axes(x, 0, n->heads);
    if (at == 0)
        x[at++] = 1; /* a batch of one is an axis too */
    memcpy(w, x, sizeof x);
    memcpy(y, x, sizeof x);
    x[at] = y[at] = n->tokens;
    w[at] = y[at + 1] = n->cols;
    x[at + 1] = w[at + 1] = n->inner;
    add_input(c, ct, at + 2, strcmp(c->id, "bmm") == 0 ? x : y, -2, 2);
    add_input(c, ct, at + 2, strcmp(c->id, "bmm.dw") == 0 ? x : w, -1, 1);
    if (strcmp(c->id, "bmm.dw") == 0)
        add_output(c, gt, at + 2, w);
    else
        add_output(c, ct, at + 2, strcmp(c->id, "bmm") == 0 ? y : x);
}

void make_axis(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    int64_t full[WEFT_MAX_AXES], rest[WEFT_MAX_AXES];
    if (strncmp(c->id, "bmm", 3) == 0) {
        make_bmm(c, n, ct, gt);
        return;
    }
    const uint32_t at = add_axes(full, 0, n->tokens);
    full[at] = n->inner;
    const uint32_t rank = add_axes(full, at + 1, n->cols);
    memcpy(rest, full, at * sizeof *full);
    memcpy(rest + at, full + at + 1, (rank - at - 1) * sizeof *full);
    c->attrs[c->nattr++] = (weft_attr)WEFT_ATTR_INT("channels", at);
    if (strcmp(c->id, "sum_axis") == 0 || strcmp(c->id, "max_axis") == 0) {
        add_input(c, ct, rank, full, -2, 2);
        add_output(c, gt, rank - 1, rest);
        return;
    }
    add_input(c, ct, rank - 1, rest, -2, 2);
    add_output(c, ct, rank, full);
    if (strcmp(c->id, "repeat") == 0) {
        c->attrs[c->nattr++] = (weft_attr)WEFT_ATTR_INT("size", n->inner);
        return;
    }
    add_input(c, WEFT_F32, rank, full, 0, 1);
    free(c->x[1]);
    c->x[1] = NULL; /* only its shape is used: no address */
}
