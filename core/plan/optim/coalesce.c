/* plan/optim/coalesce.c: coalesces the scalar all-reduces of several graphs in one list.
 *
 * An update rule that takes norms of whole parameters has one or two numbers per parameter; an
 * all-reduce for each would cost hundreds of latencies a step. Idea: the graphs run in turn, each
 * until it needs a sum; the numbers of all are contiguous, so that one all-reduce per mesh axis
 * sums them; then all continue. The cost is memory: temporaries of all graphs are live at once.
 * They are in the zone of activations, which is free after the micro-batches; as many graphs are
 * combined as it holds, then the next ones.
 *
 * A number that is summed over two axes in turn keeps its address. So numbers are sorted by their
 * set of axes in Gray code order, in which the sets with a given axis are contiguous: always with
 * two axes, mostly with more; otherwise the sum takes two pieces. The axis with the lowest number
 * is summed first, and numbers that only need a later axis wait for it. */
#include "plan/optim/graph_to_list.h"

#include "plan/collective.h"
#include "plan/emit.h"

#include <stdlib.h>

typedef struct cell {
    uint64_t axes; /* over which it is summed */
    uint32_t number;
} cell;

typedef struct coalescing {
    pool memory;
    plan_builder *b;
    plan_list *l;
    plan_to_list *s; /* [n] */
    uint32_t n;
    VEC(cell) cells;
    uint64_t at; /* of the first cell, in the zone */
} coalescing;

/* Assign one cell to a chain of sums, in which each one reads the output of the previous one. */
static void find_cells(coalescing *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t k = 0; k < x->s[i].order.n; k++) {
            plan_to_list *s = &x->s[i];
            const graph_node *n = &s->order.at[k];
            if (!plan_graph_to_list_sums_number(s, n))
                continue;
            if (!s->cell[n->in[0]]) {
                const uint32_t number = x->cells.n;
                *vec_push(&x->cells) = (cell){0, number};
                s->cell[n->in[0]] = 1 + number;
            }
            s->cell[n->out[0]] = s->cell[n->in[0]];
            x->cells.at[s->cell[n->in[0]] - 1].axes |= (uint64_t)1 << n->mesh_axis;
        }
}

/* Position of a set of axes in Gray code order. */
static uint64_t gray(uint64_t axes)
{
    for (uint32_t by = 1; by < 64; by *= 2)
        axes ^= axes >> by;
    return axes;
}

static int by_axes(const void *a, const void *b)
{
    const cell *x = a, *y = b;
    uint64_t one = gray(x->axes), two = gray(y->axes);
    return one != two ? (one > two) - (one < two)
                      : (x->number > y->number) - (x->number < y->number);
}

static void lay_cells(coalescing *x)
{
    uint32_t n = x->cells.n, *place = pool_array(&x->memory, n, sizeof *place);
    if (n) {
        qsort(x->cells.at, n, sizeof *x->cells.at, by_axes);
        x->at = plan_space_take(&x->b->zones.activations, n * sizeof(float));
    }
    for (uint32_t i = 0; i < n; i++)
        place[x->cells.at[i].number] = i;
    for (uint32_t i = 0; i < x->n; i++)
        for (weft_tensor t = 1; t <= x->s[i].g->tensors.n; t++)
            if (x->s[i].cell[t])
                x->s[i].cell[t] = 1 + x->at + place[x->s[i].cell[t] - 1] * sizeof(float);
}

/* Sum cells first ... first + count - 1 in place. */
static weft_status sum(coalescing *x, uint32_t axis, uint32_t redop, uint32_t first, uint32_t count)
{
    plan *p = x->b->p;
    plan_collective c = {.channel = plan_channel_number(p, "update", axis),
                         .kind = WEFT_ALL_REDUCE,
                         .redop = redop,
                         .dtype = WEFT_F32,
                         .count = count};
    c.in = c.out = x->b->zones.zone + x->at + first * sizeof(float);
    c.name = pool_printf(&p->pool, "%s of %u number%s, %s%s", sched_kind_name(c.kind), count,
                         count == 1 ? "" : "s", x->s[0].job->name, x->n > 1 ? " and others" : "");
    return plan_emit_collective(x->b, x->l, &c, 0);
}

