/* gossip: ranks that share the data and average with one neighbour at a time (gossip SGD, Lian et
 * al., 2017), as a third party would write it.
 *
 * Every coordinate of the mesh axis "peers" trains on its own part of the batch. Two lists of its
 * own average parameters in pairs, every `even` and every `odd` steps: (0 1) (2 3) ..., and (1 2)
 * (3 4) ... (n-1 0). A pair is a group; a coordinate outside a group keeps what it has, so all
 * pairs of a list go one after another over the same tensor, each coordinate being in one of them.
 *
 * A list sends each parameter once, whatever the number of peers. The result depends on that
 * number, which it says. Of four peers, both lists after each step give the mean of all. */
#include <stdio.h>
#include <weft/coll.h>
#include <weft/strategy.h>

#define AXIS "peers"

static const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_BATCH, AXIS, AXIS,
                                    "ranks that average in pairs"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};
#define PERIOD(name, text)                                                                         \
    static const weft_option name = {.struct_size = sizeof name,                                   \
                                     .type = WEFT_OPT_INT,                                         \
                                     .key = #name,                                                 \
                                     .dflt = "1",                                                  \
                                     .help = text,                                                 \
                                     .min = 1,                                                     \
                                     .max = 1000000}
PERIOD(even, "steps between two averages of (0 1) (2 3) ...");
PERIOD(odd, "steps between two averages of (1 2) (3 4) ... (n-1 0)");
static const weft_option *const options[] = {&even, &odd, NULL};

typedef struct pairs {
    const weft_view *view;
    uint32_t first; /* 0 or 1 */
} pairs;

static void name_of(char name[32], uint32_t one)
{
    snprintf(name, 32, "acme.gossip.%u", one);
}

/* Group i is {i, i + 1}; the last goes round. */
static weft_status make_groups(const weft_edits *edits, uint32_t n)
{
    weft_status s = WEFT_OK;
    for (uint32_t i = 0; s == WEFT_OK && i < n; i++) {
        const uint32_t coords[2] = {i + 1 < n ? i : 0, i + 1 < n ? i + 1 : i};
        char name[32];
        name_of(name, i);
        s = edits->group(edits->ctx, name, AXIS, coords, 2, 0);
    }
    return s;
}

/* p = (own p + p of the other of the pair) / 2, for each parameter. */
static weft_status average(void *user, const weft_builder *b)
{
    const pairs *p = user;
    const uint32_t n = p->view->tensors(p->view->ctx), peers = p->view->mesh(p->view->ctx, AXIS);
    weft_tensor half = 0;
    weft_status s = b->constant(b->ctx, 0.5, 0, &half);
    for (weft_tensor t = 1; s == WEFT_OK && t <= n; t++) {
        weft_tensor in[2] = {t, half}, mean = 0;
        if (b->kind(b->ctx, t) != WEFT_T_PARAM)
            continue;
        for (uint32_t i = p->first; s == WEFT_OK && i < peers; i += 2) {
            char name[32];
            name_of(name, i);
            const weft_comm_args args = {sizeof args, 0, WEFT_ALL_REDUCE, WEFT_SUM, name, NULL,
                                         0,           0};
            s = b->comm(b->ctx, &args, in[0], &in[0]);
        }
        if (s == WEFT_OK)
            s = b->op(b->ctx, "mul", NULL, 0, in, 2, 0, &mean, 1);
        if (s == WEFT_OK)
            s = b->assign(b->ctx, t, mean, 0);
    }
    return s;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    const weft_host *host = module;
    const uint32_t n = view->mesh(view->ctx, AXIS);
    weft_status s;
    if (n < 2)
        return WEFT_OK;
    if (n % 2)
        return host->fail(host->ctx, WEFT_USAGE, "parallel.peers must be even: they meet in pairs");
    if (phase == WEFT_PHASE_SPLIT) {
        s = edits->split(edits->ctx, "@input", "tokens", AXIS, 0);
        return s == WEFT_OK ? make_groups(edits, n) : s;
    }
    if (phase != WEFT_PHASE_SYNC)
        return WEFT_OK;
    pairs of_even = {view, 0}, of_odd = {view, 1};
    s = edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_NEVER, 0, 0);
    if (s == WEFT_OK)
        s = edits->periodic_list(edits->ctx, "acme.gossip.even",
                                 (uint32_t)conf->integer(conf->ctx, "even"), 0, average, &of_even);
    if (s == WEFT_OK && n > 2)
        s = edits->periodic_list(edits->ctx, "acme.gossip.odd",
                                 (uint32_t)conf->integer(conf->ctx, "odd"), 0, average, &of_odd);
    return s == WEFT_OK ? edits->changes_results(edits->ctx, "peers average in pairs", 0) : s;
}

static const weft_strategy table = {.struct_size = sizeof table, .axes = axes, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "acme.gossip",
                                         .help = "parameters are averaged in pairs",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.gossip", "1", "", components, weft_open_host, NULL);
