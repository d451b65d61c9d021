/* plan/edits/stages.c: the edits about pipeline stages: blocks of a stage, and its order of work.
 *
 * A stage is a coordinate of one mesh axis; a chunk is a range of blocks that it runs together
 * (with several chunks per stage, data passes all stages several times). Edits are only stored and
 * checked for consistency here; lower/micro_batches.c builds lists from them, and check.c finds
 * orders that hang. */
#include "plan/edits/emitters.h"

#include "base/err.h"
#include "graph/arguments.h"

#include <string.h>

#define NO_STAGE UINT32_MAX

/* The mesh axis of a stage edit; all stage edits of a job must name the same axis. */
static weft_status stage_axis(plan_edit_state *e, const char *axis, uint32_t a, uint32_t stage)
{
    struct plan_stage_map *m = &e->stages;
    if (a >= FIRST_GROUP)
        return err_fail(WEFT_USAGE, "stages on '%s', which is a group and no mesh axis", axis);
    if (m->axis >= 0 && (uint32_t)m->axis != a)
        return err_fail(WEFT_USAGE, "%s puts stages on the mesh axis %s already: one axis only",
                        m->owner, e->s->mesh.name[m->axis]);
    if (stage >= e->s->mesh.size[a])
        return err_fail(WEFT_USAGE, "stage %u of %s, which has %u", stage, axis,
                        e->s->mesh.size[a]);
    if (m->axis >= 0)
        return WEFT_OK;
    m->axis = (int32_t)a;
    m->owner = e->owner;
    m->blocks = e->g->blocks.n;
    m->stage = pool_array(e->pool, m->blocks, sizeof *m->stage);
    m->chunk = pool_array(e->pool, m->blocks, sizeof *m->chunk);
    m->orders = pool_array(e->pool, e->s->mesh.size[a], sizeof *m->orders);
    for (uint32_t i = 0; i < m->blocks; i++)
        m->stage[i] = NO_STAGE;
    return WEFT_OK;
}

weft_status plan_edit_stage(void *ctx, const char *blocks, const char *mesh_axis, uint32_t stage,
                            uint32_t chunk, uint32_t flags)
{
    static const char call[] = "edits.stage";
    plan_edit_state *e = ctx;
    uint32_t a = 0;
    weft_status st = plan_edit_begin(e, call, flags, WEFT_PHASE_STAGE);
    st = plan_edit_glob(st, call, "blocks", blocks);
    st = plan_edit_axis(st, e, call, mesh_axis, &a);
    if (st == WEFT_OK && chunk >= e->g->blocks.n)
        st = err_fail(WEFT_USAGE, "chunk %u of a model of %u blocks", chunk, e->g->blocks.n);
    if (st == WEFT_OK)
        st = stage_axis(e, mesh_axis, a, stage);
    bool any = false;
    for (uint32_t i = 0; st == WEFT_OK && i < e->stages.blocks; i++) {
        struct plan_stage_map *m = &e->stages;
        if (!graph_glob_match(blocks, e->g->blocks.at[i]))
            continue;
        any = true;
        if (m->stage[i] != NO_STAGE && (m->stage[i] != stage || m->chunk[i] != chunk))
            st = err_fail(WEFT_USAGE, "block %s is on stage %u already, put there by %s",
                          e->g->blocks.at[i], m->stage[i], m->owner);
        m->stage[i] = stage;
        m->chunk[i] = chunk;
        m->chunks = chunk + 1 > m->chunks ? chunk + 1 : m->chunks;
    }
    if (st == WEFT_OK && !any)
        st = err_fail(WEFT_USAGE, "no block is named '%s'", blocks);
    return plan_edit_end(e, call, st);
}

weft_status plan_edit_order(void *ctx, const char *mesh_axis, uint32_t stage,
                            const weft_work *cells, uint32_t n, uint32_t flags)
{
    static const char call[] = "edits.order";
    plan_edit_state *e = ctx;
    uint32_t a = 0;
    weft_status st = plan_edit_begin(e, call, flags, WEFT_PHASE_STAGE);
    st = plan_edit_axis(st, e, call, mesh_axis, &a);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "work", cells);
    /* one forward and two parts of a backward for each chunk and micro-batch */
    const uint64_t max = st != WEFT_OK ? 0 : 3 * (uint64_t)e->g->blocks.n * e->micro_batches;
    if (st == WEFT_OK && n > max)
        st = err_fail(WEFT_USAGE,
                      "%u cells for stage %u; %u blocks and %llu micro-batches have at most %llu",
                      n, stage, e->g->blocks.n, (unsigned long long)e->micro_batches,
                      (unsigned long long)max);
    if (st == WEFT_OK)
        st = stage_axis(e, mesh_axis, a, stage);
    if (st == WEFT_OK && e->stages.orders[stage].work)
        st = err_fail(WEFT_USAGE, "stage %u has an order already", stage);
    if (st == WEFT_OK)
        e->stages.orders[stage] =
            (plan_stage_order){n, pool_copy(e->pool, cells, n * sizeof *cells)};
    return plan_edit_end(e, call, st);
}

/* Is it the same group? Each graph is planned several times, always with the same groups. */
static weft_status same_group(const graph_group *have, uint32_t axis, const uint32_t *coords,
                              uint32_t n)
{
    if (have->mesh_axis == axis && have->n == n &&
        !memcmp(have->coords, coords, n * sizeof *coords))
        return WEFT_OK;
    return err_fail(WEFT_USAGE, "the group %s exists, with other coordinates", have->name);
}

