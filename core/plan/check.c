/* plan/check.c: deadlock check: simulates the lists of all ranks on a machine without buffering.
 *
 * A start posts an operation on its channel and never blocks. A channel completes its operations in
 * order, each when every member has started it; as many channels run at once as the transport
 * declares. A wait blocks until its operation is complete. Every list must reach its end. Members
 * of a channel must start the same operation: kind, type and count. Cost: one visit per entry and
 * rank, plus one per completion; 1,024 ranks of a thousand entries take well under a second.
 *
 * Unlike matching sends with receives, this finds orders that hang although every operation has its
 * counterpart. */
#include "base/err.h"
#include "plan/plan.h"
#include "resolve/topology.h"

#include <stdlib.h>
#include <string.h>

typedef struct queue {                /* of one channel and one group of ranks */
    VEC(const plan_collective *) ops; /* as the first member started them */
    uint32_t *started;                /* [member] operations it has started */
    uint32_t members, done;
    uint32_t behind; /* members that have started no more than `done` */
} queue;

typedef struct machine {
    const plan_set *set;
    const plan_list **lists; /* [plan] */
    uint32_t **nth;          /* [plan][collective] position in its channel's order */
    uint32_t ranks, channels;
    uint32_t *at;         /* [rank] next entry */
    queue *queues;        /* [channel][group] */
    uint32_t *group, *me; /* [channel][rank] */
} machine;

static uint64_t cell(const machine *m, uint32_t number, uint32_t rank)
{
    return (uint64_t)number * m->ranks + rank;
}

static queue *queue_of(const machine *m, uint32_t number, uint32_t rank)
{
    return &m->queues[cell(m, number, m->group[cell(m, number, rank)])];
}

static const plan_list *list_of(const machine *m, uint32_t rank)
{
    return m->lists[plan_of(m->set, rank) - m->set->at];
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

static weft_status post(machine *m, uint32_t rank, const plan_entry *e)
{
    const plan *p = plan_of(m->set, rank);
    const plan_collective *c = &p->collectives.at[e->what];
    queue *q = queue_of(m, c->channel, rank);
    uint32_t nth = q->started[m->me[cell(m, c->channel, rank)]]++;
    q->behind -= nth == q->done;
    if (nth == q->ops.n) {
        *vec_push(&q->ops) = c;
        return WEFT_OK;
    }
    const plan_collective *first = q->ops.at[nth];
    if (same_operation(first, c))
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "list %s, channel %s, operation %u: rank %u starts '%s' (%llu elements) "
                    "where another has '%s' (%llu elements)",
                    list_of(m, rank)->name, p->channels.at[c->channel].name, nth, rank, c->name,
                    (unsigned long long)c->count, first->name, (unsigned long long)first->count);
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

static bool finished(const machine *m, uint32_t rank, const plan_entry *e)
{
    const plan *p = plan_of(m->set, rank);
    const queue *q = queue_of(m, p->collectives.at[e->what].channel, rank);
    return m->nth[p - m->set->at][e->what] < q->done;
}

/* Number of channels of one link on which `rank` has operations in flight. */
static uint32_t active(const machine *m, uint32_t rank, uint32_t link)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < m->channels; c++) {
        const queue *q = queue_of(m, c, rank);
        n += m->set->at[0].channels.at[c].link == link &&
             q->started[m->me[cell(m, c, rank)]] > q->done;
    }
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

static bool has_capacity(const machine *m, uint32_t rank, const plan_entry *e)
{
    const plan *p = plan_of(m->set, rank);
    const uint32_t number = p->collectives.at[e->what].channel;
    const plan_channel *ch = &p->channels.at[number];
    const uint32_t max = channels_at_once(&p->spec->links[ch->link]);
    const queue *q = queue_of(m, number, rank);
    return !max || q->started[m->me[cell(m, number, rank)]] > q->done ||
           active(m, rank, ch->link) < max;
}

