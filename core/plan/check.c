/* plan/check.c: deadlock check: simulates the lists of all ranks on a machine without buffering.
 *
 * A start posts an operation on its channel and never blocks. A channel completes its operations in
 * order, each when every member has started it; as many channels run at once as the transport
 * declares. A wait blocks until its operation is complete. Every list must reach its end. Members
 * of a channel must start the same operation: kind, type and count.
 *
 * Ranks of one stage have the same list, so they can always be walked in step, and then a channel
 * among them completes an operation at once. Where a rank can go on never depends on the order in
 * which others are walked: what blocks it, others only undo. So one rank of each stage stands for
 * all, and only channels along the stages are between them. Cost: a visit per entry and stage, and
 * one per completion; it does not grow with the other axes.
 *
 * Unlike matching sends with receives, this finds orders that hang although every operation has its
 * counterpart. */
#include "base/err.h"
#include "plan/plan.h"
#include "resolve/topology.h"

#include <stdlib.h>
#include <string.h>

typedef struct queue {                /* of one channel */
    VEC(const plan_collective *) ops; /* as the first member started them */
    uint32_t *started;                /* [member] operations it has started */
    uint32_t members, done;
    uint32_t behind; /* members that have started no more than `done` */
} queue;

typedef struct machine {
    pool memory; /* of all arrays but the growing ones */
    const plan_set *set;
    uint32_t which; /* list */
    uint32_t **nth; /* [stage][collective] position in its channel's order */
    uint32_t stages, channels;
    uint32_t *at;  /* [stage] next entry */
    queue *queues; /* [channel][stage]: of a channel between stages the first is that of all */
    uint32_t **me; /* [channel][stage] which member; NULL: the channel is within each stage */
} machine;

/* List number `which` of a stage: step, eval, then periodic lists. */
static const plan_list *list_of(const machine *m, uint32_t stage)
{
    const plan *p = &m->set->at[stage];
    return m->which == 0 ? &p->step : m->which == 1 ? &p->eval : &p->extra.at[m->which - 2].l;
}

static queue *queue_of(const machine *m, uint32_t channel, uint32_t stage)
{
    const uint32_t *me = m->me[channel];
    const bool alone = !me || me[stage] == UINT32_MAX;
    return &m->queues[channel * (m->stages + 1) + (alone ? 1 + stage : 0)];
}

static uint32_t *started(const machine *m, uint32_t channel, uint32_t stage)
{
    const uint32_t *me = m->me[channel];
    const bool alone = !me || me[stage] == UINT32_MAX;
    return &queue_of(m, channel, stage)->started[alone ? 0 : me[stage]];
}

static uint32_t rank_of(const machine *m, uint32_t stage)
{
    return m->set->stage_axis < 0
               ? 0
               : graph_mesh_rank_at(&m->set->spec->mesh, 0, (uint32_t)m->set->stage_axis, stage);
}

/* Are two operations the same? A send matches a receive of the same tensor. */
static bool same_operation(const plan_collective *a, const plan_collective *b)
{
    bool same = a->dtype == b->dtype && a->count == b->count && a->redop == b->redop;
    if (plan_between_two(a))
        return same && plan_between_two(b) && a->kind != b->kind && a->root != b->root &&
               a->tag == b->tag;
    return same && a->kind == b->kind && a->root == b->root;
}

static weft_status post(machine *m, uint32_t stage, const plan_entry *e)
{
    const plan *p = &m->set->at[stage];
    const plan_collective *c = &p->collectives.at[e->what];
    queue *q = queue_of(m, c->channel, stage);
    const uint32_t nth = (*started(m, c->channel, stage))++;
    q->behind -= nth == q->done;
    if (nth == q->ops.n)
        *vec_push(&q->ops) = c;
    const plan_collective *first = q->ops.at[nth];
    const bool is_first = first == c && m->me[c->channel]; /* else others of the stage start it */
    if (is_first || same_operation(first, c))
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "list %s, channel %s, operation %u: rank %u starts '%s' (%llu elements) "
                    "where another has '%s' (%llu elements)",
                    list_of(m, stage)->name, p->channels.at[c->channel].name, nth,
                    rank_of(m, stage), c->name, (unsigned long long)c->count, first->name,
                    (unsigned long long)first->count);
}

