/* joined.c: calls of joined ops, and what they are to give: their members one after the other. */
#include "joined.h"
#include <stdlib.h>
#include <string.h>

static const struct joined {
    const char *name, *first, *second;
    int feeds; /* the second reads the first's result, else its input */
} ops[] = {
    {"linear+gelu", "linear", "gelu", 1},
    {"linear+bias_residual", "linear", "bias_residual", 1},
    {"linear.dx+gelu.dx", "linear.dx", "gelu.dx", 1},
    {"linear.dw+colsum", "linear.dw", "colsum", 0},
    {"colsum+linear.dw", "colsum", "linear.dw", 0},
};

static const struct joined *find(const char *id)
{
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (strcmp(ops[k].name, id) == 0)
            return &ops[k];
    return NULL;
}

int is_joined(const char *id)
{
    return find(id) != NULL;
}

/* Sizes of the second: of a product's result, where that is what it reads. */
static struct sizes sizes_behind(const struct joined *j, const struct sizes *n)
{
    struct sizes s = *n;
    s.bias = 0;
    if (strcmp(j->first, "linear.dx") == 0)
        s.cols = n->inner;
    return s;
}

static void take(check_call *c, check_call *from, uint32_t input)
{
    c->in[c->nin] = from->in[input];
    c->x[c->nin++] = from->x[input];
    from->x[input] = NULL;
}

void make_joined(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt)
{
    const struct joined *j = find(c->id);
    const struct sizes behind = sizes_behind(j, n);
    struct sizes before = *n;
    check_call a, b;
    before.bias = n->bias && strcmp(j->second, "gelu") == 0;
    make_call(&a, j->first, &before, ct, gt);
    make_call(&b, j->second, &behind, ct, gt);
    for (uint32_t k = 0; k < a.nin; k++)
        take(c, &a, k);
    for (uint32_t k = 1; k < b.nin; k++)
        take(c, &b, k);
    c->nout = 2;
    c->out[0] = a.out[0];
    c->out[1] = b.out[0];
    c->y[0] = a.y[0];
    c->y[1] = b.y[0];
    a.y[0] = b.y[0] = NULL;
    if (j->feeds && (n->unread || strcmp(j->second, "gelu") != 0))
        c->out[0] = (weft_operand){0};
    check_call_end(&a);
    check_call_end(&b);
}

/* One member: its operands are the joined call's. */
static void member(const check_call *c, const char *id, const uint32_t *in, uint32_t nin,
                   double *input0, const weft_operand *shape0, double *y, const weft_operand *out)
{
    check_call m = {.id = id, .nin = nin, .nout = 1, .flags = c->flags};
    for (uint32_t k = 0; k < nin; k++) {
        m.in[k] = c->in[in[k]];
        m.x[k] = c->x[in[k]];
    }
    if (input0) {
        m.in[0] = *shape0;
        m.x[0] = input0;
    }
    m.out[0] = *out;
    m.y[0] = y;
    reference(&m);
}

void reference_joined(const check_call *c)
{
    const struct joined *j = find(c->id);
    const int residual = strcmp(j->second, "bias_residual") == 0;
    const int gelu = strcmp(j->second, "gelu") == 0;
    if (j->feeds) { /* what lies between has the shape of the result */
        const uint32_t behind[] = {0, residual ? 2 : c->nin - 1, 3};
        const uint32_t all[] = {0, 1, 2};
        member(c, j->first, all, gelu ? c->nin : 2, NULL, NULL, c->y[0], &c->out[1]);
        member(c, j->second, behind,
               residual ? 3
               : gelu   ? 1
                        : 2,
               c->y[0], &c->out[1], c->y[1], &c->out[1]);
        return;
    }
    const uint32_t dw = strcmp(j->first, "linear.dw") != 0, both[] = {0, 1};
    member(c, "linear.dw", both, 2, NULL, NULL, c->y[dw], &c->out[dw]);
    member(c, "colsum", both, 1, NULL, NULL, c->y[!dw], &c->out[!dw]);
}
