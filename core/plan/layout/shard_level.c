/* plan/layout/shard_level.c: sets how far each block is sharded, from the edits `shard` and `sync`.
 *
 * All of a block is sharded alike, over one mesh axis, because its parameters and gradients are
 * contiguous in one buffer. A level includes the lower ones: sharded gradients are useless if all
 * ranks update all of the state. Contradicting edits are an error. */
#include "base/err.h"
#include "plan/builder.h"

typedef struct wish { /* for one parameter, by what is sharded: 1 + mesh axis; 0: nothing */
    uint32_t axis[FLAT_LEVELS], ahead;
    const char *owner;
} wish;

static weft_status read_wish(const plan_edit_state *e, const plan_flat_param *p, wish *out)
{
    *out = (wish){.ahead = 0};
    for (uint32_t i = 0; i < e->stores.n; i++) {
        const plan_store_edit *x = &e->stores.at[i];
        if (!graph_glob_match_role(x->glob, p->name, p->role))
            continue;
        if (out->axis[x->what] && out->axis[x->what] != 1 + x->mesh_axis)
            return err_fail(WEFT_USAGE, "%s and %s shard %s over two mesh axes", out->owner,
                            x->owner, p->name);
        out->axis[x->what] = 1 + x->mesh_axis;
        out->ahead = x->ahead > out->ahead ? x->ahead : out->ahead;
        out->owner = x->owner;
    }
    return WEFT_OK;
}

/* Sharded gradients require sharded state, sharded parameters require both, over the same axis. */
static weft_status level_of(const plan_edit_state *e, const plan_flat_param *p, const wish *x,
                            uint32_t *level)
{
    uint32_t axis = x->axis[FLAT_STATE];
    *level = 0;
    for (uint32_t k = FLAT_PARAMS; k >= FLAT_STATE; k--) {
        if (!x->axis[k])
            continue;
        *level = *level ? *level : k;
        if (x->axis[k] != axis)
            *level = FLAT_LEVELS;
    }
    for (uint32_t k = FLAT_STATE; k <= FLAT_PARAMS && *level; k++)
        if (*level == FLAT_LEVELS || (k <= *level && !x->axis[k]))
            return err_fail(
                WEFT_USAGE,
                "%s shards %s in an unsupported combination: sharded gradients need sharded state, "
                "and sharded parameters need both, over the same mesh axis",
                x->owner, p->name);
    if (*level && !(p->sum_axes >> (axis - 1) & 1))
        return err_fail(
            WEFT_UNSUPPORTED,
            p->partial_axes >> (axis - 1) & 1
                ? "%s shards %s over the mesh axis %s, over which its gradient is not summed"
                : "%s shards %s over the mesh axis %s, over which its gradient is whole in each "
                  "micro-batch: nothing that the axis splits reads it, or an op between it and its "
                  "use is not linear in the gradient, by its shard()",
            x->owner, p->name, e->s->mesh.name[axis - 1]);
    return WEFT_OK;
}

static weft_status check_times(const plan_edit_state *e, const plan_flat_param *p,
                               const plan_flat_block *k, const char *owner)
{
    uint64_t own = k->level >= FLAT_GRADS ? (uint64_t)1 << k->axis : 0;
    if (own && p->adds)
        return err_fail(WEFT_UNSUPPORTED,
                        "%s shards the gradient of %s, which adds up over several steps or is "
                        "written together with one that does, by an update_every() with the mean",
                        owner, p->name);
    if (p->every_axes & ~own)
        return err_fail(
            WEFT_UNSUPPORTED,
            "the gradient of %s must be summed after every micro-batch over a mesh axis that "
            "does not shard gradients",
            p->name);
    if (own & ~p->every_axes && e->micro_batches > 1)
        return err_fail(WEFT_USAGE,
                        "%s shards the gradient of %s over %s, but it is summed there once a step; "
                        "it must be summed after every micro-batch",
                        owner, p->name, e->s->mesh.name[k->axis]);
    return WEFT_OK;
}

weft_status plan_shard_levels(plan_builder *b)
{
    plan_flat *f = b->f;
    const plan_edit_state *e = b->edits;
    for (uint32_t i = 0; i < f->params.n; i++) {
        const plan_flat_param *p = &f->params.at[i];
        plan_flat_block *k = &f->blocks.at[p->block];
        wish x;
        uint32_t level = 0;
        weft_status st = read_wish(e, p, &x);
        if (st == WEFT_OK)
            st = level_of(e, p, &x, &level);
        uint32_t axis = level ? x.axis[FLAT_STATE] - 1 : 0;
        if (st == WEFT_OK && i != k->first_param && (level != k->level || axis != k->axis))
            st = err_fail(WEFT_UNSUPPORTED,
                          "%s shards %s differently from the rest of its block %s; this version "
                          "shards all of a block alike",
                          x.owner ? x.owner : "nobody", p->name, k->name);
        if (st != WEFT_OK)
            return st;
        k->level = level;
        k->axis = axis;
        k->parts = level ? e->s->mesh.size[axis] : 1;
        k->ahead = x.ahead > k->ahead ? x.ahead : k->ahead;
        st = check_times(e, p, k, x.owner);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}
