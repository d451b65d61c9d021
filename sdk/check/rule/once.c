/* check/rule/once.c: what the graph of a rule looks like: each assignment once, the same graph for
 * the same shape, and no more tensors than a program has operands. */
#include "base/err.h"
#include "check/rule/rule.h"

#include <string.h>

static const check_rule_ask shapes[] = {
    {.size = {1}, .n = 1},       {.size = {7}, .n = 1},           {.size = {64}, .n = 1},
    {.size = {6, 4}, .n = 2},    {.size = {4, 6}, .n = 2},        {.size = {2, 3, 4}, .n = 3},
    {.size = {512, 24}, .n = 2}, {.size = {100000, 300}, .n = 2},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static const char *const roles[] = {NULL, "embedding", "attention.qkv", "norm"};
#define ROLES (sizeof roles / sizeof *roles)

/* Shapes with and without the flag of matrices, with each role; false: there are no more. */
static bool next(uint32_t i, check_rule_ask *out)
{
    if (i >= 2 * SHAPES * ROLES)
        return false;
    *out = shapes[i / 2 % SHAPES];
    out->flags = i % 2 ? WEFT_PARAM_MATRIX : 0;
    out->role = roles[i / 2 / SHAPES];
    return true;
}

/* --- 158 --- */

static void count_assignments(const check_rule *of, const check_rule_ask *ask,
                              const check_rule_graph *x)
{
    for (weft_tensor t = 1; t <= x->g.tensors.n; t++) {
        const graph_tensor *k = graph_tensor_at(&x->g, t);
        uint32_t times = 0;
        if (t != x->param && k->kind != WEFT_T_STATE)
            continue;
        for (uint32_t i = 0; i < x->g.nodes.n; i++)
            times += x->g.nodes.at[i].assign && x->g.nodes.at[i].out[0] == t;
        if (times != 1)
            check_fail("the update of '%s'%s assigns %s %u times (a parameter of %u axes, the "
                       "first of %u%s); update() assigns the parameter and each state once",
                       of->c->name, of->set, t == x->param ? "the parameter" : k->name, times,
                       ask->n, ask->size[0], ask->flags ? ", a matrix" : "");
    }
}

static void assigned(check_rule *of)
{
    check_rule_ask ask;
    check_rule_graph x;
    for (uint32_t i = 0; next(i, &ask); i++) {
        if (check_rule_build(of, &ask, &x) == WEFT_OK)
            count_assignments(of, &ask, &x);
        else if (!of->set[0])
            check_fail("update() of '%s' refuses a parameter of %u axes, the first of %u: %s",
                       of->c->name, ask.n, ask.size[0], check_rule_why(of));
        graph_free(&x.g);
    }
}

static void assigned_with_values(check_rule *of)
{
    check_rule_values(of, assigned);
}

void check_rule_assigned(check_run *r)
{
    check_rule_each(r, assigned_with_values);
}

/* --- 159 --- */

static void alike(check_rule *of)
{
    static const char *const names[] = {
        "p",      "block.0.attn.qkv.w", "norm.bias",
        "head.w", "embedding",          "a.parameter.with.a.name.that.is.longer.than.usual.w"};
    check_rule_ask ask;
    check_rule_graph first, other;
    char difference[CHECK_RULE_WORDS];
    for (uint32_t i = 0; next(i, &ask); i++) {
        check_rule_must(of, &ask, &first);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            ask.name = names[k];
            check_rule_must(of, &ask, &other);
            if (check_rule_differ(&first.g, &other.g, true, difference))
                check_fail("update() of '%s' writes another graph for the parameter '%s' than for "
                           "'p' of the same shape and flags: %s; the name is for messages only",
                           of->c->name, names[k], difference);
            graph_free(&other.g);
        }
        graph_free(&first.g);
    }
}

void check_rule_alike(check_run *r)
{
    check_rule_each(r, alike);
}

/* --- 168 --- */

static void fits(check_rule *of)
{
    check_rule_ask ask = {.size = {64}, .n = 1};
    check_rule_graph x;
    for (uint32_t flags = 0; flags <= WEFT_PARAM_MATRIX; flags += WEFT_PARAM_MATRIX) {
        graph_fused f;
        ask.flags = flags;
        if (check_rule_build(of, &ask, &x) != WEFT_OK) {
            graph_free(&x.g);
            continue;
        }
        weft_status st = graph_fuse(&x.g, &x.g.nodes, x.gate, NULL, &x.g.pool, &f);
        if (st != WEFT_OK)
            check_fail("the update of '%s'%s cannot be computed, with the factor \"clip\" and the "
                       "scalar \"gate\": %s",
                       of->c->name, of->set, err_text());
        if (f.nout + 1 > WEFT_MAX_OPERANDS) /* and the compute copy */
            check_fail("the update of '%s'%s writes %u tensors, with the compute copy of a 16-bit "
                       "job; a rule writes at most %u",
                       of->c->name, of->set, f.nout + 1, WEFT_MAX_OPERANDS);
        graph_free(&x.g);
    }
}

static bool any_element;

static void capacity(check_rule *of)
{
    if (of->table->unit != WEFT_UNIT_ELEMENT)
        return;
    any_element = true;
    check_rule_values(of, fits);
}

void check_rule_capacity(check_run *r)
{
    check_rule_each(r, capacity);
    if (!any_element)
        check_not_applicable("no rule of the file is of unit element; other updates run as several "
                             "programs");
}
