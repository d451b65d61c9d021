/* Strategies, placements and rules whose tables and mesh axes are invalid, one error in each. */
#include <weft/optim.h>

static weft_status edit(void *m, const weft_conf *c, uint32_t phase, const weft_view *v,
                        const weft_edits *e)
{
    (void)m, (void)c, (void)phase, (void)v, (void)e;
    return WEFT_OK;
}

static weft_status place(void *m, const weft_conf *c, const weft_placement_args *args)
{
    (void)m, (void)c, (void)args;
    return WEFT_OK;
}

static weft_status update(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    weft_tensor in[2] = {u->param, u->grad}, out;
    weft_status st = b->op(b->ctx, "sub", NULL, 0, in, 2, 0, &out, 1);
    return st != WEFT_OK ? st : b->assign(b->ctx, u->param, out, 0);
}

#define SIZE ((uint32_t)sizeof(weft_mesh_axis))
#define AXIS(word, ...)                                                                            \
    static const weft_mesh_axis axis_##word = {__VA_ARGS__};                                       \
    static const weft_mesh_axis *const axes_##word[] = {&axis_##word, NULL};                       \
    static const weft_strategy strategy_##word = {sizeof strategy_##word, 0, axes_##word, edit,    \
                                                  NULL};                                           \
    static const weft_component component_##word = {                                               \
        sizeof component_##word, 0,   "weft.strategy/1", #word, "lawless", NULL,                   \
        &strategy_##word,        NULL}
AXIS(axis_size, 8, 0, "ax", "ax", "h");
AXIS(axis_flags, SIZE, 24, "ax", "ax", "h");
AXIS(axis_both, SIZE, 3, "ax", "ax", "h");
AXIS(axis_unnamed, SIZE, 0, NULL, "ax", "h");
AXIS(axis_empty, SIZE, 0, "", "ax", "h");
AXIS(axis_spaced, SIZE, 0, "a x", "ax", "h");
AXIS(axis_long, SIZE, 0, "a123456789012345678901234567890123456789012345678901234567890123", "ax",
     "h");
AXIS(axis_keyless, SIZE, 0, "ax", NULL, "h");
AXIS(axis_key, SIZE, 0, "ax", "Ax=", "h");
AXIS(axis_helpless, SIZE, 0, "ax", "ax", NULL);

static const weft_strategy flagged = {sizeof flagged, 4, NULL, edit, NULL};
static const weft_component component_flagged = {
    sizeof component_flagged, 0, "weft.strategy/1", "flagged", "lawless", NULL, &flagged, NULL};
static const weft_placement sealed = {sizeof sealed, 2, place};
static const weft_component component_sealed = {
    sizeof component_sealed, 0, "weft.placement/1", "sealed", "lawless", NULL, &sealed, NULL};

#define UNIT(n)                                                                                    \
    static const weft_rule rule_##n = {sizeof rule_##n, n, update};                                \
    static const weft_component component_unit##n = {                                              \
        sizeof component_unit##n, 0, "weft.rule/1", "unit" #n, "lawless", NULL, &rule_##n, NULL}
UNIT(0);
UNIT(4);
UNIT(99);

static const weft_component *const components[] = {
    &component_axis_size,  &component_axis_flags,    &component_axis_both, &component_axis_unnamed,
    &component_axis_empty, &component_axis_spaced,   &component_axis_long, &component_axis_keyless,
    &component_axis_key,   &component_axis_helpless, &component_flagged,   &component_sealed,
    &component_unit0,      &component_unit4,         &component_unit99,    NULL};

WEFT_PLUGIN("weft.lawless", "1", "", components, weft_open_host, NULL);
