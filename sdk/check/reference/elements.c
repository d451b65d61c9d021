/* check/reference/elements.c: ops element by element, programs of them, and conversions of type. */
#include "check/reference/loops.h"

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

uint32_t check_reference_ew(const check_call *c)
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
    while (ew && (!ids[ew] || (c->ew ? ew != c->ew : strcmp(c->id, ids[ew]) != 0)))
        ew--;
    return ew;
}

/* Element i of an input; of a scalar its number. */
static double element(const check_call *c, uint32_t k, int64_t i)
{
    return k < c->nin ? c->x[k][c->in[k].rank ? i : 0] : 0;
}

void check_loops_each(const check_call *c)
{
    const uint32_t ew = check_reference_ew(c);
    for (int64_t i = 0; i < count_of(&c->out[0]); i++)
        put(c, 0, i, check_elementwise(ew, element(c, 0, i), element(c, 1, i), element(c, 2, i)));
}

double check_reference_steps(const check_call *c, int64_t i, double *r)
{
    double largest = 0;
    for (uint32_t k = 0; k < c->nin; k++)
        r[k] = element(c, k, i);
    for (uint32_t k = 0; k < c->program->nsteps; k++) {
        const weft_ew_step *s = &c->program->steps[k];
        r[s->dst] = s->op == WEFT_EW_CONST ? (double)s->imm
                                           : check_elementwise(s->op, r[s->a], r[s->b], r[s->c]);
        largest = fmax(largest, fabs(r[s->dst]));
    }
    return largest;
}

void check_loops_program(const check_call *c)
{
    double r[WEFT_EW_MAX_REGISTERS] = {0};
    const int32_t gate = c->program->gate;
    for (int64_t i = 0; i < count_of(&c->out[0]) && (gate < 0 || c->x[gate][0] != 0); i++) {
        check_reference_steps(c, i, r);
        for (uint32_t k = 0; k < c->nout; k++)
            c->y[k][i] = r[c->program->out_reg[k]];
    }
}

double check_reference_cast(uint32_t dtype, double v)
{
    switch (dtype) {
    case WEFT_BF16:
    case WEFT_F16: return check_operand_rounded(dtype, v);
    case WEFT_U8: return isnan(v) ? 0 : rint(fmin(fmax(v, 0), 255));
    case WEFT_I32: return isnan(v) ? 0 : rint(fmin(fmax(v, INT32_MIN), INT32_MAX));
    default: return v;
    }
}

/* Floats are not rounded here, as those of no op are, so that casts have a slope. */
static void cast(const check_call *c)
{
    const uint32_t to = c->out[0].dtype;
    const bool whole = to == WEFT_U8 || to == WEFT_I32;
    for (int64_t i = 0; i < count_of(&c->out[0]); i++)
        put(c, 0, i, whole ? check_reference_cast(to, c->x[0][i]) : c->x[0][i]);
}

static void relabel(const check_call *c)
{
    for (int64_t i = 0; i < count_of(&c->out[0]); i++)
        put(c, 0, i, c->x[0][i]);
}

const check_loops check_loops_elements[] = {
    {"cast", cast}, {"rename", relabel}, {"merge", relabel}, {"unmerge", relabel}, {0}};
