/* check/strategy/plans.c: plans with a strategy: sizes of meshes, orders, replacements, company. */
#include "base/err.h"
#include "check/strategy/strategy.h"

#include <string.h>

/* Meshes with n ranks: all on one axis of the strategy, axis after axis, then 2 on each; those of a
 * strategy that brings no axis share the batch. */
static bool mesh_of(const check_spy *s, uint32_t n, uint32_t i, check_job *job)
{
    const uint32_t axes = check_spy_axes(s);
    uint32_t all = 1;
    for (uint32_t k = 0; k < WEFT_MAX_MESH; k++)
        job->size[k] = k == i ? n : 1;
    if (i < axes || (!axes && !i))
        return true;
    for (uint32_t k = 0; k < axes; k++)
        all *= job->size[k] = 2;
    return i == axes && axes > 1 && all == n;
}

/* A refusal by the strategy itself says what it needs; any other one is an edit that does not fit.
 */
static void must_plan(const check_spy *s, const check_planned *x, const char *what, uint32_t n)
{
    if (x->st == WEFT_OK || x->by_plugin)
        return;
    check_fail("a job of the family %s with '%s' over %u ranks%s is not planned: %s", x->family,
               s->c->name, n, what, x->why);
}

/* --- 150 --- */

static void plans(check_spy *s)
{
    static check_planned x;
    static char why[1024];
    const uint32_t families = check_spy_families(s);
    uint32_t planned = 0;
    for (uint32_t f = 0; f < families; f++)
        for (uint32_t n = 1; n <= 8; n++) {
            check_job job = {.family = f, .ranks = n};
            for (uint32_t i = 0; mesh_of(s, n, i, &job); i++) {
                check_spy_plan(s, &job, &x);
                must_plan(s, &x, "", n);
                planned += x.st == WEFT_OK && n > 1;
                if (x.by_plugin)
                    memcpy(why, x.why, sizeof why);
                check_planned_free(&x);
            }
        }
    if (!planned)
        check_fail("'%s' refuses every job over 2 to 8 ranks: %s", s->c->name, why);
}

void check_strategy_plans(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", plans);
}

/* --- 152 --- */

static bool emits(const check_spy *s, const char *edit)
{
    for (uint32_t i = 0; i < s->n && i < CHECK_SPY_EDITS; i++)
        if (!strcmp(s->edits[i].name, edit))
            return true;
    return false;
}

static bool any_order;

/* Each choice of the strategy's, since one of them is often the schedule. */
static void orders_with(check_spy *s)
{
    static check_planned x;
    static const uint32_t passes[] = {1, 2, 3, 5, 8, 11};
    for (uint32_t n = 2; n <= 5; n++)
        for (size_t k = 0; k < sizeof passes / sizeof *passes; k++) {
            check_job job = {.ranks = n, .micro_batches = passes[k]};
            for (uint32_t i = 0; i < check_spy_axes(s) && mesh_of(s, n, i, &job); i++) {
                check_spy_plan(s, &job, &x);
                any_order |= emits(s, "order");
                must_plan(s, &x, ", with its orders on a machine that does not buffer", n);
                check_planned_free(&x);
            }
        }
}

static void orders(check_spy *s)
{
    orders_with(s);
    for (const weft_option *const *o = s->c->options; any_order && o && *o; o++) {
        if ((*o)->type != WEFT_OPT_CHOICE)
            continue;
        for (const char *at = (*o)->choices; *at; at += strcspn(at, "|"), at += *at == '|') {
            char value[128] = "";
            memcpy(value, at, strcspn(at, "|") < 127 ? strcspn(at, "|") : 127);
            s->host->set_of = s->c;
            s->host->set_key = (*o)->key;
            s->host->set_value = value;
            s->conf = check_conf(s->host, s->c);
            orders_with(s);
        }
        s->host->set_of = NULL;
        s->conf = check_conf(s->host, s->c);
    }
}

void check_strategy_orders(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", orders);
    if (!any_order)
        check_not_applicable("its strategies have no schedule of their own");
}

/* --- 153 --- */

static bool any_replacement;

static void replacements(check_spy *s)
{
    static check_planned x;
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16};
    const uint32_t families = check_spy_families(s);
    for (uint32_t f = 0; f < families; f++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            for (uint32_t n = 2; n <= 4; n += 2) {
                check_job job = {.family = f, .ranks = n, .compute = types[k]};
                for (uint32_t i = 0; mesh_of(s, n, i, &job); i++) {
                    check_spy_plan(s, &job, &x);
                    any_replacement |= emits(s, "replace");
                    if (emits(s, "replace"))
                        must_plan(s, &x,
                                  k ? " in bf16, with its replacements" : ", with its replacements",
                                  n);
                    check_planned_free(&x);
                }
            }
}

void check_strategy_replacements(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", replacements);
    if (!any_replacement)
        check_not_applicable("its strategies replace no op");
}

/* --- 155 --- */

static uint32_t companions;

static void in_company(check_spy *s, const host_component *other)
{
    static check_planned x;
    const uint32_t families = check_spy_families(s);
    for (uint32_t f = 0; f < families; f++)
        for (uint32_t before = 0; before < 2; before++) {
            check_job job = {.family = f, .ranks = 4};
            for (uint32_t i = 0; i < WEFT_MAX_MESH; i++)
                job.size[i] = i ? 1 : 2;
            if (before)
                job.before = other;
            else
                job.after = other;
            check_spy_plan(s, &job, &x);
            if (x.st != WEFT_OK && (s->silent || !*x.why))
                check_fail("a job with '%s' %s '%s' is refused with %s and without a sentence",
                           s->c->name, before ? "after" : "before", other->name,
                           check_status(x.st));
            if (x.st == WEFT_INTERNAL || x.st >= WEFT_INTERNAL)
                check_fail("a job with '%s' %s '%s' ends with %s: %s", s->c->name,
                           before ? "after" : "before", other->name, check_status(x.st), x.why);
            check_planned_free(&x);
        }
    companions++;
}

static void company(check_spy *s)
{
    const host_component **all;
    uint32_t n;
    host_list(s->run->h, "parallel", &all, &n);
    for (uint32_t i = 0; i < n; i++) {
        const weft_strategy *t = all[i]->table;
        if (all[i]->iface && !strcmp(all[i]->iface, "weft.strategy/1") && t && !t->list &&
            strcmp(all[i]->name, s->c->name) != 0)
            in_company(s, all[i]);
    }
    if (!companions)
        check_absent("no other strategy is installed");
}

void check_strategy_company(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", company);
}