static weft_status group(plan_edit_state *e, const char *name, const char *axis, uint32_t a,
                         const uint32_t *coords, uint32_t n)
{
    weft_status st = WEFT_OK;
    if (a >= FIRST_GROUP || !n || n > e->s->mesh.size[a])
        st = err_fail(WEFT_USAGE, "the group %s of %u coordinates of %s, which has none or fewer",
                      name, n, axis);
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++)
        if (coords[i] >= e->s->mesh.size[a] || (i && coords[i] <= coords[i - 1]))
            st = err_fail(WEFT_USAGE,
                          "the coordinates of group %s are not ascending numbers below %u", name,
                          e->s->mesh.size[a]);
    for (uint32_t i = 0; st == WEFT_OK && i < e->groups.n; i++)
        if (!strcmp(e->groups.at[i].name, name))
            return same_group(&e->groups.at[i], a, coords, n);
    if (st != WEFT_OK)
        return st;
    if (e->groups.n == 64 - FIRST_GROUP || graph_mesh_axis(&e->s->mesh, name) >= 0)
        return err_fail(WEFT_USAGE, "the table of groups has no room for %s", name);
    const uint32_t *copy = pool_copy(e->pool, coords, n * sizeof *coords);
    *vec_push(&e->groups) = (graph_group){pool_text(e->pool, name), a, n, copy};
    plan_edits_show_groups(e);
    return WEFT_OK;
}

weft_status plan_edit_group(void *ctx, const char *name, const char *mesh_axis,
                            const uint32_t *coords, uint32_t n, uint32_t flags)
{
    static const char call[] = "edits.group";
    plan_edit_state *e = ctx;
    uint32_t a = 0;
    const bool staging = e && e->phase == WEFT_PHASE_STAGE;
    weft_status st = plan_edit_begin(e, call, flags, staging ? WEFT_PHASE_STAGE : WEFT_PHASE_SPLIT);
    if (st == WEFT_OK)
        st = graph_check_name(call, "name", name);
    st = plan_edit_axis(st, e, call, mesh_axis, &a);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "coords", coords);
    return plan_edit_end(e, call, st != WEFT_OK ? st : group(e, name, mesh_axis, a, coords, n));
}

/* Check that an order has every (chunk, micro-batch) once forward and once backward, forward
 * first. */
static weft_status check_order(const plan_edit_state *e, uint32_t stage)
{
    const struct plan_stage_map *m = &e->stages;
    const plan_stage_order *o = &m->orders[stage];
    uint64_t cells = (uint64_t)m->chunks * e->micro_batches, done = 0;
    uint8_t *seen = pool_array(e->pool, cells, 1);
    for (uint32_t i = 0; i < o->n; i++) {
        const weft_work *w = &o->work[i];
        if (w->phase != WEFT_WORK_FORWARD && w->phase != WEFT_WORK_BACKWARD)
            return err_fail(
                WEFT_UNSUPPORTED,
                "%s orders backward passes of inputs and of parameters apart; this version "
                "runs them together",
                m->owner);
        bool back = w->phase == WEFT_WORK_BACKWARD;
        if (w->chunk >= m->chunks || w->micro_batch >= e->micro_batches)
            return err_fail(WEFT_USAGE,
                            "%s orders chunk %u of micro-batch %u on stage %u; there are "
                            "%u chunks and %llu micro-batches",
                            m->owner, w->chunk, w->micro_batch, stage, m->chunks,
                            (unsigned long long)e->micro_batches);
        uint8_t *cell = &seen[(uint64_t)w->micro_batch * m->chunks + w->chunk];
        if (*cell != (back ? 1 : 0))
            return err_fail(WEFT_USAGE,
                            "%s orders the %s pass of chunk %u, micro-batch %u on stage %u "
                            "%s",
                            m->owner, back ? "backward" : "forward", w->chunk, w->micro_batch,
                            stage, back && !*cell ? "before its forward pass" : "twice");
        ++*cell;
        done++;
    }
    if (done != 2 * cells)
        return err_fail(WEFT_USAGE, "%s orders %llu passes on stage %u; %llu are needed", m->owner,
                        (unsigned long long)done, stage, (unsigned long long)(2 * cells));
    return WEFT_OK;
}

weft_status plan_stages_finish(plan_edit_state *e)
{
    struct plan_stage_map *m = &e->stages;
    if (m->axis < 0)
        return WEFT_OK;
    for (uint32_t i = 0; i < m->blocks; i++)
        if (m->stage[i] == NO_STAGE)
            return err_fail(WEFT_USAGE, "%s puts blocks on stages, but %s on none", m->owner,
                            e->g->blocks.at[i]);
    for (uint32_t i = 1; i < m->blocks; i++)
        if (m->chunk[i] < m->chunk[i - 1] ||
            (m->chunk[i] == m->chunk[i - 1] && m->stage[i] < m->stage[i - 1]))
            return err_fail(
                WEFT_USAGE,
                "%s puts block %s (stage %u, chunk %u) after %s (stage %u, chunk %u): data "
                "runs through chunk 0 of all stages, then chunk 1",
                m->owner, e->g->blocks.at[i], m->stage[i], m->chunk[i], e->g->blocks.at[i - 1],
                m->stage[i - 1], m->chunk[i - 1]);
    for (uint32_t i = 0; i < e->s->mesh.size[m->axis]; i++)
        if (m->orders[i].work) {
            weft_status st = check_order(e, i);
            if (st != WEFT_OK)
                return st;
        }
    return WEFT_OK;
}