/* The sum that a graph waits for; NULL: it has ended. */
static const graph_node *waits_for(const plan_to_list *s)
{
    return s->at < s->order.n ? &s->order.at[s->at] : NULL;
}

/* Sum over `axis` all numbers that wait for it now. */
static weft_status sum_waiting(coalescing *x, uint32_t axis, uint32_t redop)
{
    bool *due = pool_array(&x->memory, x->cells.n, sizeof *due);
    for (uint32_t i = 0; i < x->n; i++)
        for (const graph_node *n;
             (n = waits_for(&x->s[i])) && plan_graph_to_list_sums_number(&x->s[i], n) &&
             n->mesh_axis == axis && n->redop == redop;
             x->s[i].at++)
            due[(x->s[i].cell[n->in[0]] - 1 - x->at) / sizeof(float)] = true;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0, k; st == WEFT_OK && i < x->cells.n; i = k + 1) {
        for (k = i; k < x->cells.n && due[k];)
            k++;
        st = k > i ? sum(x, axis, redop, i, k - i) : WEFT_OK;
    }
    return st;
}

static weft_status go_on(coalescing *x)
{
    for (;;) {
        const graph_node *next = NULL;
        for (uint32_t i = 0; i < x->n; i++) {
            weft_status st = plan_graph_to_list_resume(&x->s[i]);
            if (st != WEFT_OK)
                return st;
            const graph_node *n = waits_for(&x->s[i]);
            if (n && (!next || n->mesh_axis < next->mesh_axis))
                next = n;
        }
        if (!next)
            return WEFT_OK;
        weft_status st = sum_waiting(x, next->mesh_axis, next->redop);
        if (st != WEFT_OK)
            return st;
    }
}

/* Begin as many graphs as memory allows to wait together. A graph without sums ends before the
 * others wait; if it is the first, it runs alone. */
static void begin(coalescing *x, const plan_to_list_work *w, uint32_t n, bool by_levels)
{
    uint64_t held = 0, more;
    for (bool more_go = true; more_go && x->n < n;) {
        plan_to_list *s = &x->s[x->n];
        *s = (plan_to_list){.b = x->b, .l = x->l, .memory = &x->memory};
        plan_graph_to_list_begin(s, &w[x->n], by_levels);
        const bool waits = plan_graph_to_list_held(s, &more);
        if (x->n && held + more > x->b->zones.activations.top)
            return;
        held += waits ? more : 0;
        more_go = x->n++ || waits;
    }
}

static weft_status lower(plan_builder *b, plan_list *l, const plan_to_list_work *w, uint32_t n,
                         bool by_levels, uint32_t *done)
{
    coalescing x = {.b = b, .l = l};
    x.s = pool_array(&x.memory, n, sizeof *x.s);
    begin(&x, w, n, by_levels);
    find_cells(&x);
    lay_cells(&x);
    weft_status st = go_on(&x);
    for (uint32_t i = 0; i < x.n; i++)
        plan_graph_to_list_end(&x.s[i]);
    if (x.cells.n)
        plan_space_give(&b->zones.activations, x.at, x.cells.n * sizeof(float));
    free(x.cells.at);
    pool_free(&x.memory);
    *done = x.n;
    return st;
}

weft_status plan_graphs_to_list(plan_builder *b, plan_list *l, const plan_to_list_work *w,
                                uint32_t n, uint32_t *done)
{
    return lower(b, l, w, n, true, done);
}

weft_status plan_graph_to_list(plan_builder *b, plan_list *l, const plan_to_list_work *w)
{
    uint32_t done;
    return lower(b, l, w, 1, false, &done);
}