/* Complete operations that every member has started. */
static void complete(queue *q)
{
    if (q->behind)
        return;
    q->done = UINT32_MAX;
    for (uint32_t i = 0; i < q->members; i++)
        q->done = q->started[i] < q->done ? q->started[i] : q->done;
    for (uint32_t i = 0; i < q->members; i++)
        q->behind += q->started[i] == q->done;
}

static bool finished(const machine *m, uint32_t stage, const plan_entry *e)
{
    const uint32_t channel = m->set->at[stage].collectives.at[e->what].channel;
    return m->nth[stage][e->what] < queue_of(m, channel, stage)->done;
}

/* Number of channels of one link on which the stage has operations in flight. */
static uint32_t active(const machine *m, uint32_t stage, uint32_t link)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < m->channels; c++)
        n += m->set->at[0].channels.at[c].link == link &&
             *started(m, c, stage) > queue_of(m, c, stage)->done;
    return n;
}

/* Maximum number of channels of a link with operations in flight; 0: no limit. */
static uint32_t channels_at_once(const spec_link *l)
{
    const weft_coll_table *coll = resolve_collective_library(l);
    if (coll)
        return coll->channels;
    const weft_link_table *table = l->c->table, *intra = l->intra.c ? l->intra.c->table : table;
    uint32_t a = table->channels, b = intra->channels;
    return !a || (b && b < a) ? b : a;
}

static bool has_capacity(const machine *m, uint32_t stage, const plan_entry *e)
{
    const plan *p = &m->set->at[stage];
    const uint32_t number = p->collectives.at[e->what].channel;
    const plan_channel *ch = &p->channels.at[number];
    const uint32_t max = channels_at_once(&p->spec->links[ch->link]);
    return !max || *started(m, number, stage) > queue_of(m, number, stage)->done ||
           active(m, stage, ch->link) < max;
}

/* Advance one stage until it blocks or ends. */
static weft_status walk_stage(machine *m, uint32_t stage, bool *moved)
{
    const plan *p = &m->set->at[stage];
    const plan_list *l = list_of(m, stage);
    for (; m->at[stage] < l->entries.n; m->at[stage]++) {
        const plan_entry *e = &l->entries.at[m->at[stage]];
        if (e->kind == ENTRY_START) {
            if (!has_capacity(m, stage, e))
                return WEFT_OK;
            weft_status st = post(m, stage, e);
            if (st != WEFT_OK)
                return st;
            complete(queue_of(m, p->collectives.at[e->what].channel, stage));
        } else if (e->kind == ENTRY_WAIT && !finished(m, stage, e)) {
            return WEFT_OK;
        }
        *moved = true;
    }
    return WEFT_OK;
}

static weft_status report(const machine *m)
{
    char where[1200] = "";
    size_t used = 0;
    uint32_t shown = 0;
    const uint32_t others = m->set->spec->ranks / m->stages - 1;
    for (uint32_t s = 0; s < m->stages && shown < 8; s++) {
        const plan_list *l = list_of(m, s);
        if (m->at[s] >= l->entries.n)
            continue;
        used += (size_t)snprintf(where + used, sizeof where - used, "; rank %u is at entry %u, %s",
                                 rank_of(m, s), m->at[s], l->entries.at[m->at[s]].name);
        used = used < sizeof where ? used : sizeof where - 1;
        shown++;
    }
    if (others)
        snprintf(where + used, sizeof where - used, "; and so %s the %u other%s with the same list",
                 others == 1 ? "is" : "are", others, others == 1 ? "" : "s");
    return err_fail(WEFT_USAGE, "list %s would hang on a transport that buffers nothing%s",
                    list_of(m, 0)->name, where);
}

