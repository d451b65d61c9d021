/* sim/walk.c: walks the lists of all stages against each other, in time.
 *
 * A rank's compute stream has a time. A call moves it on; a start gives the operation that time as
 * this member's; a wait moves it to the operation's end. An operation begins when all members have
 * started it, the one before it on its channel has ended, and its lanes are free. The rank with the
 * least time goes on first, so lanes are given out in the order of time.
 *
 * Members that are not walked (they differ from one that is in a coordinate) start an operation at
 * the same time as that one. */
#include "sim/sim.h"

#include "base/err.h"

#include <math.h>
#include <stdlib.h>

typedef struct operation {
    double ready, begin, end;
    uint32_t posted;
    bool done;
} operation;

/* Operations of a channel among ranks that are walked together. */
typedef struct queue {
    VEC(operation) ops;
    double free_at;
} queue;

typedef struct group { /* of a channel, as one walked rank sees it */
    sim_route route;
    uint32_t leader, members; /* the first stage in it; how many stages are */
    uint32_t me;              /* in the whole group */
    uint32_t started;         /* operations that this rank has started */
    uint32_t peer;            /* the other stage of two */
} group;

typedef struct walker {
    const plan *p;
    double *segments;    /* [segment] seconds */
    double *collectives; /* [collective] seconds; negative: not known yet */
    uint32_t *op;        /* [collective] number in its queue */
    group *groups;       /* [channel] */
    double time;
    double lane[SIM_LEVELS][2]; /* free at: out, in */
    uint32_t at;
    bool blocked;
    sim_rank sum;
} walker;

typedef struct walk {
    const plan_set *set;
    const sim_cluster *c;
    walker *walkers;
    queue *queues; /* [channel][leader] */
    uint32_t n, channels;
    sim_result *out;
    bool trace;
} walk;

static queue *queue_of(walk *w, uint32_t number, uint32_t leader)
{
    return &w->queues[(uint64_t)number * w->n + leader];
}

static uint32_t rank_of_stage(const plan_set *set, uint32_t stage)
{
    return set->stage_axis < 0
               ? 0
               : graph_mesh_rank_at(&set->spec->mesh, 0, (uint32_t)set->stage_axis, stage);
}

/* The group of a channel. Along the axis of stages all its members are walked; `ranks` is room for
 * all ranks of the job. */
static void set_group(walk *w, uint32_t stage, uint32_t number, uint32_t *ranks)
{
    const plan_set *set = w->set;
    const uint32_t axis = set->at[0].channels.at[number].mesh_axis;
    const uint32_t rank = rank_of_stage(set, stage);
    group *g = &w->walkers[stage].groups[number];
    uint32_t n = plan_group(&set->at[0], number, rank, ranks, &g->me);
    *g = (group){.leader = stage, .members = 1, .me = g->me, .peer = stage};
    if (!n)
        return;
    if ((int32_t)axis == set->stage_axis) {
        g->members = n;
        g->leader = graph_mesh_coord(&set->spec->mesh, ranks[0], axis);
        g->peer = graph_mesh_coord(&set->spec->mesh, ranks[n > 1 && !g->me], axis);
    }
    uint32_t first = ranks[g->me];
    ranks[g->me] = ranks[0];
    ranks[0] = first;
    sim_route_make(w->c, &set->spec->mesh, axis, ranks, n, &g->route);
    w->out->worst_link[axis] =
        g->route.slowest > w->out->worst_link[axis] ? g->route.slowest : w->out->worst_link[axis];
}

static double segment_seconds(const sim_device *d, const plan *p, const plan_segment *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++)
        sum += sim_op_seconds(d, &p->kernels.at[p->instrs.at[s->first + i].kernel]);
    return sum;
}

static void begin_walker(walk *w, uint32_t stage, uint32_t *ranks)
{
    walker *x = &w->walkers[stage];
    const plan *p = x->p = &w->set->at[stage];
    x->sum.rank = rank_of_stage(w->set, stage);
    x->segments = mem_alloc(p->segments.n * sizeof *x->segments + 1);
    x->collectives = mem_alloc(p->collectives.n * sizeof *x->collectives + 1);
    x->op = mem_alloc(p->collectives.n * sizeof *x->op + 1);
    x->groups = mem_alloc(w->channels * sizeof *x->groups + 1);
    for (uint32_t i = 0; i < p->segments.n; i++)
        x->segments[i] = segment_seconds(&w->c->device, p, &p->segments.at[i]);
    for (uint32_t i = 0; i < w->channels; i++)
        set_group(w, stage, i, ranks);
}

static void note(walk *w, const walker *x, uint32_t lane, double begin, double end,
                 const char *name)
{
    if (w->trace && end > begin)
        *vec_push(&w->out->events) = (sim_event){x->sum.rank, lane, begin, end, name};
}

