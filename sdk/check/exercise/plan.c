/* check/exercise/plan.c: plans a small job with one component, as `weft plan` does.
 *
 * The spec is written here instead of resolved: the model, a mesh with two coordinates on each axis
 * that the component brings, and stand-ins for what the component is not: a device that has a
 * kernel for every op, a link, a rule that changes nothing, and a strategy that splits the batch.
 * Kernels of the file itself are never asked for, because the stand-in device has all. */
#include "plan/plan.h"

#include "base/err.h"
#include "check/exercise/exercise.h"
#include "resolve/spec.h"

#include <stdio.h>
#include <string.h>

/* --- stand-ins --- */

static weft_status has_all(void *module, const weft_conf *conf, const weft_opspec *op,
                           weft_requirements *out)
{
    (void)module, (void)conf, (void)op, (void)out;
    return WEFT_OK;
}

static weft_status keeps(void *module, const weft_conf *conf, const weft_builder *b,
                         const weft_update *u)
{
    (void)module, (void)conf;
    return b->assign(b->ctx, u->param, u->param, 0);
}

static weft_status split_batch(void *module, const weft_conf *conf, uint32_t phase,
                               const weft_view *view, const weft_edits *edits)
{
    (void)module, (void)conf, (void)view;
    if (phase == WEFT_PHASE_SPLIT)
        return edits->split(edits->ctx, "@input", "tokens", "batch", 0);
    if (phase == WEFT_PHASE_SYNC)
        return edits->sync(edits->ctx, "*", "batch", WEFT_SYNC_LAST, 0, 0);
    return WEFT_OK;
}

static const weft_device_table device_table = {
    .struct_size = sizeof device_table, .caps = WEFT_DEV_HOST_MEMORY, .query = has_all};
static const weft_link_table link_table = {.struct_size = sizeof link_table,
                                           .caps = WEFT_LINK_HOST};
static const weft_rule rule_table = {sizeof rule_table, WEFT_UNIT_ELEMENT, keeps};
static const weft_mesh_axis batch = {sizeof batch, WEFT_AXIS_BATCH, "batch", "batch",
                                     "ranks that share the batch"};
static const weft_mesh_axis *const batch_axes[] = {&batch, NULL};
static const weft_strategy batch_table = {
    .struct_size = sizeof batch_table, .axes = batch_axes, .edit = split_batch};

static const host_component device = {
    .kind = "device", .iface = "weft.device/1", .name = "check.device", .table = &device_table};
static const host_component link_ = {
    .kind = "comm", .iface = "weft.link/1", .name = "check.link", .table = &link_table};
static const host_component rule = {
    .kind = "optim", .iface = "weft.rule/1", .name = "check.rule", .table = &rule_table};
const host_component check_exercise_batch = {
    .kind = "parallel", .iface = "weft.strategy/1", .name = "check.batch", .table = &batch_table};

/* --- the job --- */

static void add_axis(spec *s, const char *name)
{
    const uint32_t a = s->mesh.n++;
    s->mesh.name[a] = name;
    s->mesh.size[a] = 2;
    s->size_key[a] = name;
    s->axis_algorithm[a] = "auto";
    s->ranks *= 2;
}

static void add_strategy(spec *s, const host_component *c, const weft_conf *conf)
{
    const weft_strategy *t = c->table;
    s->strategies[s->nstrategies++] = (spec_plugin){c, conf};
    for (uint32_t i = 0; t->axes && t->axes[i] && s->mesh.n < WEFT_MAX_MESH; i++) {
        resolve_axis_flags(s, t->axes[i]);
        add_axis(s, t->axes[i]->name);
    }
}

void check_exercise_spec(spec *s, const check_exercise *d)
{
    *s = (spec){.host = d->run->h,
                .want = SPEC_TRAIN,
                .ranks = 1,
                .device = {&device, NULL},
                .rule = {&rule, NULL},
                .nlinks = 1,
                .batch = d->job.batch ? d->job.batch : 32,
                .micro_batch = 1, /* a strategy may split one sequence */
                .compute = WEFT_F32,
                .grad_dtype = WEFT_F32,
                .precision = "fp32",
                .compress = "none",
                .loss_scale = 1,
                .clip = 1,
                .bucket_bytes = 1 << 20,
                .schedule = {SPEC_CONSTANT, 1e-3, 0, 0, 10}};
    s->links[0].c = &link_;
}

