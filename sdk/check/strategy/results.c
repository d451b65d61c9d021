/* check/strategy/results.c: rank processes train as one rank does, unless the strategy says that
 * they do not. */
#include "check/strategy/strategy.h"

#include <stdio.h>
#include <string.h>

#define APART 2e-4 /* of loss and norm: sums in another order, 12 steps long */

/* What the strategy says to a job: that results depend on the layout; a refusal of its own. */
typedef struct answer {
    bool changes, refuses;
} answer;

static answer ask(check_spy *s, uint32_t family, uint32_t axis, uint32_t n)
{
    static check_planned x;
    answer a = {0};
    check_job job = {.family = family, .ranks = n};
    for (uint32_t i = 0; i < WEFT_MAX_MESH; i++)
        job.size[i] = i == axis ? n : 1;
    check_spy_plan(s, &job, &x);
    a.changes = s->changes;
    a.refuses = x.st != WEFT_OK && x.by_plugin;
    check_planned_free(&x);
    return a;
}

/* --- 151 --- */

static uint32_t trained;

static void compare(check_spy *s, uint32_t family, uint32_t axis, uint32_t n,
                    const check_trained *one)
{
    static check_trained many;
    check_train(s, family, axis, n, NULL, NULL, &many);
    if (!many.ran)
        check_fail("%u ranks do not train with '%s': %s", n, s->c->name, many.why);
    const double apart = check_train_apart(&many, one);
    if (!(apart <= APART))
        check_fail("loss or norm of %u ranks with '%s' are off those of one rank by %.2g in %u "
                   "steps (losses %.6f and %.6f at the end); at most %g, or changes_results() says "
                   "so",
                   n, s->c->name, apart, CHECK_TRAIN_STEPS, many.loss[CHECK_TRAIN_STEPS - 1],
                   one->loss[CHECK_TRAIN_STEPS - 1], APART);
    trained++;
}

static void train(check_spy *s)
{
    static check_trained one;
    uint32_t families = check_spy_families(s), axes = check_spy_axes(s);
    families = families < 2 ? families : 2;
    axes += !axes && check_train_spreads(s);
    for (uint32_t i = 0; i < families * axes; i++) {
        const uint32_t f = i % families, axis = i / families;
        const answer a = ask(s, f, axis, 2);
        if (a.changes)
            check_absent("'%s' says that results depend on the layout, with changes_results()",
                         s->c->name);
        if (a.changes || a.refuses)
            continue;
        check_train(s, f, axis, 1, NULL, NULL, &one);
        if (!one.ran)
            check_fail("one rank does not train with '%s': %s", s->c->name, one.why);
        for (uint32_t n = 2; n <= (f ? 2 : 4); n += 2)
            compare(s, f, axis, n, &one);
    }
    if (!trained)
        check_absent("'%s' trains no family that is installed on 2 ranks", s->c->name);
}

void check_strategy_train(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", train);
}

/* --- 154 --- */

static void with_value(check_spy *s, const char *key, const char *value)
{
    static check_trained one, many;
    s->host->set_of = key ? s->c : NULL;
    s->host->set_key = key;
    s->host->set_value = value;
    s->conf = check_conf(s->host, s->c);
    const bool said = ask(s, 0, 0, 2).changes;
    if (!said && !key) /* the check before this one has trained */
        return;
    check_train(s, 0, 0, 1, key, value, &one);
    check_train(s, 0, 0, 2, key, value, &many);
    if (!one.ran || !many.ran) /* a value that this job cannot have, with the sentence */
        return;
    const double apart = check_train_apart(&many, &one);
    const char *with = key ? key : "its defaults", *is = key ? value : "";
    if (said && apart <= APART)
        check_fail("'%s' says that results depend on the layout (%s %s), and 2 ranks train as one: "
                   "loss and norm differ by %.2g at most in %u steps",
                   s->c->name, with, is, apart, CHECK_TRAIN_STEPS);
    if (!said && !(apart <= APART))
        check_fail("with %s = %s, loss or norm of 2 ranks with '%s' are off those of one rank by "
                   "%.2g, and changes_results() is not called",
                   with, is, s->c->name, apart);
}

static void changes(check_spy *s)
{
    uint32_t runs = 0;
    if (!check_train_spreads(s))
        return;
    with_value(s, NULL, NULL);
    for (const weft_option *const *o = s->c->options; o && *o; o++) {
        if ((*o)->type == WEFT_OPT_BOOL)
            with_value(s, (*o)->key, strcmp((*o)->dflt ? (*o)->dflt : "off", "on") ? "on" : "off");
        if ((*o)->type != WEFT_OPT_CHOICE)
            continue;
        for (const char *at = (*o)->choices; *at && runs < 6;
             at += strcspn(at, "|"), at += *at == '|', runs++) {
            char value[128];
            snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "|"), at);
            with_value(s, (*o)->key, value);
        }
    }
}

void check_strategy_changes(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", changes);
}