/* Advance one rank until it blocks or ends. */
static weft_status walk_rank(machine *m, uint32_t rank, bool *moved)
{
    const plan *p = plan_of(m->set, rank);
    const plan_list *l = list_of(m, rank);
    for (; m->at[rank] < l->entries.n; m->at[rank]++) {
        const plan_entry *e = &l->entries.at[m->at[rank]];
        if (e->kind == ENTRY_START) {
            if (!has_capacity(m, rank, e))
                return WEFT_OK;
            weft_status st = post(m, rank, e);
            if (st != WEFT_OK)
                return st;
            complete(queue_of(m, p->collectives.at[e->what].channel, rank));
        } else if (e->kind == ENTRY_WAIT && !finished(m, rank, e)) {
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
    for (uint32_t r = 0; r < m->ranks && shown < 8; r++) {
        const plan_list *l = list_of(m, r);
        if (m->at[r] >= l->entries.n)
            continue;
        used += (size_t)snprintf(where + used, sizeof where - used, "; rank %u is at entry %u, %s",
                                 r, m->at[r], l->entries.at[m->at[r]].name);
        used = used < sizeof where ? used : sizeof where - 1;
        shown++;
    }
    return err_fail(WEFT_USAGE, "list %s would hang on a transport that buffers nothing%s",
                    m->lists[0]->name, where);
}

static weft_status run(machine *m)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < m->ranks; r++) {
            weft_status st = walk_rank(m, r, &moved);
            if (st != WEFT_OK)
                return st;
        }
    }
    for (uint32_t r = 0; r < m->ranks; r++)
        if (m->at[r] < list_of(m, r)->entries.n)
            return report(m);
    return WEFT_OK;
}

/* Enter the group of `rank` on channel `c` for all its members. */
static void set_group(machine *m, uint32_t c, uint32_t rank, uint32_t *members)
{
    uint32_t me, n = plan_group(&m->set->at[0], c, rank, members, &me);
    if (!n) /* in none: alone */
        members[0] = rank;
    n = n ? n : 1;
    for (uint32_t i = 0; i < n; i++) {
        m->group[cell(m, c, members[i])] = members[0]; /* a group is identified by its first rank */
        m->me[cell(m, c, members[i])] = i;
    }
    queue *q = &m->queues[cell(m, c, members[0])];
    q->started = mem_alloc(n * sizeof *q->started);
    q->members = q->behind = n;
}

static void set_groups(machine *m)
{
    uint32_t *members = mem_alloc(m->ranks * sizeof *members);
    memset(m->group, 0xff, (uint64_t)m->channels * m->ranks * sizeof *m->group);
    for (uint32_t c = 0; c < m->channels; c++)
        for (uint32_t r = 0; r < m->ranks; r++)
            if (m->group[cell(m, c, r)] == UINT32_MAX)
                set_group(m, c, r, members);
    free(members);
}

/* Number each collective by its position in its channel's order; equal for all ranks of a plan. */
static uint32_t *number_operations(const plan *p, const plan_list *l)
{
    uint32_t *nth = mem_alloc(p->collectives.n * sizeof *nth + 1);
    uint32_t *seen = mem_alloc(p->channels.n * sizeof *seen + 1);
    for (uint32_t i = 0; i < l->entries.n; i++)
        if (l->entries.at[i].kind == ENTRY_START)
            nth[l->entries.at[i].what] = seen[p->collectives.at[l->entries.at[i].what].channel]++;
    free(seen);
    return nth;
}

/* List number `which` of a plan: step, eval, then periodic lists. */
static const plan_list *numbered(const plan *p, uint32_t which)
{
    return which == 0 ? &p->step : which == 1 ? &p->eval : &p->extra.at[which - 2].l;
}

static weft_status check_list(const plan_set *set, uint32_t which)
{
    machine m = {.set = set, .ranks = set->spec->ranks, .channels = set->at[0].channels.n};
    uint64_t cells = (uint64_t)m.channels * m.ranks;
    m.lists = mem_alloc(set->n * sizeof *m.lists);
    m.nth = mem_alloc(set->n * sizeof *m.nth);
    for (uint32_t i = 0; i < set->n; i++) {
        m.lists[i] = numbered(&set->at[i], which);
        m.nth[i] = number_operations(&set->at[i], m.lists[i]);
    }
    m.at = mem_alloc(m.ranks * sizeof *m.at);
    m.queues = mem_alloc(cells * sizeof *m.queues);
    m.group = mem_alloc(cells * sizeof *m.group);
    m.me = mem_alloc(cells * sizeof *m.me);
    set_groups(&m);
    weft_status st = run(&m);
    for (uint64_t i = 0; i < cells; i++) {
        free(m.queues[i].ops.at);
        free(m.queues[i].started);
    }
    for (uint32_t i = 0; i < set->n; i++)
        free(m.nth[i]);
    free(m.lists);
    free(m.nth);
    free(m.at);
    free(m.queues);
    free(m.group);
    free(m.me);
    return st;
}

weft_status plan_check(const plan_set *p)
{
    if (p->spec->ranks == 1)
        return WEFT_OK;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < 2 + p->at[0].extra.n; i++)
        st = check_list(p, i);
    return st;
}
