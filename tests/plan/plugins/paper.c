/* A device, a transport and two strategies that only support planning: queries and probes work,
 * nothing else does. The device needs workspace for products; the transport carries anything.
 * "rows" splits the batch over a second mesh axis, "silent" too, but sets no gradient sums. */
#include <string.h>
#include <weft/device.h>
#include <weft/link.h>
#include <weft/strategy.h>

static weft_status query(void *m, const weft_conf *c, const weft_opspec *op, weft_requirements *out)
{
    (void)m, (void)c;
    out->workspace = strncmp(op->id, "linear", 6) ? 0 : 1000;
    return WEFT_OK;
}

static weft_status probe_device(void *m, const weft_conf *c, int32_t *score)
{
    (void)m, (void)c;
    *score = 1;
    return WEFT_OK;
}

static weft_status probe_link(void *m, const weft_conf *c, const weft_link_group *g, int32_t *score)
{
    (void)m, (void)c, (void)g;
    *score = 1;
    return WEFT_OK;
}

/* All other table functions: present, and never called. */
static weft_status unused(void)
{
    return WEFT_INTERNAL;
}
#define UNUSED ((void *)unused)

static weft_device_table device = {
    .struct_size = sizeof device, .caps = WEFT_DEV_HOST_MEMORY, .query = query};
static weft_link_table wire = {.struct_size = sizeof wire, .caps = WEFT_LINK_HOST};

static void fill_slots(void)
{
    void **slot = (void **)(void *)&device.query, **end = (void **)(void *)(&device + 1);
    for (; slot < end; slot++)
        *slot = *slot ? *slot : UNUSED;
    slot = (void **)(void *)&wire.probe;
    end = (void **)(void *)(&wire + 1);
    for (; slot < end; slot++)
        *slot = *slot ? *slot : UNUSED;
    wire.features = NULL;
    device.fuse = NULL; /* no op fusion */
    device.probe = probe_device;
    wire.probe = probe_link;
}

#define INPUTS "@input"

static weft_status split_rows(const weft_view *view, const weft_edits *e, uint32_t phase,
                              const char *axis)
{
    if (view->mesh(view->ctx, axis) < 2 || phase != WEFT_PHASE_SPLIT)
        return WEFT_OK;
    return e->split(e->ctx, INPUTS, "tokens", axis, 0);
}

static weft_status edit_rows(void *m, const weft_conf *c, uint32_t phase, const weft_view *view,
                             const weft_edits *e)
{
    (void)m, (void)c;
    weft_status st = split_rows(view, e, phase, "rows");
    if (st == WEFT_OK && phase == WEFT_PHASE_SYNC)
        st = e->sync(e->ctx, "embed.*|block.*", "rows", WEFT_SYNC_LAST, 3000, 0);
    if (st == WEFT_OK && phase == WEFT_PHASE_SYNC)
        st = e->sync(e->ctx, "head.*", "rows", WEFT_SYNC_LAST, 3000, 0);
    return st;
}

static weft_status edit_silent(void *m, const weft_conf *c, uint32_t phase, const weft_view *view,
                               const weft_edits *e)
{
    (void)m, (void)c;
    return split_rows(view, e, phase, "silent");
}

static weft_status edit_late(void *m, const weft_conf *c, uint32_t phase, const weft_view *view,
                             const weft_edits *e)
{
    (void)m, (void)c, (void)view;
    return phase == WEFT_PHASE_SYNC ? e->split(e->ctx, INPUTS, "tokens", "late", 0) : WEFT_OK;
}

static weft_status edit_twice(void *m, const weft_conf *c, uint32_t phase, const weft_view *view,
                              const weft_edits *e)
{
    (void)m, (void)c;
    weft_status st = split_rows(view, e, phase, "twice");
    for (int i = 0; i < 2 && st == WEFT_OK && phase == WEFT_PHASE_SYNC; i++)
        st = e->sync(e->ctx, "*", "twice", WEFT_SYNC_LAST, 0, 0);
    return st;
}

/* Like rows; its axis declares nothing. */
static weft_status edit_tacit(void *m, const weft_conf *c, uint32_t phase, const weft_view *view,
                              const weft_edits *e)
{
    (void)m, (void)c;
    weft_status st = split_rows(view, e, phase, "tacit");
    if (st == WEFT_OK && phase == WEFT_PHASE_SYNC)
        st = e->sync(e->ctx, "*", "tacit", WEFT_SYNC_LAST, 3000, 0);
    return st;
}

/* What their axes declare is not so. */
static weft_status edit_secret(void *m, const weft_conf *c, uint32_t phase, const weft_view *view,
                               const weft_edits *e)
{
    (void)m, (void)c;
    return split_rows(view, e, phase, "secret");
}

static weft_status edit_idle(void *m, const weft_conf *c, uint32_t phase, const weft_view *view,
                             const weft_edits *e)
{
    (void)m, (void)c, (void)phase, (void)view, (void)e;
    return WEFT_OK;
}

#define STRATEGY(word, bits)                                                                       \
    static const weft_mesh_axis axis_##word = {sizeof axis_##word, bits, #word, #word, "ranks"};   \
    static const weft_mesh_axis *const axes_##word[] = {&axis_##word, NULL};                       \
    static const weft_strategy strategy_##word = {sizeof strategy_##word, 0, axes_##word,          \
                                                  edit_##word, NULL};                              \
    static const weft_component component_##word = {                                               \
        sizeof component_##word, 0,   "weft.strategy/1", #word, "on paper", NULL,                  \
        &strategy_##word,        NULL}
STRATEGY(rows, WEFT_AXIS_BATCH);
STRATEGY(silent, WEFT_AXIS_BATCH);
STRATEGY(late, WEFT_AXIS_BATCH);
STRATEGY(tacit, 0);
STRATEGY(twice, 0);
STRATEGY(secret, WEFT_AXIS_MODEL);
STRATEGY(idle, WEFT_AXIS_BATCH);

static const weft_component on_device = {sizeof on_device,    0,    "weft.device/1", "paper",
                                         "plans, cannot run", NULL, &device,         NULL};
static const weft_component on_wire = {sizeof on_wire,      0,    "weft.link/1", "paper",
                                       "plans, cannot run", NULL, &wire,         NULL};
static const weft_component *const components[] = {
    &on_device,       &on_wire,          &component_rows, &component_silent, &component_late,
    &component_twice, &component_secret, &component_idle, &component_tacit,  NULL};

static weft_status open_module(const weft_host *host, void **module)
{
    *module = (void *)host;
    return WEFT_OK;
}

static const weft_manifest manifest = {WEFT_MANIFEST_HEAD, "weft.paper", "0", "", "",
                                       components,         open_module,  NULL};

const weft_manifest *weft_plugin_entry(void)
{
    fill_slots();
    return &manifest;
}
