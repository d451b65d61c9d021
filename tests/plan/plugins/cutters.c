/* Placements with impossible requests, and a rule that does not support sharding. */
#include <weft/optim.h>

static weft_status half(void *m, const weft_conf *c, const weft_placement_args *args)
{
    const weft_edits *e = args->edits;
    const char *const *axes = args->mesh_axes;
    (void)m, (void)c;
    return e->shard(e->ctx, WEFT_SHARD_GRADS, "*", axes[0], 0, 0);
}

static weft_status some(void *m, const weft_conf *c, const weft_placement_args *args)
{
    const weft_edits *e = args->edits;
    const char *const *axes = args->mesh_axes;
    (void)m, (void)c;
    return e->shard(e->ctx, WEFT_SHARD_STATE, "block.*.attn.*", axes[0], 0, 0);
}

static weft_status once(void *m, const weft_conf *c, const weft_placement_args *args)
{
    const weft_edits *e = args->edits;
    const char *const *axes = args->mesh_axes;
    (void)m, (void)c;
    weft_status st = e->shard(e->ctx, WEFT_SHARD_STATE, "*", axes[0], 0, 0);
    return st != WEFT_OK ? st : e->shard(e->ctx, WEFT_SHARD_GRADS, "*", axes[0], 0, 0);
}

static weft_status often(void *m, const weft_conf *c, const weft_placement_args *args)
{
    const weft_edits *e = args->edits;
    const char *const *axes = args->mesh_axes;
    (void)m, (void)c;
    return e->sync(e->ctx, "*", axes[0], WEFT_SYNC_EVERY, 0, 0);
}

static weft_status misled(void *m, const weft_conf *c, const weft_placement_args *args)
{
    const weft_edits *e = args->edits;
    const char *const *axes = args->mesh_axes;
    (void)m, (void)c;
    return e->shard(e->ctx, WEFT_SHARD_STATE, "no.such.*", axes[0], 0, 0);
}

/* Blocks with alternating levels: valid. */
static weft_status turns(void *m, const weft_conf *c, const weft_placement_args *args)
{
    const weft_edits *e = args->edits;
    const char *const *axes = args->mesh_axes;
    (void)m, (void)c;
    weft_status st = e->shard(e->ctx, WEFT_SHARD_STATE, "block.*|embed.*", axes[0], 0, 0);
    if (st == WEFT_OK)
        st = e->shard(e->ctx, WEFT_SHARD_GRADS, "block.*", axes[0], 0, 0);
    if (st == WEFT_OK)
        st = e->sync(e->ctx, "block.*", axes[0], WEFT_SYNC_EVERY, 0, 0);
    return st != WEFT_OK ? st : e->shard(e->ctx, WEFT_SHARD_PARAMS, "block.1.*", axes[0], 1, 0);
}

/* One gradient step; declares that it needs whole matrices. */
static weft_status update(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    weft_tensor in[2] = {u->param, u->grad}, out;
    weft_status st = b->op(b->ctx, "sub", NULL, 0, in, 2, 0, &out, 1);
    return st != WEFT_OK ? st : b->assign(b->ctx, u->param, out, 0);
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_MATRIX, update};
static const weft_component matrices = {sizeof matrices,        0,    "weft.rule/1", "matrices",
                                        "wants whole matrices", NULL, &rule,         NULL};

#define PLACEMENT(word)                                                                            \
    static const weft_placement placement_##word = {sizeof placement_##word, 0, word};             \
    static const weft_component component_##word = {                                               \
        sizeof component_##word, 0,   "weft.placement/1", #word, "cuts", NULL,                     \
        &placement_##word,       NULL}
PLACEMENT(half);
PLACEMENT(some);
PLACEMENT(once);
PLACEMENT(often);
PLACEMENT(misled);
PLACEMENT(turns);

static const weft_component *const components[] = {
    &matrices,        &component_half,   &component_some,  &component_once,
    &component_often, &component_misled, &component_turns, NULL};

WEFT_PLUGIN("weft.cutters", "0", "", components, weft_open_host, NULL);
