/* check/rule/parts.c: an update on parts of a parameter gives what it gives on the whole. */
#include "base/err.h"
#include "check/rule/rule.h"

#include <math.h>
#include <string.h>

#define ELEMENTS 60u
#define STEPS 4u
#define RATE 1e-3

/* --- 160: ranges of elements --- */

/* A range of the parameter: steps, and the result. */
static void run_range(check_rule *of, uint32_t flags, uint32_t first, uint32_t n, double *out)
{
    const check_rule_ask ask = {.flags = flags, .size = {n}, .n = 1};
    double start[ELEMENTS], grad[ELEMENTS];
    check_rule_graph x;
    check_rule_run v;
    check_rule_must(of, &ask, &x);
    check_rule_gradient(of, 0, 1, start, ELEMENTS);
    check_rule_begin(&v, &x, true, start + first);
    for (uint32_t i = 1; i <= STEPS; i++) {
        check_rule_gradient(of, i, 1, grad, ELEMENTS);
        check_rule_step(&v, grad + first, RATE, false);
    }
    check_rule_read(&v, x.param, out + first);
    check_rule_end(&v);
    graph_free(&x.g);
}

static bool computes(check_rule *of, const check_rule_ask *ask)
{
    check_rule_graph x;
    check_rule_must(of, ask, &x);
    const char *unknown = check_rule_unknown(&x.g);
    if (unknown)
        check_absent("'%s' uses the op %s, which the check cannot compute", of->c->name, unknown);
    graph_free(&x.g);
    return !unknown;
}

static void same_graph(check_rule *of, uint32_t flags)
{
    static const uint32_t sizes[] = {1, 2, 7, 63, 1000, 1000003};
    check_rule_ask ask = {.flags = flags, .size = {64}, .n = 1};
    check_rule_graph x, y;
    char difference[CHECK_RULE_WORDS];
    check_rule_must(of, &ask, &x);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ask.size[0] = sizes[i];
        check_rule_must(of, &ask, &y);
        if (check_rule_differ(&x.g, &y.g, false, difference))
            check_fail("'%s' writes another graph for a range of %u elements than for 64: %s; the "
                       "unit is WEFT_UNIT_ELEMENT, and a range may be cut anywhere",
                       of->c->name, sizes[i], difference);
        graph_free(&y.g);
    }
    graph_free(&x.g);
}

static bool any_element;

static void cut(check_rule *of)
{
    if (of->table->unit != WEFT_UNIT_ELEMENT)
        return;
    any_element = true;
    for (uint32_t flags = 0; flags <= WEFT_PARAM_MATRIX; flags += WEFT_PARAM_MATRIX) {
        const check_rule_ask ask = {.flags = flags, .size = {ELEMENTS}, .n = 1};
        double whole[ELEMENTS], parts[ELEMENTS];
        uint64_t state = of->run->seed;
        same_graph(of, flags);
        if (!computes(of, &ask))
            return;
        run_range(of, flags, 0, ELEMENTS, whole);
        for (uint32_t first = 0, n; first < ELEMENTS; first += n) {
            n = 1 + (uint32_t)(check_random(&state) % 20);
            n = n < ELEMENTS - first ? n : ELEMENTS - first;
            run_range(of, flags, first, n, parts);
        }
        for (uint32_t i = 0; i < ELEMENTS; i++)
            if (memcmp(&whole[i], &parts[i], sizeof whole[i]) != 0)
                check_fail("'%s' updates element %u to %.9g in a range of %u elements, and to %.9g "
                           "in a part of it",
                           of->c->name, i, whole[i], ELEMENTS, parts[i]);
    }
}

void check_rule_cut(check_run *r)
{
    check_rule_each(r, cut);
    if (!any_element)
        check_not_applicable("no rule of the file is of unit element");
}

/* --- 166: a parameter that is split over ranks, with padding --- */

static void run_split(check_rule *of, const check_rule_ask *ask, double *out)
{
    double start[ELEMENTS], grad[ELEMENTS];
    check_rule_graph x;
    check_rule_run v;
    check_rule_must(of, ask, &x);
    check_rule_gradient(of, 0, 1, start, ELEMENTS);
    check_rule_begin(&v, &x, false, start);
    for (uint32_t i = 1; i <= STEPS; i++) {
        check_rule_gradient(of, i, 1, grad, ELEMENTS);
        check_rule_step(&v, grad, RATE, false);
    }
    check_rule_read(&v, x.param, out);
    check_rule_end(&v);
    graph_free(&x.g);
}

/* Whether the core can split the update, and the interpreter knows the communication that it adds.
 */
static bool can_split(check_rule *of, const check_rule_ask *ask)
{
    check_rule_graph x;
    const weft_status st = check_rule_build(of, ask, &x);
    const bool able = st == WEFT_OK && !check_rule_unknown(&x.g);
    graph_free(&x.g);
    return able;
}

/* Returns whether the update could be split. */
static bool split_one(check_rule *of, check_rule_ask ask, uint32_t ranks)
{
    double whole[ELEMENTS], parts[ELEMENTS], max = 0;
    const uint32_t n = ask.size[0] * (ask.n > 1 ? ask.size[1] : 1);
    run_split(of, &ask, whole);
    ask.ranks = ranks;
    if (!can_split(of, &ask))
        return false;
    run_split(of, &ask, parts);
    for (uint32_t k = 0; k < n; k++)
        max = fmax(max, fabs(whole[k]));
    for (uint32_t k = 0; k < n; k++)
        if (!(fabs(whole[k] - parts[k]) <= 1e-9 * max))
            check_fail("'%s' updates element %u of a parameter of %u rows to %.12g, and to %.12g "
                       "where the rows are split over %u ranks, the last with zeros behind its "
                       "part",
                       of->c->name, k, ask.size[0], whole[k], parts[k], ranks);
    return true;
}

static void split(check_rule *of)
{
    static const uint32_t rows[] = {6, 5, 12};
    const bool flat = of->table->unit == WEFT_UNIT_ELEMENT;
    uint32_t done = 0;
    for (uint32_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++)
        for (uint32_t ranks = 2; ranks <= 4; ranks++) {
            const check_rule_ask ask = {.flags = i % 2 ? WEFT_PARAM_MATRIX : 0,
                                        .size = {rows[i / 2] * (flat ? 5 : 1) - flat, 5},
                                        .n = flat ? 1 : 2};
            if (!computes(of, &ask))
                return;
            done += split_one(of, ask, ranks);
        }
    if (!done)
        check_absent("no parameter of '%s' can be split over ranks: %s", of->c->name,
                     check_rule_why(of));
}

void check_rule_split(check_run *r)
{
    check_rule_each(r, split);
}
