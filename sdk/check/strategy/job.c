/* check/strategy/job.c: plans a job with a strategy or placement under watch. */
#include "base/err.h"
#include "check/strategy/strategy.h"
#include "resolve/spec.h"

#include <stdio.h>
#include <string.h>

#define SEQUENCE 16u

/* A rule with a state as large as the parameters, for placements to shard. */
static weft_status keep_state(void *module, const weft_conf *conf, const weft_builder *b,
                              const weft_update *u)
{
    const weft_state_args args = {.struct_size = sizeof args, .name = "m", .like = u->param};
    weft_tensor m = 0;
    (void)module, (void)conf;
    weft_status st = b->state(b->ctx, &args, &m);
    if (st == WEFT_OK)
        st = b->assign(b->ctx, m, u->grad, 0);
    return st == WEFT_OK ? b->assign(b->ctx, u->param, u->param, 0) : st;
}

static const weft_rule rule_table = {sizeof rule_table, WEFT_UNIT_ELEMENT, keep_state};
static const host_component rule = {
    .kind = "optim", .iface = "weft.rule/1", .name = "check.rule", .table = &rule_table};

static void add_axis(spec *s, const char *name, uint32_t size)
{
    const uint32_t a = s->mesh.n++;
    s->mesh.name[a] = s->size_key[a] = name;
    s->mesh.size[a] = size;
    s->axis_algorithm[a] = "auto";
    s->ranks *= size;
}

static void add_strategy(spec *s, const host_component *c, const weft_conf *conf,
                         const host_component *of, const uint32_t *size)
{
    const weft_strategy *t = of->table;
    s->strategies[s->nstrategies++] = (spec_plugin){c, conf};
    for (uint32_t i = 0; t->axes && t->axes[i] && s->mesh.n < WEFT_MAX_MESH; i++) {
        resolve_axis_flags(s, t->axes[i]);
        add_axis(s, t->axes[i]->name, size && size[i] ? size[i] : 2);
    }
}

/* Another strategy, with its defaults. */
static void add_other(check_spy *spy, spec *s, const host_component *c)
{
    if (!c)
        return;
    if (host_open(spy->run->h, c) != WEFT_OK)
        check_fail("'%s' does not open: %s", c->name, err_text());
    add_strategy(s, c, check_conf(spy->host, c), c, NULL);
}

/* Data parallelism, for placements and strategies that bring no axis. */
static void add_batch(spec *s, const check_job *job)
{
    add_strategy(s, &check_exercise_batch, NULL, &check_exercise_batch, job->size);
}

static void add_strategies(check_spy *spy, const check_job *job, check_planned *x)
{
    spec *s = &x->s;
    x->own = *spy->c;
    x->own.module = spy;
    if (!strcmp(spy->c->iface, "weft.placement/1")) {
        x->own.table = &check_spy_placement;
        s->rule = (spec_plugin){&rule, NULL};
        if (!job->without)
            s->placement = (spec_plugin){&x->own, spy->conf};
        if (job->side)
            add_axis(s, "side", job->side);
        add_batch(s, job);
        return;
    }
    x->own.table = &check_spy_strategy;
    add_other(spy, s, job->before);
    add_strategy(s, &x->own, spy->conf, spy->c, job->size);
    if (!check_spy_axes(spy))
        add_batch(s, job);
    add_other(spy, s, job->after);
}

static void plan_it(check_spy *spy, const check_job *job, check_planned *x)
{
    const uint32_t n = job->ranks ? job->ranks : 2;
    check_exercise_spec(&x->s, &x->d);
    add_strategies(spy, job, x);
    x->s.compute = job->compute ? job->compute : WEFT_F32;
    x->s.precision = job->compute == WEFT_BF16 ? "bf16" : "fp32";
    x->st = check_exercise_family(&x->d, &x->s, &x->options);
    if (x->st == WEFT_OK && !x->s.family.c)
        check_not_applicable("%s", x->d.absent);
    if (x->st != WEFT_OK)
        return;
    x->family = x->s.family.c->name;
    x->s.sequence = SEQUENCE / n * n;
    if (job->renamed)
        check_rename(&x->s);
    err_clear();
    check_host_clear(spy->host);
    x->st = plan_build(&x->s, &x->p);
    if (x->st == WEFT_OK)
        x->st = plan_check(&x->p);
}

void check_spy_plan(check_spy *spy, const check_job *job, check_planned *x)
{
    const uint32_t n = job->ranks ? job->ranks : 2;
    const uint32_t heads = n < 4 ? 4 / n * n + (n == 3 ? 3 : 0) : n;
    memset(x, 0, sizeof *x);
    spy->n = spy->phase = spy->ndata = 0;
    spy->changes = spy->silent = false;
    spy->refused = spy->odd_edit = NULL;
    spy->answer = spy->odd = WEFT_OK;
    x->d = (check_exercise){.run = spy->run, .host = spy->host, .module = spy->module};
    x->d.of = spy->c->name;
    x->d.job = (check_exercise_job){.family = job->family,
                                    .layers = n < 4 ? 4 : n,
                                    .heads = heads,
                                    .embed = heads * 8,
                                    .vocab = 840, /* 1 to 8 divide it */
                                    .batch = n * (job->micro_batches ? job->micro_batches : 2)};
    plan_it(spy, job, x);
    x->by_plugin = spy->host->why[0];
    snprintf(x->why, sizeof x->why, "%s", x->by_plugin ? spy->host->why : err_text());
}

void check_planned_free(check_planned *x)
{
    plan_free(&x->p);
    config_destroy(x->options);
    pool_free(&x->s.pool);
}

uint32_t check_spy_families(check_spy *spy)
{
    char first[WEFT_MAX_NAME] = "";
    for (uint32_t i = 0; i < 16; i++) {
        spec s;
        config *options = NULL;
        check_exercise d = {.run = spy->run, .host = spy->host, .of = spy->c->name};
        d.job.family = i;
        check_exercise_spec(&s, &d);
        const weft_status st = check_exercise_family(&d, &s, &options);
        if (st != WEFT_OK)
            check_fail("a model family cannot be used: %s", err_text());
        const bool again = s.family.c && !strcmp(s.family.c->name, first);
        if (s.family.c && !i)
            snprintf(first, sizeof first, "%s", s.family.c->name);
        config_destroy(options);
        pool_free(&s.pool);
        if (!s.family.c)
            check_not_applicable("%s", d.absent);
        if (again)
            return i;
    }
    return 16;
}