/* The directions of a level that an operation uses: bit 0 out, bit 1 in. */
static uint32_t directions(const plan_collective *c)
{
    return c->kind == WEFT_SEND ? 1u : c->kind == WEFT_RECV ? 2u : 3u;
}

static double lanes_free(const walker *x, uint32_t level, uint32_t ways)
{
    double out = ways & 1 ? x->lane[level][0] : 0, in = ways & 2 ? x->lane[level][1] : 0;
    return fmax(out, in);
}

static void take_lanes(walker *x, uint32_t level, uint32_t ways, double end)
{
    if (ways & 1)
        x->lane[level][0] = end;
    if (ways & 2)
        x->lane[level][1] = end;
}

/* Is stage `s` a member of the group that this rank sees? */
static bool has_member(const walk *w, const group *mine, uint32_t number, uint32_t s)
{
    const group *g = &w->walkers[s].groups[number];
    return g->leader == mine->leader && g->members == mine->members;
}

/* All members have started it: when does it run? */
static void complete(walk *w, walker *x, const plan_collective *c, group *g, operation *o)
{
    queue *q = queue_of(w, c->channel, g->leader);
    const uint32_t level = g->route.level, ways = directions(c);
    const bool pair = plan_between_two(c);
    walker *peer = &w->walkers[g->peer];
    double begin = fmax(o->ready, pair ? 0 : q->free_at);
    begin = fmax(begin, lanes_free(x, level, ways));
    if (pair)
        begin = fmax(begin, lanes_free(peer, level, ways ^ 3u));
    for (uint32_t s = 0; !pair && g->members > 1 && s < w->n; s++)
        if (has_member(w, g, c->channel, s))
            begin = fmax(begin, lanes_free(&w->walkers[s], level, 3));
    o->begin = begin;
    o->end = begin + x->collectives[c - x->p->collectives.at];
    o->done = true;
    q->free_at = o->end;
    take_lanes(x, level, ways, o->end);
    if (pair)
        take_lanes(peer, level, ways ^ 3u, o->end);
    for (uint32_t s = 0; !pair && g->members > 1 && s < w->n; s++)
        if (has_member(w, g, c->channel, s))
            take_lanes(&w->walkers[s], level, 3, o->end);
    for (uint32_t s = 0; g->members > 1 && s < w->n; s++)
        w->walkers[s].blocked = false;
}

static void start(walk *w, walker *x, const plan_entry *e)
{
    const plan_collective *c = &x->p->collectives.at[e->what];
    group *g = &x->groups[c->channel];
    queue *q = queue_of(w, c->channel, g->leader);
    const uint32_t axis = x->p->channels.at[c->channel].mesh_axis;
    uint32_t nth = g->started++;
    while (q->ops.n <= nth)
        *vec_push(&q->ops) = (operation){0};
    operation *o = &q->ops.at[nth];
    x->op[e->what] = nth;
    if (x->collectives[e->what] <= 0)
        x->collectives[e->what] = sim_collective_seconds(x->p, c, g->me, &g->route);
    x->sum.busy[axis] += x->collectives[e->what];
    o->ready = fmax(o->ready, x->time);
    if (++o->posted == g->members)
        complete(w, x, c, g, o);
}

/* False: not all members have started it. */
static bool wait_for(walk *w, walker *x, const plan_entry *e)
{
    const plan_collective *c = &x->p->collectives.at[e->what];
    const group *g = &x->groups[c->channel];
    const operation *o = &queue_of(w, c->channel, g->leader)->ops.at[x->op[e->what]];
    const uint32_t axis = x->p->channels.at[c->channel].mesh_axis;
    if (!o->done)
        return false;
    note(w, x, 1 + c->channel, o->begin, o->end, c->name);
    if (o->end <= x->time)
        return true;
    double idle = g->members > 1 ? fmax(0, fmin(o->begin, o->end) - x->time) : 0;
    x->sum.bubble += idle;
    x->sum.exposed[axis] += o->end - x->time - idle;
    x->time = o->end;
    return true;
}

static void call(walk *w, walker *x, const plan_entry *e)
{
    double seconds = x->segments[e->what];
    bool tail = x->p->step.tail && x->at >= x->p->step.tail;
    note(w, x, 0, x->time, x->time + seconds, e->name);
    *(tail ? &x->sum.tail : &x->sum.compute) += seconds;
    x->time += seconds;
}

/* Until it blocks, ends, or is later than `until`. */
static void go_on(walk *w, walker *x, double until)
{
    const plan_list *l = &x->p->step;
    for (; x->at < l->entries.n && x->time <= until; x->at++) {
        const plan_entry *e = &l->entries.at[x->at];
        if (e->kind == ENTRY_CALL)
            call(w, x, e);
        else if (e->kind == ENTRY_START)
            start(w, x, e);
        else if (e->kind == ENTRY_WAIT && !wait_for(w, x, e)) {
            x->blocked = true;
            return;
        }
    }
}