static weft_status run(machine *m)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < m->stages; s++) {
            weft_status st = walk_stage(m, s, &moved);
            if (st != WEFT_OK)
                return st;
        }
    }
    for (uint32_t s = 0; s < m->stages; s++)
        if (m->at[s] < list_of(m, s)->entries.n)
            return report(m);
    return WEFT_OK;
}

static void open_queue(machine *m, queue *q, uint32_t members)
{
    q->started = pool_array(&m->memory, members, sizeof *q->started);
    q->members = q->behind = members;
}

/* A stage that is no member of a channel is alone on it. */
static void open_channel(machine *m, uint32_t number)
{
    const plan_channel *ch = &m->set->at[0].channels.at[number];
    queue *queues = &m->queues[number * (m->stages + 1)];
    for (uint32_t s = 0; s < m->stages; s++)
        open_queue(m, &queues[1 + s], 1);
    if (m->set->stage_axis < 0 || ch->mesh_axis != (uint32_t)m->set->stage_axis)
        return;
    const uint32_t n = ch->coords ? ch->ncoords : m->stages;
    m->me[number] = pool_array(&m->memory, m->stages, sizeof **m->me);
    memset(m->me[number], 0xff, m->stages * sizeof **m->me);
    for (uint32_t i = 0; i < n; i++)
        m->me[number][ch->coords ? ch->coords[i] : i] = i;
    open_queue(m, &queues[0], n);
}

/* Number each collective by its position in its channel's order; equal for all ranks of a plan. */
static uint32_t *number_operations(machine *m, const plan *p, const plan_list *l)
{
    uint32_t *nth = pool_array(&m->memory, p->collectives.n, sizeof *nth);
    uint32_t *seen = pool_array(&m->memory, p->channels.n, sizeof *seen);
    for (uint32_t i = 0; i < l->entries.n; i++)
        if (l->entries.at[i].kind == ENTRY_START)
            nth[l->entries.at[i].what] = seen[p->collectives.at[l->entries.at[i].what].channel]++;
    return nth;
}

static weft_status check_list(const plan_set *set, uint32_t which)
{
    machine m = {.set = set, .which = which, .stages = set->n, .channels = set->at[0].channels.n};
    const uint32_t queues = m.channels * (m.stages + 1);
    m.nth = pool_array(&m.memory, set->n, sizeof *m.nth);
    for (uint32_t i = 0; i < set->n; i++)
        m.nth[i] = number_operations(&m, &set->at[i], list_of(&m, i));
    m.at = pool_array(&m.memory, m.stages, sizeof *m.at);
    m.queues = pool_array(&m.memory, queues, sizeof *m.queues);
    m.me = pool_array(&m.memory, m.channels, sizeof *m.me);
    for (uint32_t c = 0; c < m.channels; c++)
        open_channel(&m, c);
    weft_status st = run(&m);
    for (uint32_t i = 0; i < queues; i++)
        free(m.queues[i].ops.at);
    pool_free(&m.memory);
    return st;
}

/* A periodic list runs on all stages in the same steps. */
static weft_status check_periods(const plan_set *set)
{
    const plan *first = &set->at[0];
    for (uint32_t i = 1; i < set->n; i++) {
        const plan *p = &set->at[i];
        bool same = p->extra.n == first->extra.n;
        for (uint32_t k = 0; same && k < p->extra.n; k++)
            same = p->extra.at[k].every == first->extra.at[k].every &&
                   !strcmp(p->extra.at[k].l.name, first->extra.at[k].l.name);
        if (!same)
            return err_fail(WEFT_USAGE,
                            "pipeline stages 0 and %u have different periodic lists: a plugin has "
                            "to add the same ones, with the same period, on all stages",
                            i);
    }
    return WEFT_OK;
}

weft_status plan_check(const plan_set *p)
{
    if (p->spec->ranks == 1)
        return WEFT_OK;
    weft_status st = check_periods(p);
    for (uint32_t i = 0; st == WEFT_OK && i < 2 + p->at[0].extra.n; i++)
        st = check_list(p, i);
    return st;
}
