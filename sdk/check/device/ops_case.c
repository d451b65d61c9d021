/* check/device/ops_case.c: calls whose right results are computed by plain loops in double
 * precision: the elementwise ops, sums, copies, products and tables. See ops.h.
 *
 * A result may differ by what rounding in fp32 explains: a sum of n terms by
 * (8 + 8 sqrt(n)) 2^-24 of the sum of their magnitudes, a function by 2e-5 of its value, and every
 * result by one rounding to its type. */
#include "check/device/ops.h"

#include "check/elementwise.h"

#include <math.h>

#define FUNCTION 2e-5

static const struct {
    const char *id;
    uint16_t op;
    uint32_t nin;
    double lo, hi;
} functions[] = {
    {"copy", WEFT_EW_COPY, 1, -9, 9},     {"add", WEFT_EW_ADD, 2, -9, 9},
    {"sub", WEFT_EW_SUB, 2, -9, 9},       {"mul", WEFT_EW_MUL, 2, -9, 9},
    {"div", WEFT_EW_DIV, 2, 0.5, 9},      {"min", WEFT_EW_MIN, 2, -9, 9},
    {"max", WEFT_EW_MAX, 2, -9, 9},       {"sqrt", WEFT_EW_SQRT, 1, 0, 9},
    {"neg", WEFT_EW_NEG, 1, -9, 9},       {"abs", WEFT_EW_ABS, 1, -9, 9},
    {"sign", WEFT_EW_SIGN, 1, -9, 9},     {"exp", WEFT_EW_EXP, 1, -9, 9},
    {"log", WEFT_EW_LOG, 1, 0.01, 99},    {"pow", WEFT_EW_POW, 2, 0.1, 3},
    {"select", WEFT_EW_SELECT, 3, -9, 9}, {"less", WEFT_EW_LESS, 2, -9, 9},
    {"finite", WEFT_EW_FINITE, 1, -9, 9}, {"cos", WEFT_EW_COS, 1, -9, 9},
    {"round", WEFT_EW_ROUND, 1, -9, 9},   {"floor", WEFT_EW_FLOOR, 1, -9, 9},
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

double check_case_slack(uint32_t ew, double result)
{
    const bool function = ew == WEFT_EW_SQRT || ew == WEFT_EW_EXP || ew == WEFT_EW_LOG ||
                          ew == WEFT_EW_POW || ew == WEFT_EW_COS || ew == WEFT_EW_DIV;
    return (function ? FUNCTION : 0x1p-22) * fabs(result) + (ew == WEFT_EW_COS ? 1e-6 : 0) +
           (ew == WEFT_EW_LOG ? 1e-6 : 0);
}

/* --- ops on all elements --- */

static void elementwise(check_call *c, uint32_t k, int64_t n, uint32_t dtype)
{
    const uint32_t ew = functions[k].op;
    check_call_begin(c, functions[k].id);
    c->in_place = 1;
    for (uint32_t i = 0; i < functions[k].nin; i++)
        check_call_in(c, dtype, 1, &n, functions[k].lo, functions[k].hi);
    double *y = check_call_out(c, dtype, 1, &n);
    for (int64_t i = 0; i < n; i++) {
        if (ew == WEFT_EW_SELECT && i % 2)
            c->x[2][i] = 0;
        y[i] = check_elementwise(ew, c->x[0][i], c->nin > 1 ? c->x[1][i] : 0,
                                 c->nin > 2 ? c->x[2][i] : 0);
        c->slack[0][i] = check_case_slack(ew, y[i]);
    }
}

/* y = a b + s; z = a */
static void program(check_call *c, const check_sizes *z, uint32_t dtype)
{
    static const weft_ew_step steps[] = {{WEFT_EW_MUL, 3, 0, 1, 0, 0, 0},
                                         {WEFT_EW_ADD, 3, 3, 2, 0, 0, 0}};
    static const uint16_t outs[] = {3, 0};
    static const weft_ew_program both = {sizeof both, 2, 4, -1, steps, outs};
    check_call_begin(c, "ew");
    c->program = &both;
    c->in_place = dtype == WEFT_F32; /* as updates write parameters */
    check_call_in(c, dtype, 1, &z->n, -9, 9);
    check_call_in(c, dtype, 1, &z->n, -9, 9);
    check_call_in(c, WEFT_F32, 0, NULL, -9, 9);
    check_call_out(c, WEFT_F32, 1, &z->n);
    check_call_out(c, dtype, 1, &z->n);
    for (int64_t i = 0; i < z->n; i++) {
        const double product = c->x[0][i] * c->x[1][i];
        c->y[0][i] = product + c->x[2][0];
        c->y[1][i] = c->x[0][i];
        c->slack[0][i] = 0x1p-22 * (fabs(product) + fabs(c->x[2][0]));
    }
}

static void accumulate(check_call *c, const check_sizes *z, uint32_t dtype)
{
    check_call_begin(c, "accumulate");
    check_call_in(c, dtype, 1, &z->n, -9, 9);
    double *y = check_call_out(c, WEFT_F32, 1, &z->n);
    for (int64_t i = 0; i < z->n; i++)
        y[i] = c->x[0][i];
}

/* --- sums --- */

static double sum_slack(int64_t terms, double magnitude)
{
    return (8 + 8 * sqrt((double)terms)) * 0x1p-24 * magnitude;
}

static void sumsq(check_call *c, const check_sizes *z, uint32_t dtype)
{
    check_call_begin(c, "sumsq");
    check_call_in(c, dtype, 1, &z->n, -1, 1);
    double *y = check_call_out(c, WEFT_F32, 0, NULL);
    for (int64_t i = 0; i < z->n; i++)
        *y += c->x[0][i] * c->x[0][i];
    c->slack[0][0] = sum_slack(z->n, *y);
}

static void colsum(check_call *c, const check_sizes *z, uint32_t dtype)
{
    const int64_t size[] = {z->rows, z->out};
    check_call_begin(c, "colsum");
    check_call_in(c, dtype, 2, size, -1, 1);
    double *y = check_call_out(c, WEFT_F32, 1, &z->out);
    for (int64_t o = 0; o < z->out; o++) {
        double magnitude = 0;
        for (int64_t t = 0; t < z->rows; t++) {
            y[o] += c->x[0][t * z->out + o];
            magnitude += fabs(c->x[0][t * z->out + o]);
        }
        c->slack[0][o] = sum_slack(z->rows, magnitude);
    }
}

/* --- products: y[i, j] = sum over l of a(i, l) b(l, j), each with its strides in memory --- */

typedef struct strides {
    int64_t a_i, a_l, b_l, b_j;
} strides;

static void multiply(check_call *c, int64_t rows, int64_t inner, int64_t columns, const strides *s,
                     const double *bias)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = bias ? bias[j] : 0, magnitude = fabs(sum);
            for (int64_t l = 0; l < inner; l++) {
                const double v =
                    c->x[0][i * s->a_i + l * s->a_l] * c->x[1][l * s->b_l + j * s->b_j];
                sum += v;
                magnitude += fabs(v);
            }
            c->y[0][i * columns + j] = sum;
            c->slack[0][i * columns + j] = sum_slack(inner, magnitude);
        }
}

