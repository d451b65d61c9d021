/* plan/optim/runs.c: divides the nodes of a graph into runs, each of which is an instruction, a
 * collective or one elementwise program.
 *
 * A run that is too long for one program is cut into several. What one makes and another reads is
 * then a temporary; values of one element come first, in programs of their own. */
#include "plan/optim/graph_to_list.h"

#include <string.h>

/* An assignment of bytes or whole numbers, which no elementwise op computes with. */
static bool moves_bits(const graph *g, const graph_node *n)
{
    const uint32_t dtype = n->assign ? graph_tensor_at(g, n->out[0])->shape.dtype : 0;
    return dtype == WEFT_U8 || dtype == WEFT_I32;
}

bool plan_runs_elementwise(const graph *g, const graph_node *n)
{
    return (n->assign && !moves_bits(g, n)) || (n->op && (n->op->flags & WEFT_OP_ELEMENTWISE));
}

/* Elements of a run that has node `n`; 1 for scalars. */
static uint64_t width(const graph *g, const graph_node *n)
{
    uint64_t max = 1;
    for (uint32_t k = 0; k < n->nin + n->nout; k++) {
        uint64_t x = graph_local_elements(g, k < n->nin ? n->in[k] : n->out[k - n->nin]);
        max = x > max ? x : max;
    }
    return max;
}

static void join(plan_to_list *s)
{
    uint32_t run = 0;
    uint64_t now = 1; /* elements of the run so far */
    for (uint32_t i = 0; i < s->order.n; i++) {
        const graph_node *n = &s->order.at[i];
        const uint64_t w = width(s->g, n);
        bool joins = i && plan_runs_elementwise(s->g, n) &&
                     plan_runs_elementwise(s->g, &s->order.at[i - 1]) &&
                     (w == 1 || now == 1 || w == now);
        if (i && !joins)
            run++;
        now = joins && now > w ? now : w;
        s->run_of[i] = run;
    }
}

/* --- runs that are too long --- */

typedef struct cutting {
    plan_to_list *s;
    uint32_t *reader; /* [tensor] 1 + the last node that reads it or a part of it */
    uint32_t *met; /* [constant] 1 + the first node of the last program that was counted for it */
} cutting;

static void find_readers(cutting *c)
{
    const graph *g = c->s->g;
    memset(c->reader, 0, (g->tensors.n + 1) * sizeof *c->reader);
    for (uint32_t i = 0; i < c->s->order.n; i++)
        for (uint32_t k = 0; k < c->s->order.at[i].nin; k++)
            c->reader[c->s->order.at[i].in[k]] = i + 1;
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        const weft_tensor of = graph_tensor_at(g, t)->part_of;
        if (of && c->reader[t] > c->reader[of])
            c->reader[of] = c->reader[t];
    }
}

weft_status plan_runs_fuse(plan_to_list *s, uint32_t first, uint32_t end, pool *memory,
                           graph_fused *out)
{
    const graph_nodes run = {&s->order.at[first], end - first, 0};
    return graph_fuse(s->g, &run, s->job->gate, s->wanted, memory, out);
}

/* Whether nodes [first, end) are one program. */
static bool fits(cutting *c, uint32_t first, uint32_t end)
{
    graph_fused f;
    pool memory = {0};
    for (uint32_t i = first; i < end; i++)
        if (!c->s->order.at[i].assign)
            c->s->wanted[c->s->order.at[i].out[0]] = c->reader[c->s->order.at[i].out[0]] > end;
    const bool fused = plan_runs_fuse(c->s, first, end, &memory, &f) == WEFT_OK;
    pool_free(&memory);
    return fused && graph_fused_fits(&f) && f.nin + f.nout <= MAX_BASES - BASE_FIRST;
}

static bool is_single(const cutting *c, uint32_t i)
{
    const graph_node *n = &c->s->order.at[i];
    return !n->assign && width(c->s->g, n) == 1;
}

/* Move the ops on single values before the others: they depend on each other alone. */
static void singles_first(cutting *c, uint32_t first, uint32_t end)
{
    graph_node *rest = pool_array(c->s->memory, end - first, sizeof *rest);
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i++)
        if (is_single(c, i))
            c->s->order.at[first++] = c->s->order.at[i];
        else
            rest[n++] = c->s->order.at[i];
    memcpy(&c->s->order.at[first], rest, n * sizeof *rest);
    find_readers(c);
}

/* Steps that node `i` adds to a program that begins with node `first`: its own, and those of
 * constants that nothing before it reads. */
static uint32_t steps_of(cutting *c, uint32_t first, uint32_t i)
{
    const graph_node *n = &c->s->order.at[i];
    uint32_t steps = !n->assign;
    for (uint32_t k = 0; k < n->nin; k++)
        if (graph_tensor_at(c->s->g, n->in[k])->constant && c->met[n->in[k]] != first + 1) {
            c->met[n->in[k]] = first + 1;
            steps++;
        }
    return steps;
}

/* The end of the longest program that begins with node `first` of a run that ends at `end`. A
 * longer one may fit where a shorter one does not, which has more results that others read. */
static uint32_t longest(cutting *c, uint32_t first, uint32_t end)
{
    uint32_t k = first + 1, steps = steps_of(c, first, first);
    while (k < end && k < first + WEFT_EW_MAX_STEPS + WEFT_MAX_OPERANDS &&
           (steps += steps_of(c, first, k)) <= WEFT_EW_MAX_STEPS &&
           is_single(c, k) == is_single(c, first))
        k++;
    while (k > first + 1 && !fits(c, first, k))
        k--;
    return k;
}

/* Cut nodes [first, end) into runs from number `run` on; returns the number of the last. */
static uint32_t cut(cutting *c, uint32_t first, uint32_t end, uint32_t run)
{
    for (uint32_t next; first < end; run++)
        for (next = longest(c, first, end); first < next;)
            c->s->run_of[first++] = run;
    return run - 1;
}

static void cut_long_runs(cutting *c)
{
    plan_to_list *s = c->s;
    for (uint32_t i = 0, k, run = 0; i < s->order.n; i = k, run++) {
        for (k = i + 1; k < s->order.n && s->run_of[k] == s->run_of[i];)
            k++;
        for (uint32_t j = i; j < k; j++)
            s->run_of[j] = run;
        if (plan_runs_elementwise(s->g, &s->order.at[i]) && !fits(c, i, k)) {
            singles_first(c, i, k);
            run = cut(c, i, k, run);
        }
    }
}

void plan_runs_divide(plan_to_list *s)
{
    const size_t tensors = s->g->tensors.n + 1;
    cutting c = {s, pool_array(s->memory, tensors, sizeof *c.reader),
                 pool_array(s->memory, tensors, sizeof *c.met)};
    s->run_of = pool_array(s->memory, s->order.n, sizeof *s->run_of);
    join(s);
    find_readers(&c);
    cut_long_runs(&c);
    for (weft_tensor t = 1; t <= s->g->tensors.n; t++)
        s->last[t] = c.reader[t] ? 1 + s->run_of[c.reader[t] - 1] : 0;
    for (uint32_t i = 0; i < s->order.n; i++)
        for (uint32_t k = 0; k < s->order.at[i].nout && !s->order.at[i].assign; k++)
            s->wanted[s->order.at[i].out[k]] = s->last[s->order.at[i].out[k]] > s->run_of[i] + 1;
}
