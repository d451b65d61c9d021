/* check/rule/options.c: the options of a rule: both bounds are used or refused, and lists have the
 * right length. */
#include "check/rule/rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROWS 3u
#define COLUMNS 2u
#define ELEMENTS (ROWS * COLUMNS)
#define STEPS 24u   /* an option may matter from a later step on, */
#define LATER 1500u /* or from a much later one, as that of a warm-up does */

static uint32_t steps = STEPS;

/* What a rule does with its options: parameters after some steps; or that it refuses them. */
typedef struct result {
    bool refused;
    double param[2][ELEMENTS];
} result;

static bool run(check_rule *of, result *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t matrix = 0; matrix < 2; matrix++) {
        const check_rule_ask ask = {.flags = matrix ? WEFT_PARAM_MATRIX : 0,
                                    .size = {matrix ? ROWS : ELEMENTS, COLUMNS},
                                    .n = 1 + matrix};
        double start[ELEMENTS], grad[ELEMENTS];
        check_rule_graph x;
        check_rule_run v;
        const weft_status st = check_rule_build(of, &ask, &x);
        const char *unknown = st == WEFT_OK ? check_rule_unknown(&x.g) : NULL;
        out->refused |= st != WEFT_OK;
        if (unknown)
            check_absent("'%s' uses the op %s, which the check cannot compute", of->c->name,
                         unknown);
        if (st == WEFT_OK && !unknown) {
            check_rule_gradient(of, 0, 1, start, ELEMENTS);
            check_rule_begin(&v, &x, false, start);
            for (uint32_t i = 1; i <= steps; i++) {
                check_rule_gradient(of, i, i % 2 ? 3 : 0.01, grad, ELEMENTS);
                check_rule_step(&v, grad, 0.01, false);
            }
            check_rule_read(&v, x.param, out->param[matrix]);
            check_rule_end(&v);
        }
        graph_free(&x.g);
        if (unknown)
            return false;
    }
    return true;
}

/* Whether the bounds or choices of `o` give different results, with another option at a value. */
static bool matters(check_rule *of, const weft_option *o, const char *also, const char *also_value)
{
    char value[256];
    result first, other;
    check_rule_value(o, 0, value, sizeof value);
    check_rule_set(of, o->key, value, also, also_value);
    if (!run(of, &first))
        return true;
    for (uint32_t i = 1; check_rule_value(o, i, value, sizeof value); i++) {
        check_rule_set(of, o->key, value, also, also_value);
        if (!run(of, &other) || memcmp(&first, &other, sizeof first) != 0)
            return true;
    }
    return false;
}

/* An option may need another one. */
static bool matters_with_others(check_rule *of, const weft_option *o)
{
    char value[256];
    for (const weft_option *const *p = of->c->options; *p; p++)
        for (uint32_t i = 0; *p != o && check_rule_value(*p, i, value, sizeof value); i++)
            if (matters(of, o, (*p)->key, value))
                return true;
    return false;
}

static bool matters_later(check_rule *of, const weft_option *o)
{
    steps = LATER;
    const bool found = matters(of, o, NULL, NULL);
    steps = STEPS;
    return found;
}

/* --- lists of numbers --- */

static uint32_t numbers(const char *text)
{
    uint32_t n = 1;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

static void wrong_number(check_rule *of, const weft_option *o, uint32_t n)
{
    char value[256] = "";
    result x;
    for (uint32_t i = 0; i < n; i++) {
        const size_t used = strlen(value);
        snprintf(value + used, sizeof value - used, "%s%.17g", i ? ", " : "",
                 o->min != 0 || o->max != 0 ? (o->min + o->max) / 2 : 0.5);
    }
    check_rule_set(of, o->key, value, NULL, NULL);
    run(of, &x);
    if (!x.refused)
        check_fail("'%s' takes %s = %s, which are %u numbers; its default has %u, so update() "
                   "refuses another number with a sentence",
                   of->c->name, o->key, value, n, numbers(o->dflt));
}

static uint32_t tried;

static void ignored(check_rule *of, const weft_option *o)
{
    char values[512] = "", value[256];
    for (uint32_t i = 0; check_rule_value(o, i, value, sizeof value); i++) {
        const size_t used = strlen(values);
        snprintf(values + used, sizeof values - used, "%s%s", i ? ", " : "", value);
    }
    check_fail("'%s' gives the same parameters after %u steps with each value of %s that was tried "
               "(%s), alone and beside the values of its other options, so the option is ignored",
               of->c->name, LATER, o->key, values);
}

static void options(check_rule *of)
{
    char value[256];
    for (const weft_option *const *o = of->c->options; *o; o++, tried++) {
        const uint32_t n = (*o)->type == WEFT_OPT_REALS && (*o)->dflt ? numbers((*o)->dflt) : 0;
        if (n && n < 8)
            wrong_number(of, *o, n + 1);
        if (n > 1)
            wrong_number(of, *o, n - 1);
        if (check_rule_value(*o, 1, value, sizeof value) && !matters(of, *o, NULL, NULL) &&
            !matters_with_others(of, *o) && !matters_later(of, *o))
            ignored(of, *o);
    }
}

void check_rule_options(check_run *r)
{
    check_rule_each(r, options);
    if (!tried)
        check_not_applicable("it has no options");
}