/* The walker with the least time among those that can go on; *until: the next one's time. */
static walker *earliest(walk *w, double *until)
{
    walker *best = NULL;
    *until = INFINITY;
    for (uint32_t i = 0; i < w->n; i++) {
        walker *x = &w->walkers[i];
        if (x->blocked || x->at >= x->p->step.entries.n)
            continue;
        if (best && x->time >= best->time) {
            *until = fmin(*until, x->time);
            continue;
        }
        *until = best ? fmin(*until, best->time) : *until;
        best = x;
    }
    return best;
}

static weft_status run(walk *w)
{
    double until;
    for (walker *x = earliest(w, &until); x; x = earliest(w, &until))
        go_on(w, x, until);
    for (uint32_t i = 0; i < w->n; i++) {
        const walker *x = &w->walkers[i];
        if (x->at < x->p->step.entries.n)
            return err_fail(WEFT_INTERNAL, "the walk of rank %u ends at entry %u, '%s'",
                            x->sum.rank, x->at, x->p->step.entries.at[x->at].name);
    }
    return WEFT_OK;
}

static double square(double x)
{
    return x * x;
}

/* Errors of one kind of resource are common to a step, those of different kinds independent. */
static void finish(walk *w)
{
    sim_result *r = w->out;
    double links = 0;
    for (uint32_t i = 0; i < w->n; i++)
        r->seconds = fmax(r->seconds, w->walkers[i].time);
    for (uint32_t i = 0; i < w->n; i++) {
        walker *x = &w->walkers[i];
        x->sum.bubble += r->seconds - x->time;
        x->sum.end = x->time;
        r->flops += x->p->flops_step / w->n;
        *vec_push(&r->ranks) = x->sum;
    }
    sim_rank mean = sim_mean(r);
    double device = (mean.compute + mean.tail + mean.bubble) * w->c->device.error;
    for (uint32_t a = 0; a < w->set->spec->mesh.n; a++)
        links += mean.exposed[a] * w->c->links[r->worst_link[a]].error;
    r->error = sqrt(square(device) + square(links));
}

static weft_status check_size(const plan_set *set, const sim_cluster *c)
{
    uint64_t max = c->machines * c->per_machine;
    if (c->machines && set->spec->ranks > max)
        return err_fail(WEFT_USAGE,
                        "the job has %u ranks, and the cluster '%s' %llu devices: %llu machines of "
                        "%llu",
                        set->spec->ranks, c->name, (unsigned long long)max,
                        (unsigned long long)c->machines, (unsigned long long)c->per_machine);
    return WEFT_OK;
}

static weft_status set_peak(const plan_set *set, const sim_device *d, double *out)
{
    uint32_t type = set->spec->compute;
    const char *name = type == WEFT_BF16 ? "bf16" : type == WEFT_F16 ? "fp16" : "fp32";
    *out = type == WEFT_BF16 ? d->bf16 : type == WEFT_F16 ? d->fp16 : d->fp32;
    if (*out > 0)
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "the job computes in %s, and the cluster's [accelerator] has no %s: give its "
                    "TFLOP/s there, or set train.precision",
                    name, name);
}

static void free_walkers(walk *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        free(w->walkers[i].segments);
        free(w->walkers[i].collectives);
        free(w->walkers[i].op);
        free(w->walkers[i].groups);
    }
    for (uint64_t i = 0; i < (uint64_t)w->channels * w->n; i++)
        free(w->queues[i].ops.at);
    free(w->walkers);
    free(w->queues);
}

weft_status sim_run(const plan_set *set, const sim_cluster *c, bool trace, sim_result *out)
{
    *out = (sim_result){0};
    walk w = {.set = set, .c = c, .n = set->n, .out = out, .trace = trace};
    weft_status st = check_size(set, c);
    if (st == WEFT_OK)
        st = set_peak(set, &c->device, &out->peak_flops);
    if (st != WEFT_OK)
        return st;
    w.channels = set->at[0].channels.n;
    w.walkers = mem_alloc(w.n * sizeof *w.walkers);
    w.queues = mem_alloc((uint64_t)w.channels * w.n * sizeof *w.queues + 1);
    uint32_t *ranks = mem_alloc((uint64_t)set->spec->ranks * sizeof *ranks);
    for (uint32_t i = 0; i < w.n; i++)
        begin_walker(&w, i, ranks);
    out->tokens = (double)set->spec->batch * (double)set->spec->sequence;
    st = run(&w);
    if (st == WEFT_OK)
        finish(&w);
    free(ranks);
    free_walkers(&w);
    return st;
}