static void linear(check_call *c, const check_sizes *z, uint32_t dtype)
{
    const int64_t x[] = {z->rows, z->in}, w[] = {z->out, z->in}, y[] = {z->rows, z->out};
    check_call_begin(c, "linear");
    check_call_in(c, dtype, 2, x, -1, 1);
    check_call_in(c, dtype, 2, w, -1, 1);
    const double *bias = check_call_in(c, dtype, 1, &z->out, -1, 1);
    check_call_out(c, dtype, 2, y);
    multiply(c, z->rows, z->in, z->out, &(strides){z->in, 1, 1, z->in}, bias);
}

static void linear_dx(check_call *c, const check_sizes *z, uint32_t dtype)
{
    const int64_t dx[] = {z->rows, z->in}, w[] = {z->out, z->in}, dy[] = {z->rows, z->out};
    check_call_begin(c, "linear.dx");
    check_call_in(c, dtype, 2, dy, -1, 1);
    check_call_in(c, dtype, 2, w, -1, 1);
    check_call_out(c, dtype, 2, dx);
    multiply(c, z->rows, z->out, z->in, &(strides){z->out, 1, z->in, 1}, NULL);
}

static void linear_dw(check_call *c, const check_sizes *z, uint32_t dtype)
{
    const int64_t x[] = {z->rows, z->in}, dw[] = {z->out, z->in}, dy[] = {z->rows, z->out};
    check_call_begin(c, "linear.dw");
    check_call_in(c, dtype, 2, dy, -1, 1);
    check_call_in(c, dtype, 2, x, -1, 1);
    check_call_out(c, WEFT_F32, 2, dw);
    multiply(c, z->out, z->rows, z->in, &(strides){1, z->out, z->in, 1}, NULL);
}

/* --- tables: `in` rows of `out` columns; the last id of a table is one that it does not have ---
 */

static void set_ids(double *ids, const check_sizes *z)
{
    for (int64_t t = 0; t < z->rows; t++)
        ids[t] = (double)(t * 7 % (z->in + 1));
}

static void embedding(check_call *c, const check_sizes *z, uint32_t dtype)
{
    const int64_t table[] = {z->in, z->out}, y[] = {z->rows, z->out};
    check_call_begin(c, "embedding");
    check_call_in(c, dtype, 2, table, -1, 1);
    double *ids = check_call_in(c, WEFT_I32, 1, &z->rows, 0, 1);
    double *to = check_call_out(c, dtype, 2, y);
    set_ids(ids, z);
    for (int64_t t = 0; t < z->rows; t++)
        for (int64_t o = 0; o < z->out; o++)
            to[t * z->out + o] =
                (int64_t)ids[t] < z->in ? c->x[0][(int64_t)ids[t] * z->out + o] : 0;
}

static void embedding_dw(check_call *c, const check_sizes *z, uint32_t dtype)
{
    const int64_t table[] = {z->in, z->out}, dy[] = {z->rows, z->out};
    check_call_begin(c, "embedding.dw");
    check_call_in(c, dtype, 2, dy, -1, 1);
    double *ids = check_call_in(c, WEFT_I32, 1, &z->rows, 0, 1);
    check_call_in(c, dtype, 2, table, -1, 1);
    double *to = check_call_out(c, WEFT_F32, 2, table);
    c->shape_last = true;
    set_ids(ids, z);
    for (int64_t t = 0; t < z->rows; t++)
        for (int64_t o = 0; (int64_t)ids[t] < z->in && o < z->out; o++) {
            const int64_t at = (int64_t)ids[t] * z->out + o;
            to[at] += c->x[0][t * z->out + o];
            c->slack[0][at] = sum_slack(z->rows, (double)z->rows);
        }
}

bool check_case(uint32_t number, const check_sizes *z, uint32_t dtype, check_call *out)
{
    static void (*const others[])(check_call *, const check_sizes *, uint32_t) = {
        program, accumulate, sumsq, colsum, linear, linear_dx, linear_dw, embedding, embedding_dw};
    if (number >= FUNCTIONS + sizeof others / sizeof *others)
        return false;
    if (number < FUNCTIONS)
        elementwise(out, number, z->n, dtype);
    else
        others[number - FUNCTIONS](out, z, dtype);
    (void)check_call_what(out);
    return true;
}
