/* check/device/ops_case.c: calls whose right results check/reference computes: the elementwise ops,
 * sums, copies, products and tables. See ops.h.
 *
 * A result may differ by what rounding in fp32 explains: a sum of n terms by
 * (8 + 8 sqrt(n)) 2^-24 of the sum of their magnitudes, a function by 2e-5 of its value, and every
 * result by one rounding to its type. */
#include "base/mem.h"
#include "check/device/ops.h"

#include <math.h>
#include <stdlib.h>

#define FUNCTION 2e-5

/* Operands have a type, c for that of the call, and a letter an axis; behind > stand outputs. Of
 * sums `terms` is the axis that is summed, and 2 stands for a product with a term more. */
static const struct {
    const char *id, *operands;
    char terms;
    double lo, hi;
} cases[] = {
    {"copy", "cN>cN", 0, -9, 9},
    {"add", "cN cN>cN", 0, -9, 9},
    {"sub", "cN cN>cN", 0, -9, 9},
    {"mul", "cN cN>cN", 0, -9, 9},
    {"div", "cN cN>cN", 0, 0.5, 9},
    {"min", "cN cN>cN", 0, -9, 9},
    {"max", "cN cN>cN", 0, -9, 9},
    {"sqrt", "cN>cN", 0, 0, 9},
    {"neg", "cN>cN", 0, -9, 9},
    {"abs", "cN>cN", 0, -9, 9},
    {"sign", "cN>cN", 0, -9, 9},
    {"exp", "cN>cN", 0, -9, 9},
    {"log", "cN>cN", 0, 0.01, 99},
    {"pow", "cN cN>cN", 0, 0.1, 3},
    {"select", "cN cN cN>cN", 0, -9, 9},
    {"less", "cN cN>cN", 0, -9, 9},
    {"finite", "cN>cN", 0, -9, 9},
    {"cos", "cN>cN", 0, -9, 9},
    {"round", "cN>cN", 0, -9, 9},
    {"floor", "cN>cN", 0, -9, 9},
    {"ew", "cN cN f>fN cN", '2', -9, 9},
    {"accumulate", "cN>fN", 0, -9, 9},
    {"sumsq", "cN>f", 'N', -1, 1},
    {"colsum", "cRO>fO", 'R', -1, 1},
    {"linear", "cRI cOI cO>cRO", 'I', -1, 1},
    {"linear.dx", "cRO cOI>cRI", 'O', -1, 1},
    {"linear.dw", "cRO cRI>fOI", 'R', -1, 1},
    {"embedding", "cIO iR>cRO", 0, -1, 1},
    {"embedding.dw", "cRO iR cIO>fIO", 'R', -1, 1},
};

double check_case_slack(uint32_t ew, double result)
{
    const bool function = ew == WEFT_EW_SQRT || ew == WEFT_EW_EXP || ew == WEFT_EW_LOG ||
                          ew == WEFT_EW_POW || ew == WEFT_EW_COS || ew == WEFT_EW_DIV;
    return (function ? FUNCTION : 0x1p-22) * fabs(result) + (ew == WEFT_EW_COS ? 1e-6 : 0) +
           (ew == WEFT_EW_LOG ? 1e-6 : 0);
}

static int64_t size_of(const check_sizes *z, char letter)
{
    return letter == 'N' ? z->n : letter == 'R' ? z->rows : letter == 'I' ? z->in : z->out;
}

/* Ids of tables of `in` rows; the last is one that a table does not have. */
static void set_ids(double *ids, const check_sizes *z)
{
    for (int64_t t = 0; t < z->rows; t++)
        ids[t] = (double)(t * 7 % (z->in + 1));
}

static void add_operands(check_call *c, uint32_t number, const check_sizes *z, uint32_t dtype)
{
    bool out = false;
    for (const char *p = cases[number].operands; *p; p += *p == ' ' || *p == '>') {
        const uint32_t type = *p == 'i' ? WEFT_I32 : *p == 'f' ? WEFT_F32 : dtype;
        int64_t size[2];
        uint32_t rank = 0;
        while (*++p >= 'A')
            size[rank++] = size_of(z, *p);
        double *x = out ? check_call_out(c, type, rank, size)
                        : check_call_in(c, type, rank, size, cases[number].lo, cases[number].hi);
        if (type == WEFT_I32)
            set_ids(x, z);
        out |= *p == '>';
    }
}

/* Output 0 may be off by this share of the magnitudes that it is a sum of, which the same op gives
 * for the magnitudes of its inputs. Writes the other outputs. */
static void add_slack(check_call *c, double share)
{
    check_call of = *c;
    for (uint32_t k = 0; k < c->nin; k++) {
        of.x[k] = mem_alloc((uint64_t)check_operand_count(&c->in[k]) * sizeof(double));
        for (int64_t i = 0; i < check_operand_count(&c->in[k]); i++)
            of.x[k][i] = fabs(c->x[k][i]);
    }
    of.y[0] = c->slack[0];
    (void)check_reference(&of);
    for (int64_t i = 0; i < check_operand_count(&c->out[0]); i++)
        c->slack[0][i] *= share;
    for (uint32_t k = 0; k < c->nin; k++)
        free(of.x[k]);
}

static void set_values(check_call *c, uint32_t number, const check_sizes *z)
{
    const int64_t n = check_operand_count(&c->out[0]);
    const uint32_t ew = check_reference_ew(c);
    const char terms = cases[number].terms;
    for (int64_t i = 1; i < n && ew == WEFT_EW_SELECT; i += 2)
        c->x[2][i] = 0;
    c->slack[0] = mem_alloc((uint64_t)n * sizeof(double));
    if (terms)
        add_slack(c, terms == '2' ? 0x1p-22 : (8 + 8 * sqrt((double)size_of(z, terms))) * 0x1p-24);
    (void)check_reference(c);
    for (int64_t i = 0; i < n && ew; i++)
        c->slack[0][i] = check_case_slack(ew, c->y[0][i]);
}

bool check_case(uint32_t number, const check_sizes *z, uint32_t dtype, check_call *out)
{
    /* y = a b + s; z = a */
    static const weft_ew_step steps[] = {{WEFT_EW_MUL, 3, 0, 1, 0, 0, 0},
                                         {WEFT_EW_ADD, 3, 3, 2, 0, 0, 0}};
    static const uint16_t outs[] = {3, 0};
    static const weft_ew_program program = {sizeof program, 2, 4, -1, steps, outs};
    if (number >= sizeof cases / sizeof *cases)
        return false;
    check_call_begin(out, cases[number].id);
    add_operands(out, number, z, dtype);
    out->program = cases[number].terms == '2' ? &program : NULL;
    out->shape_last = out->nin > 2 && out->in[1].dtype == WEFT_I32;
    out->over[0] =
        check_reference_ew(out) || (out->program && dtype == WEFT_F32); /* as updates do */
    set_values(out, number, z);
    (void)check_call_what(out);
    return true;
}
