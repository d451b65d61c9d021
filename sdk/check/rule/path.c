/* check/rule/path.c: many steps of a rule: in fp32 against its formula in double precision, and
 * with a new process in between, which has only what a checkpoint has. */
#include "check/rule/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 4u
#define COLUMNS 3u
#define ELEMENTS (ROWS * COLUMNS)
#define STEPS 1000u

static bool begin(check_rule *of, bool matrix, check_rule_graph *x)
{
    const check_rule_ask ask = {.flags = matrix ? WEFT_PARAM_MATRIX : 0,
                                .size = {matrix ? ROWS : ELEMENTS, COLUMNS},
                                .n = matrix ? 2 : 1};
    check_rule_must(of, &ask, x);
    const char *unknown = check_rule_unknown(&x->g);
    if (!unknown)
        return true;
    check_absent("'%s' uses the op %s, which the check cannot compute", of->c->name, unknown);
    graph_free(&x->g);
    return false;
}

/* --- 165 --- */

/* The largest difference as a share of the largest element. The parameter starts at 0, so that its
 * own rounding is small beside what it moves. */
static double apart(const check_rule_run *a, const check_rule_run *b)
{
    double x[ELEMENTS], y[ELEMENTS], max = 0;
    const uint64_t n = check_rule_read(a, a->of->param, x);
    check_rule_read(b, b->of->param, y);
    for (uint64_t i = 0; i < n; i++)
        max = fmax(max, fabs(x[i] - y[i]));
    return max / fmax(check_rule_largest(b), 1e-300);
}

/* 16-bit states round by 2^-9 at each step; their errors are to average out. */
static double bound_of(const graph *g)
{
    double bound = 1e-3;
    for (weft_tensor t = 1; t <= g->tensors.n; t++)
        if (graph_tensor_at(g, t)->kind == WEFT_T_STATE &&
            graph_tensor_at(g, t)->shape.dtype != WEFT_F32)
            bound = 5e-2;
    return bound;
}

static void trajectory(check_rule *of)
{
    for (uint32_t matrix = 0; matrix < 2; matrix++) {
        double grad[ELEMENTS];
        check_rule_graph x;
        check_rule_run narrow, exact;
        if (!begin(of, matrix, &x))
            return;
        const double bound = bound_of(&x.g);
        check_rule_begin(&narrow, &x, true, NULL);
        check_rule_begin(&exact, &x, false, NULL);
        for (uint32_t i = 1; i <= STEPS; i++) {
            const double lr = (double)(float)(1e-3 / (1 + 0.001 * i));
            check_rule_gradient(of, i, i % 7 ? 1 : 0.1, grad, ELEMENTS);
            check_rule_step(&narrow, grad, lr, false);
            check_rule_step(&exact, grad, lr, false);
            const double off = i == 1 || i == 10 || i % 100 == 0 ? apart(&narrow, &exact) : 0;
            if (!(off <= bound))
                check_fail("after %u steps '%s' in fp32 is off its formula in double precision by "
                           "%.2g of the way that the parameter has gone; at most %g",
                           i, of->c->name, off, bound);
        }
        check_rule_end(&narrow);
        check_rule_end(&exact);
        graph_free(&x.g);
    }
}

void check_rule_trajectory(check_run *r)
{
    check_rule_each(r, trajectory);
}

/* --- 167 --- */

/* Values by name, as a checkpoint has them. */
static void carry(const check_rule *of, const check_rule_run *from, check_rule_run *to)
{
    const graph *a = &from->of->g, *b = &to->of->g;
    for (weft_tensor t = 1; t <= a->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(a, t);
        const weft_tensor u = graph_find(b, x->name);
        if (x->kind != WEFT_T_PARAM && x->kind != WEFT_T_STATE && x->kind != WEFT_T_SCALAR)
            continue;
        if (!u || graph_tensor_at(b, u)->kind != x->kind ||
            graph_shape_elements(&x->shape) != graph_shape_elements(&graph_tensor_at(b, u)->shape))
            check_fail("'%s' has the state %s, and a module that is opened again has none of that "
                       "name and shape: a resumed job loses it",
                       of->c->name, x->name);
        memcpy(to->value[u], from->value[t], graph_shape_elements(&x->shape) * sizeof(double));
    }
    to->steps = from->steps;
    to->updates = from->updates;
}

static void resume(check_rule *of)
{
    for (uint32_t k = 0; k < 6; k++) {
        double start[ELEMENTS], grad[ELEMENTS];
        check_rule_graph x, y;
        check_rule_run through, resumed;
        if (!begin(of, k % 2, &x))
            return;
        check_rule_gradient(of, 0, 1, start, ELEMENTS);
        check_rule_begin(&through, &x, true, start);
        for (uint32_t i = 1; i <= 5; i++) {
            check_rule_gradient(of, i, 1, grad, ELEMENTS);
            check_rule_step(&through, grad, 1e-3, false);
        }
        check_rule_reopen(of);
        if (!begin(of, k % 2, &y))
            return;
        check_rule_begin(&resumed, &y, true, NULL);
        carry(of, &through, &resumed);
        for (uint32_t i = 6; i <= 10; i++) {
            double a[ELEMENTS], b[ELEMENTS];
            check_rule_gradient(of, i, 1, grad, ELEMENTS);
            check_rule_step(&through, grad, 1e-3, false);
            check_rule_step(&resumed, grad, 1e-3, false);
            const uint64_t n = check_rule_read(&through, x.param, a);
            check_rule_read(&resumed, y.param, b);
            if (memcmp(a, b, n * sizeof *a) != 0)
                check_fail("'%s' with a module that is opened again, and parameter, states and "
                           "scalars as they were after 5 updates, makes another update %u",
                           of->c->name, i);
        }
        check_rule_end(&through);
        check_rule_end(&resumed);
        graph_free(&x.g);
        graph_free(&y.g);
    }
}

void check_rule_resume(check_run *r)
{
    check_rule_each(r, resume);
}
