/* plan/check.c: the lists of all ranks, run against each other on a machine that buffers nothing.
 *
 * A start posts an operation on its channel and never blocks; a channel completes its operations in
 * order, each when every member has started it, as many channels at once as the transport declares;
 * a wait blocks until its operation is complete. Every list must reach its end. Members of a
 * channel must start the same operation: kind, type and count. Cost: one visit an entry and rank,
 * plus one a completion; 1,024 ranks of a thousand entries take well under a second.
 *
 * This sees what matching sends with receives does not: orders that hang although every operation
 * has its partner. */
#include "base/err.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct queue { /* of one channel, for one group of ranks */
    VEC(uint32_t) ops; /* collectives, in the order in which the first member started them */
    uint32_t *started; /* [member] how many it has started */
    uint32_t members, done;
} queue;

typedef struct machine {
    const plan *p;
    const list *l;
    uint32_t ranks;
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

static weft_status post(machine *m, uint32_t rank, const entry *e)
{
    const collective *c = &m->p->collectives.at[e->what];
    queue *q = queue_of(m, c->channel, rank);
    uint32_t nth = q->started[m->me[cell(m, c->channel, rank)]]++;
    if (nth == q->ops.n) {
        *vec_push(&q->ops) = e->what;
        return WEFT_OK;
    }
    const collective *first = &m->p->collectives.at[q->ops.at[nth]];
    if (first->kind == c->kind && first->dtype == c->dtype && first->count == c->count &&
        first->redop == c->redop && first->root == c->root)
        return WEFT_OK;
    return fail(WEFT_USAGE,
                "list %s, channel %s, operation %u: rank %u starts '%s' (%llu elements) "
                "where another has '%s' (%llu elements)",
                m->l->name, m->p->channels.at[c->channel].name, nth, rank, c->name,
                (unsigned long long)c->count, first->name, (unsigned long long)first->count);
}

/* Complete what every member has started. Returns whether anything was. */
static bool complete(queue *q)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < q->members; i++)
        least = q->started[i] < least ? q->started[i] : least;
    bool moved = least != UINT32_MAX && least > q->done;
    if (moved)
        q->done = least;
    return moved;
}

/* How many times `rank` had started this collective's channel when it started `e`'s operation:
 * lists name collectives, and each is started once a run. */
static bool finished(const machine *m, uint32_t rank, const entry *e)
{
    const collective *c = &m->p->collectives.at[e->what];
    queue *q = queue_of(m, c->channel, rank);
    for (uint32_t i = 0; i < q->done; i++)
        if (q->ops.at[i] == e->what)
            return true;
    return false;
}

/* Channels of one link that `rank` has operations in flight on. */
static uint32_t active(const machine *m, uint32_t rank, uint32_t link)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < m->p->channels.n; c++) {
        queue *q = queue_of(m, c, rank);
        n += m->p->channels.at[c].link == link && q->started[m->me[cell(m, c, rank)]] > q->done;
    }
    return n;
}

static bool has_room(const machine *m, uint32_t rank, const entry *e)
{
    const channel *ch = &m->p->channels.at[m->p->collectives.at[e->what].channel];
    const weft_link_table *link = m->p->spec->links[ch->link].c->table;
    queue *q = queue_of(m, m->p->collectives.at[e->what].channel, rank);
    uint32_t me = m->me[cell(m, m->p->collectives.at[e->what].channel, rank)];
    return !link->channels || q->started[me] > q->done ||
           active(m, rank, ch->link) < link->channels;
}

/* Walk one rank as far as it goes. */
static weft_status walk(machine *m, uint32_t rank, bool *moved)
{
    for (; m->at[rank] < m->l->entries.n; m->at[rank]++) {
        const entry *e = &m->l->entries.at[m->at[rank]];
        if (e->kind == ENTRY_START) {
            if (!has_room(m, rank, e))
                return WEFT_OK;
            weft_status s = post(m, rank, e);
            if (s)
                return s;
            complete(queue_of(m, m->p->collectives.at[e->what].channel, rank));
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
    for (uint32_t r = 0; r < m->ranks && shown < 8; r++)
        if (m->at[r] < m->l->entries.n) {
            used += (size_t)snprintf(where + used, sizeof where - used,
                                     "; rank %u stands at entry %u, %s", r, m->at[r],
                                     m->l->entries.at[m->at[r]].name);
            used = used < sizeof where ? used : sizeof where - 1;
            shown++;
        }
    return fail(WEFT_USAGE, "list %s would hang on a transport that buffers nothing%s", m->l->name,
                where);
}

static weft_status run(machine *m)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < m->ranks; r++) {
            weft_status s = walk(m, r, &moved);
            if (s)
                return s;
        }
    }
    for (uint32_t r = 0; r < m->ranks; r++)
        if (m->at[r] < m->l->entries.n)
            return report(m);
    return WEFT_OK;
}

static void set_groups(machine *m)
{
    uint32_t *members = mem_alloc(m->ranks * sizeof *members);
    for (uint32_t c = 0; c < m->p->channels.n; c++)
        for (uint32_t r = 0; r < m->ranks; r++) {
            uint32_t me, n = plan_group(m->p, c, r, members, &me);
            m->group[cell(m, c, r)] = members[0]; /* named by its first rank */
            m->me[cell(m, c, r)] = me;
            queue *q = &m->queues[cell(m, c, members[0])];
            if (!q->started)
                q->started = mem_alloc(n * sizeof *q->started);
            q->members = n;
        }
    free(members);
}

static weft_status check_list(const plan *p, const list *l)
{
    machine m = {.p = p, .l = l, .ranks = p->spec->ranks};
    uint64_t cells = (uint64_t)p->channels.n * m.ranks;
    m.at = mem_alloc(m.ranks * sizeof *m.at);
    m.queues = mem_alloc(cells * sizeof *m.queues);
    m.group = mem_alloc(cells * sizeof *m.group);
    m.me = mem_alloc(cells * sizeof *m.me);
    set_groups(&m);
    weft_status s = run(&m);
    for (uint64_t i = 0; i < cells; i++) {
        free(m.queues[i].ops.at);
        free(m.queues[i].started);
    }
    free(m.at);
    free(m.queues);
    free(m.group);
    free(m.me);
    return s;
}

uint32_t plan_group(const plan *p, uint32_t number, uint32_t rank, uint32_t *out, uint32_t *me)
{
    const mesh *m = &p->spec->mesh;
    uint32_t a = p->channels.at[number].mesh_axis;
    for (uint32_t c = 0; c < m->size[a]; c++)
        out[c] = mesh_rank_at(m, rank, a, c);
    *me = mesh_coord(m, rank, a);
    return m->size[a];
}

weft_status plan_check(const plan *p)
{
    if (p->spec->ranks == 1)
        return WEFT_OK;
    weft_status s = check_list(p, &p->step);
    return s ? s : check_list(p, &p->eval);
}
