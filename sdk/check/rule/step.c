/* check/rule/step.c: single steps of a rule: one that is skipped, extreme values, weight decay. */
#include "check/rule/rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROWS 6u
#define COLUMNS 4u
#define ELEMENTS (ROWS * COLUMNS)
#define RATE 1e-3

static bool begin(check_rule *of, uint32_t flags, bool matrix, check_rule_graph *x)
{
    const check_rule_ask ask = {
        .flags = flags, .size = {matrix ? ROWS : ELEMENTS, COLUMNS}, .n = matrix ? 2 : 1};
    check_rule_must(of, &ask, x);
    const char *unknown = check_rule_unknown(&x->g);
    if (!unknown)
        return true;
    check_absent("'%s' uses the op %s, which the check cannot compute", of->c->name, unknown);
    graph_free(&x->g);
    return false;
}

/* --- 161 --- */

static void gate(check_rule *of)
{
    double start[ELEMENTS], grad[ELEMENTS], bad[ELEMENTS];
    for (uint32_t flags = 0; flags <= WEFT_PARAM_MATRIX; flags += WEFT_PARAM_MATRIX) {
        check_rule_graph x;
        check_rule_run plain, skips;
        if (!begin(of, flags, flags, &x))
            return;
        check_rule_gradient(of, 0, 1, start, ELEMENTS);
        check_rule_begin(&plain, &x, true, start);
        check_rule_begin(&skips, &x, true, start);
        for (uint32_t i = 1; i <= 6; i++) {
            check_rule_gradient(of, i, 1, grad, ELEMENTS);
            for (uint32_t k = 0; k < ELEMENTS; k++)
                bad[k] = k % 2 ? (double)NAN : (double)INFINITY;
            if (i % 2)
                check_rule_step(&skips, bad, RATE, true);
            check_rule_step(&skips, grad, RATE, false);
            check_rule_step(&plain, grad, RATE, false);
            const char *name = check_rule_same(&plain, &skips);
            if (name)
                check_fail("after a step that was skipped (the gate is shut), update %u of '%s' "
                           "gives %s another value than without that step; \"count\" does not move "
                           "in it, \"step\" does",
                           i, of->c->name, name);
        }
        check_rule_end(&plain);
        check_rule_end(&skips);
        graph_free(&x.g);
    }
}

void check_rule_gate(check_run *r)
{
    check_rule_each(r, gate);
}

/* --- 162 --- */

typedef struct extreme {
    double before; /* updates that were done before */
    double scale;  /* of the gradients */
} extreme;

static void stays_finite(check_rule *of)
{
    static const extreme all[] = {{0, 0},       {0, 1e15},    {0, 1e-25},
                                  {9999999, 1}, {9999999, 0}, {9999999, 1e15}};
    double start[ELEMENTS], grad[ELEMENTS];
    for (uint32_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        const extreme *e = &all[i / 2];
        check_rule_graph x;
        check_rule_run v;
        if (!begin(of, i % 2 ? WEFT_PARAM_MATRIX : 0, i % 2, &x))
            return;
        check_rule_gradient(of, 0, 1, start, ELEMENTS);
        check_rule_begin(&v, &x, true, start);
        v.updates = v.steps = e->before;
        for (uint32_t k = 1; k <= 3; k++) {
            check_rule_gradient(of, k, e->scale, grad, ELEMENTS);
            check_rule_step(&v, grad, RATE, false);
            const char *name = check_rule_infinite(&v);
            if (name)
                check_fail("'%s' gives %s a value that is not finite, with gradients of about %g "
                           "at count %.0f",
                           of->c->name, name, e->scale, v.updates);
        }
        check_rule_end(&v);
        graph_free(&x.g);
    }
}

void check_rule_finite(check_run *r)
{
    check_rule_each(r, stays_finite);
}

/* --- 163 --- */

/* The factor by which every element of the parameter shrinks with gradients of 0, or 1. */
static double shrinks(check_rule *of, check_rule_graph *x)
{
    double start[ELEMENTS], now[ELEMENTS], least = 1, max = 0;
    const double zeros[ELEMENTS] = {0};
    check_rule_run v;
    check_rule_gradient(of, 0, 1, start, ELEMENTS);
    check_rule_begin(&v, x, false, start);
    for (uint32_t i = 0; i < 4; i++)
        check_rule_step(&v, zeros, 0.1, false);
    check_rule_read(&v, x->param, now);
    check_rule_end(&v);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        least = fmin(least, now[i] / start[i]);
        max = fmax(max, now[i] / start[i]);
    }
    return isfinite(now[0]) && least > 0 && max < 1 - 1e-9 ? max : 1;
}

static void decay(check_rule *of)
{
    for (uint32_t matrix = 0; matrix < 2; matrix++) { /* a vector; a tensor with two axes */
        check_rule_graph x;
        if (!begin(of, 0, matrix, &x))
            return;
        const double factor = shrinks(of, &x);
        if (factor < 1)
            check_fail(
                "'%s'%s shrinks a parameter without WEFT_PARAM_MATRIX (%s) to %.6g of itself "
                "in 4 steps with gradients of 0; weight decay applies to matrices alone",
                of->c->name, of->set, matrix ? "a table" : "a bias", factor);
        graph_free(&x.g);
    }
}

static void decay_with_values(check_rule *of)
{
    check_rule_set(of, NULL, NULL, NULL, NULL);
    decay(of);
    for (const weft_option *const *o = of->c->options; *o; o++) {
        char value[64];
        const double max = (*o)->max != 0 && (*o)->max < 0.1 ? (*o)->max : 0.1;
        if ((*o)->type != WEFT_OPT_REAL || ((*o)->min > max))
            continue;
        snprintf(value, sizeof value, "%.17g", max);
        check_rule_set(of, (*o)->key, value, NULL, NULL);
        decay(of);
    }
}

void check_rule_decay(check_run *r)
{
    check_rule_each(r, decay_with_values);
}