static weft_status plan_with(check_exercise *d, const host_component *own, const weft_conf *conf)
{
    spec s;
    plan_set p = {0};
    config *options = NULL;
    check_exercise_spec(&s, d);
    if (!strcmp(own->iface, "weft.strategy/1"))
        add_strategy(&s, own, conf);
    else
        add_strategy(&s, &check_exercise_batch, NULL);
    if (!strcmp(own->iface, "weft.rule/1"))
        s.rule = (spec_plugin){own, conf};
    if (!strcmp(own->iface, "weft.placement/1"))
        s.placement = (spec_plugin){own, conf};
    const bool is_model = !strcmp(own->iface, "weft.model/1");
    weft_status st = is_model ? check_exercise_describe(d, own, conf, &s)
                              : check_exercise_family(d, &s, &options);
    if (st == WEFT_OK && is_model && d->large && s.family.c) {
        st = check_exercise_build(&s);
    } else if (st == WEFT_OK && s.family.c) {
        err_clear();
        st = plan_build(&s, &p);
        if (st == WEFT_OK)
            st = plan_check(&p);
        d->digest = d->digest * 31 + p.digest;
        plan_free(&p);
    }
    config_destroy(options);
    pool_free(&s.pool);
    return st;
}

/* --- the component, behind functions that lend its arguments --- */

/* What fails from here on is the core's planning with what the call asked for. */
static weft_status answered(const check_behind *w, weft_status st, const char *then)
{
    if (st == WEFT_OK)
        w->d->where = then;
    return st;
}

static weft_status behind_update(void *module, const weft_conf *conf, const weft_builder *b,
                                 const weft_update *u)
{
    const check_behind *w = module;
    check_lend *l = &w->d->lend;
    const weft_rule *t = w->c->table;
    weft_update lent = *u;
    lent.name = check_lend_text(l, u->name);
    lent.role = check_lend_text(l, u->role);
    b = check_lend_table(l, check_below_builder(l, b));
    u = CHECK_LEND(l, weft_update, &lent);
    w->d->where = "update";
    const weft_status st = PLUGIN_GET(t, update, w->d->module, conf, b, u);
    return answered(w, check_lend_end(l, st), "the plan after update");
}

static weft_status behind_edit(void *module, const weft_conf *conf, uint32_t phase,
                               const weft_view *view, const weft_edits *edits)
{
    const check_behind *w = module;
    check_lend *l = &w->d->lend;
    const weft_strategy *t = w->c->table;
    view = check_lend_table(l, check_below_view(l, view));
    edits = check_lend_table(l, check_below_edits(l, edits));
    w->d->where = "edit";
    const weft_status st = PLUGIN_GET(t, edit, w->d->module, conf, phase, view, edits);
    return answered(w, check_lend_end(l, st), "the plan after edit");
}

static weft_status behind_place(void *module, const weft_conf *conf,
                                const weft_placement_args *args)
{
    const check_behind *w = module;
    check_lend *l = &w->d->lend;
    const weft_placement *t = w->c->table;
    const char *axes[WEFT_MAX_MESH + 1] = {0};
    weft_placement_args lent = *args;
    uint32_t n = 0;
    for (; n < WEFT_MAX_MESH && args->mesh_axes[n]; n++)
        axes[n] = check_lend_text(l, args->mesh_axes[n]);
    lent.mesh_axes = check_lend_bytes(l, axes, (n + 1) * sizeof *axes);
    lent.view = check_lend_table(l, check_below_view(l, args->view));
    lent.edits = check_lend_table(l, check_below_edits(l, args->edits));
    args = CHECK_LEND(l, weft_placement_args, &lent);
    w->d->where = "edit";
    const weft_status st = PLUGIN_GET(t, edit, w->d->module, conf, args);
    return answered(w, check_lend_end(l, st), "the plan after edit");
}

weft_status check_exercise_plan(check_exercise *d, const host_component *c)
{
    host_component own = *c;
    check_behind w = {d, c};
    const weft_strategy *strategy = c->table;
    const weft_rule *rule_of = c->table;
    const weft_strategy strategy_lent = {sizeof strategy_lent, 0, strategy->axes, behind_edit,
                                         NULL};
    const weft_placement place_lent = {sizeof place_lent, 0, behind_place};
    const weft_rule rule_lent = {sizeof rule_lent, rule_of->unit, behind_update};
    const struct {
        const char *iface, *where;
        const void *table;
    } lent[] = {{"weft.strategy/1", "edit", &strategy_lent},
                {"weft.placement/1", "edit", &place_lent},
                {"weft.rule/1", "update", &rule_lent},
                {"weft.model/1", "describe", &check_exercise_model_lent}};
    if (!strcmp(c->iface, "weft.strategy/1") && strategy->list) /* its edit() is never called */
        return WEFT_OK;
    for (size_t i = 0; i < sizeof lent / sizeof *lent; i++)
        if (!strcmp(c->iface, lent[i].iface)) {
            own.table = lent[i].table;
            d->where = lent[i].where;
        }
    own.module = &w;
    return plan_with(d, &own, check_conf(d->host, c));
}
