/* A strategy whose ranks share the data and train apart: gradients over the mesh axis "workers" are
 * never summed, and every `inner` steps a list averages the parameters. `say` leaves out what the
 * core wants said: all, list (no changes_results), nothing (no list either), words (no list); norm
 * brings another list. mix and anchor say all, and write the average in other ways. `only` is the
 * role of the parameters that the list works on. */
#include <stdbool.h>
#include <string.h>
#include <weft/coll.h>
#include <weft/expr.h>
#include <weft/strategy.h>

#define AXIS "workers"

static const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_BATCH, AXIS, AXIS,
                                    "ranks that train apart"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};
static const weft_option inner = {.struct_size = sizeof inner,
                                  .type = WEFT_OPT_INT,
                                  .key = "inner",
                                  .dflt = "4",
                                  .help = "steps between two averages",
                                  .min = 1,
                                  .max = 1000000};
static const weft_option say = {.struct_size = sizeof say,
                                .type = WEFT_OPT_STRING,
                                .key = "say",
                                .dflt = "all",
                                .help = "all, list, words, norm, nothing, mix or anchor"};
static const weft_option only = {.struct_size = sizeof only,
                                 .type = WEFT_OPT_STRING,
                                 .key = "only",
                                 .dflt = "",
                                 .help = "a role; empty: all parameters"};
static const weft_option *const options[] = {&inner, &say, &only, NULL};

/* The list counts how often it has run. */
static weft_status count(const weft_builder *b)
{
    weft_tensor rounds, one = 0, next = 0;
    weft_status st = b->scalar(b->ctx, "test.rounds", 0, &rounds);
    if (st == WEFT_OK)
        st = b->constant(b->ctx, 1, 0, &one);
    const weft_tensor in[] = {rounds, one};
    if (st == WEFT_OK)
        st = b->op(b->ctx, "add", NULL, 0, in, 2, 0, &next, 1);
    return st != WEFT_OK ? st : b->assign(b->ctx, rounds, next, 0);
}

typedef struct job {
    const weft_view *view;
    const char *only;
} job;

static bool takes_part(const job *j, weft_tensor t)
{
    weft_tensor_info info = {.struct_size = sizeof info};
    return j->view->tensor(j->view->ctx, t, &info) == WEFT_OK && info.kind == WEFT_T_PARAM &&
           (!*j->only || (info.role && !strcmp(info.role, j->only)));
}

/* What makes a parameter of `t`, whose sum over the workers is `sum`. */
typedef weft_tensor next_value(weft_expr *f, double workers, weft_tensor t, weft_tensor sum);

static weft_tensor mean_of(weft_expr *f, double workers, weft_tensor t, weft_tensor sum)
{
    (void)t;
    return weft_scale(f, sum, 1 / workers);
}

/* The mean, half of it from the sum and half from the parameter, which the core sums then. */
static weft_tensor mixed(weft_expr *f, double workers, weft_tensor t, weft_tensor sum)
{
    return weft_op2(f, "add", weft_scale(f, sum, 0.5 / workers), weft_scale(f, t, 0.5 / workers));
}

/* Half way from the last mean to this one; a state keeps the mean. */
static weft_tensor anchored(weft_expr *f, double workers, weft_tensor t, weft_tensor sum)
{
    const weft_tensor anchor = weft_state(f, "test.anchor", t), mean = mean_of(f, workers, t, sum);
    weft_assign(f, anchor, mean);
    return weft_op2(f, "add", weft_scale(f, mean, 0.5), weft_scale(f, anchor, 0.5));
}

static weft_status averages(const job *j, const weft_builder *b, next_value *next)
{
    const weft_view *view = j->view;
    weft_expr f = {b, count(b)};
    const double workers = view->mesh(view->ctx, AXIS);
    const uint32_t n = view->tensors(view->ctx);
    for (weft_tensor t = 1; f.st == WEFT_OK && t <= n; t++) {
        weft_tensor sum = 0;
        if (!takes_part(j, t))
            continue;
        f.st = b->comm(b->ctx,
                       &(weft_comm_args){sizeof(weft_comm_args), 0, WEFT_ALL_REDUCE, WEFT_SUM, AXIS,
                                         NULL, 0, 0},
                       t, &sum);
        weft_assign(&f, t, next(&f, workers, t, sum));
    }
    return f.st;
}

static weft_status average(void *user, const weft_builder *b)
{
    return averages(user, b, mean_of);
}

static weft_status mix(void *user, const weft_builder *b)
{
    return averages(user, b, mixed);
}

static weft_status anchor(void *user, const weft_builder *b)
{
    return averages(user, b, anchored);
}

/* A scalar that is made of the first parameter. */
static weft_status norm(void *user, const weft_builder *b)
{
    const weft_view *view = user;
    weft_tensor t = 1, to, square = 0;
    while (t < view->tensors(view->ctx) && b->kind(b->ctx, t) != WEFT_T_PARAM)
        t++;
    weft_status st = b->scalar(b->ctx, "test.norm", 0, &to);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "sumsq", NULL, 0, &t, 1, 0, &square, 1);
    return st != WEFT_OK ? st : b->assign(b->ctx, to, square, 0);
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)module;
    const char *what = conf->text(conf->ctx, "say");
    const weft_emit emit = !strcmp(what, "mix") ? mix : !strcmp(what, "anchor") ? anchor : average;
    const bool all = !strcmp(what, "all") || emit != average;
    job j = {view, conf->text(conf->ctx, "only")};
    if (view->mesh(view->ctx, AXIS) < 2)
        return WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT)
        return edits->split(edits->ctx, "@input", "tokens", AXIS, 0);
    if (phase != WEFT_PHASE_SYNC)
        return WEFT_OK;
    const uint32_t every = (uint32_t)conf->integer(conf->ctx, "inner");
    weft_status st = edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_NEVER, 0, 0);
    if (st == WEFT_OK && (all || !strcmp(what, "list")))
        st = edits->periodic_list(edits->ctx, "test.average", every, 0, emit, &j);
    if (st == WEFT_OK && !strcmp(what, "norm"))
        st = edits->periodic_list(edits->ctx, "test.norm", every, 0, norm, (void *)(uintptr_t)view);
    if (st == WEFT_OK && (all || !strcmp(what, "words")))
        st = edits->changes_results(edits->ctx, "workers train apart", 0);
    return st;
}

static const weft_strategy table = {.struct_size = sizeof table, .axes = axes, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "test.apart",
                                         .help = "ranks that train apart",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.test.apart", "0", "", components, weft_open_host, NULL);
