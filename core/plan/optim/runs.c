/* plan/optim/runs.c: divides the nodes of a graph into runs, each of which is an instruction, a
 * collective or one elementwise program.
 *
 * A run that is too long for one program is cut into several. What one makes and another reads is
 * then a temporary; values of one element come first, in programs of their own. */
#include "plan/optim/graph_to_list.h"

#include <stdlib.h>
#include <string.h>

uint64_t plan_runs_elements(const graph *g, weft_tensor t)
{
    weft_shape s = graph_local_shape(g, t);
    return graph_shape_elements(&s);
}

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
        uint64_t x = plan_runs_elements(g, k < n->nin ? n->in[k] : n->out[k - n->nin]);
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
    uint32_t *reader; /* [tensor] 1 + the last node that reads it */
    uint32_t *seen;   /* [tensor] `stamp`: read or made by the nodes that fits() looks at */
    uint32_t stamp;
} cutting;

static void find_readers(cutting *c)
{
    for (uint32_t i = 0; i < c->s->order.n; i++)
        for (uint32_t k = 0; k < c->s->order.at[i].nin; k++)
            c->reader[c->s->order.at[i].in[k]] = i + 1;
}

static bool is_new(cutting *c, weft_tensor t)
{
    const bool fresh = t && c->seen[t] != c->stamp;
    c->seen[t] = c->stamp;
    return fresh;
}

/* Whether nodes [first, end) are one program. */
static bool fits(cutting *c, uint32_t first, uint32_t end)
{
    uint32_t registers = 0, nin = 0, nout = 0;
    c->stamp++;
    for (uint32_t i = first; i < end; i++) {
        const graph_node *n = &c->s->order.at[i];
        for (uint32_t k = 0; k < n->nin; k++)
            if (is_new(c, n->in[k])) {
                registers++;
                nin += !graph_tensor_at(c->s->g, n->in[k])->constant;
            }
        registers += !n->assign && is_new(c, n->out[0]);
        nout += n->assign || c->reader[n->out[0]] > end;
    }
    const bool gated = is_new(c, c->s->job->gate);
    return registers + gated <= WEFT_EW_MAX_REGISTERS && nin + gated <= WEFT_MAX_OPERANDS &&
           nout <= WEFT_MAX_OPERANDS && nin + gated + nout <= MAX_BASES - BASE_FIRST;
}

static bool is_single(const cutting *c, uint32_t i)
{
    const graph_node *n = &c->s->order.at[i];
    return !n->assign && width(c->s->g, n) == 1;
}

/* Move the ops on single values before the others: they depend on each other alone. */
static void singles_first(cutting *c, uint32_t first, uint32_t end)
{
    graph_node *rest = mem_alloc((end - first) * sizeof *rest);
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i++)
        if (is_single(c, i))
            c->s->order.at[first++] = c->s->order.at[i];
        else
            rest[n++] = c->s->order.at[i];
    memcpy(&c->s->order.at[first], rest, n * sizeof *rest);
    free(rest);
    find_readers(c);
}

/* Cut nodes [first, end) into runs from number `run` on; returns the number of the last. */
static uint32_t cut(cutting *c, uint32_t first, uint32_t end, uint32_t run)
{
    for (uint32_t i = first; i < end; i++) {
        if (i > first && (!fits(c, first, i + 1) || is_single(c, i - 1) != is_single(c, i))) {
            first = i;
            run++;
        }
        c->s->run_of[i] = run;
    }
    return run;
}

static void cut_long_runs(plan_to_list *s)
{
    const uint64_t n = s->g->tensors.n + 1;
    cutting c = {
        .s = s, .reader = mem_alloc(n * sizeof *c.reader), .seen = mem_alloc(n * sizeof *c.seen)};
    uint32_t run = 0;
    find_readers(&c);
    for (uint32_t i = 0, k; i < s->order.n; i = k, run++) {
        for (k = i + 1; k < s->order.n && s->run_of[k] == s->run_of[i];)
            k++;
        if (plan_runs_elementwise(s->g, &s->order.at[i]) && !fits(&c, i, k)) {
            singles_first(&c, i, k);
            run = cut(&c, i, k, run);
        } else {
            for (uint32_t j = i; j < k; j++)
                s->run_of[j] = run;
        }
    }
    free(c.reader);
    free(c.seen);
}

void plan_runs_divide(plan_to_list *s)
{
    s->run_of = mem_alloc(s->order.n * sizeof *s->run_of + 1);
    join(s);
    cut_long_runs(s);
    for (uint32_t i = 0; i < s->order.n; i++)
        for (uint32_t k = 0; k < s->order.at[i].nin; k++)
            s->last[s->order.at[i].in[k]] = s->run_of[i] + 1;
    for (weft_tensor t = 1; t <= s->g->tensors.n; t++) {
        const weft_tensor of = graph_tensor_at(s->g, t)->part_of;
        if (of && s->last[t] > s->last[of])
            s->last[of] = s->last[t];
    }
    for (uint32_t i = 0; i < s->order.n; i++)
        for (uint32_t k = 0; k < s->order.at[i].nout && !s->order.at[i].assign; k++) {
            weft_tensor t = s->order.at[i].out[k];
            s->wanted[t] = s->last[t] > s->run_of[i] + 1;
        }
}
