/* A strategy whose ranks share the data and train apart: gradients over the mesh axis "workers" are
 * never summed, and every `inner` steps a list averages the parameters. `say` leaves out what the
 * core wants said: all, list (no changes_results), nothing (no list either), words (no list); norm
 * brings another list. */
#include <stdbool.h>
#include <string.h>
#include <weft/coll.h>
#include <weft/strategy.h>

#define AXIS "workers"

static const weft_mesh_axis axis = {sizeof axis, 0, AXIS, AXIS, "ranks that train apart"};
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
                                .help = "all, list, words, norm or nothing"};
static const weft_option *const options[] = {&inner, &say, NULL};

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

static weft_status average(void *user, const weft_builder *b)
{
    const weft_view *view = user;
    weft_tensor share = 0;
    weft_status st = b->constant(b->ctx, 1.0 / view->mesh(view->ctx, AXIS), 0, &share);
    if (st == WEFT_OK)
        st = count(b);
    const uint32_t n = view->tensors(view->ctx);
    for (weft_tensor t = 1; st == WEFT_OK && t <= n; t++) {
        weft_tensor sum = 0, mean = 0;
        if (b->kind(b->ctx, t) != WEFT_T_PARAM)
            continue;
        st = b->comm(b->ctx,
                     &(weft_comm_args){sizeof(weft_comm_args), 0, WEFT_ALL_REDUCE, WEFT_SUM, AXIS,
                                       NULL, 0, 0},
                     t, &sum);
        const weft_tensor in[] = {sum, share};
        if (st == WEFT_OK)
            st = b->op(b->ctx, "mul", NULL, 0, in, 2, 0, &mean, 1);
        if (st == WEFT_OK)
            st = b->assign(b->ctx, t, mean, 0);
    }
    return st;
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
    const bool all = !strcmp(what, "all");
    if (view->mesh(view->ctx, AXIS) < 2)
        return WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT)
        return edits->split(edits->ctx, "@input", "tokens", AXIS, 0);
    if (phase != WEFT_PHASE_SYNC)
        return WEFT_OK;
    const uint32_t every = (uint32_t)conf->integer(conf->ctx, "inner");
    weft_status st = edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_NEVER, 0, 0);
    if (st == WEFT_OK && (all || !strcmp(what, "list")))
        st = edits->periodic_list(edits->ctx, "test.average", every, 0, average,
                                  (void *)(uintptr_t)view);
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

static weft_status begin(const weft_host *host, void **module)
{
    *module = (void *)host;
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "weft.test.apart",  .version = "0", .license = "",
    .build = __VERSION__, .components = components, .open = begin};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
