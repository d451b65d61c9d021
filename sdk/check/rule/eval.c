/* check/rule/eval.c: an interpreter of rules' graphs in double precision. Ops are computed by
 * check/reference.
 *
 * Nodes are computed in their order, and assignments after all of them, as the SDK says. With
 * `narrow` every result is rounded to fp32. Where the parameter is split, each rank has its part of
 * every tensor, and communication works on the parts of all ranks. */
#include "check/reference/reference.h"
#include "check/rule/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double **at(const check_rule_run *x, uint32_t rank, weft_tensor t)
{
    return &x->value[rank * (x->of->g.tensors.n + 1) + t];
}

/* --- ops --- */

/* False: the op is not known here, or its elements are numbered over the whole job. */
static bool begin_call(const graph_node *n, check_call *c)
{
    check_call_begin(c, n->id);
    if (!n->op || n->op->first_input || !check_call_attrs(c, n->attrs, n->nattr))
        return false;
    c->ew = n->op->flags & WEFT_OP_ELEMENTWISE ? n->op->ew : 0;
    return c->ew ? check_reference_ew(c) && n->nin <= 3 && n->nout == 1 : check_reference_knows(c);
}

static void run_op(const check_rule_run *x, const graph_node *n, uint32_t rank)
{
    check_call c;
    begin_call(n, &c);
    for (uint32_t k = 0; k < n->nin; k++)
        check_call_from(&c, graph_local_shape(&x->of->g, n->in[k]), *at(x, rank, n->in[k]));
    for (uint32_t k = 0; k < n->nout; k++)
        check_call_to(&c, graph_local_shape(&x->of->g, n->out[k]), *at(x, rank, n->out[k]));
    check_reference(&c);
    for (int64_t i = 0; !strcmp(n->id, "cast") && i < check_operand_count(&c.out[0]); i++)
        c.y[0][i] = check_reference_cast(c.out[0].dtype, c.y[0][i]);
}

const char *check_rule_unknown(const graph *g)
{
    check_call c;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        if (!n->assign && n->comm != WEFT_ALL_REDUCE && n->comm != WEFT_ALL_GATHER &&
            !begin_call(n, &c))
            return n->id;
    }
    return NULL;
}

/* --- communication --- */

static void all_reduce(const check_rule_run *x, const graph_node *n)
{
    const uint64_t elements = graph_local_elements(&x->of->g, n->out[0]);
    for (uint64_t i = 0; i < elements; i++) {
        double v = (*at(x, 0, n->in[0]))[i];
        for (uint32_t r = 1; r < x->ranks; r++) {
            const double more = (*at(x, r, n->in[0]))[i];
            v = n->redop == WEFT_MAX ? fmax(v, more) : v + more;
        }
        for (uint32_t r = 0; r < x->ranks; r++)
            (*at(x, r, n->out[0]))[i] = v;
    }
}

/* The parts lie behind each other along the first axis. */
static void all_gather(const check_rule_run *x, const graph_node *n)
{
    const uint64_t part = graph_local_elements(&x->of->g, n->in[0]),
                   all = graph_local_elements(&x->of->g, n->out[0]);
    for (uint32_t r = 0; r < x->ranks; r++)
        for (uint64_t i = 0; i < all; i++)
            (*at(x, r, n->out[0]))[i] = (*at(x, (uint32_t)(i / part), n->in[0]))[i % part];
}

/* --- running --- */

static void compute(const check_rule_run *x, const graph_node *n)
{
    if (n->comm == WEFT_ALL_REDUCE)
        all_reduce(x, n);
    else if (n->comm)
        all_gather(x, n);
    for (uint32_t r = 0; r < x->ranks; r++) {
        if (!n->comm)
            run_op(x, n, r);
        for (uint32_t k = 0; k < n->nout; k++)
            for (uint64_t i = 0; x->narrow && i < graph_local_elements(&x->of->g, n->out[k]); i++)
                (*at(x, r, n->out[k]))[i] = (double)(float)(*at(x, r, n->out[k]))[i];
    }
}

static void assign(const check_rule_run *x, const graph_node *n)
{
    const graph_tensor *t = graph_tensor_at(&x->of->g, n->out[0]);
    for (uint32_t r = 0; r < x->ranks; r++)
        for (uint64_t i = 0; i < graph_local_elements(&x->of->g, n->out[0]); i++) {
            const double v = (*at(x, r, n->in[0]))[i];
            (*at(x, r, n->out[0]))[i] = x->narrow ? check_reference_cast(t->shape.dtype, v) : v;
        }
}

static bool is_kept(const graph_tensor *t)
{
    return t->kind == WEFT_T_PARAM || t->kind == WEFT_T_STATE || t->kind == WEFT_T_SCALAR;
}

/* Values are assigned at once: none is read after it has changed. */
static void assign_all(const check_rule_run *x)
{
    const graph *g = &x->of->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) /* a source may itself be assigned: keep it */
        if (g->nodes.at[i].assign && is_kept(graph_tensor_at(g, g->nodes.at[i].in[0])))
            assign(x, &g->nodes.at[i]);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].assign && !is_kept(graph_tensor_at(g, g->nodes.at[i].in[0])))
            assign(x, &g->nodes.at[i]);
}

static double scalar_value(const check_rule_run *x, const char *name, double lr, bool skipped,
                           bool *is)
{
    const struct {
        const char *name;
        double value;
    } of[] = {{"lr", lr},
              {"count", x->updates},
              {"step", x->steps},
              {"gate", skipped ? 0 : 1},
              {"loss", skipped ? (double)NAN : 2},
              {"norm", skipped ? (double)NAN : 1},
              {"scale", 1},
              {"clip", 1}};
    *is = false;
    for (size_t i = 0; i < sizeof of / sizeof *of && !*is; i++)
        if (!strcmp(name, of[i].name)) {
            *is = true;
            return of[i].value;
        }
    return 0;
}

static void write_part(const check_rule_run *x, uint32_t rank, weft_tensor t, const double *whole)
{
    const uint64_t part = graph_local_elements(&x->of->g, t);
    const uint64_t all = graph_shape_elements(&graph_tensor_at(&x->of->g, t)->shape);
    const uint64_t first = part == all ? 0 : rank * part;
    for (uint64_t i = 0; i < part; i++)
        (*at(x, rank, t))[i] = whole && first + i < all ? whole[first + i] : 0; /* padding */
}

void check_rule_step(check_rule_run *x, const double *grad, double lr, bool skipped)
{
    const graph *g = &x->of->g;
    x->steps++;
    x->updates += !skipped;
    for (uint32_t r = 0; r < x->ranks; r++) {
        write_part(x, r, x->of->grad, grad);
        for (weft_tensor t = 1; t <= g->tensors.n; t++) {
            const graph_tensor *s = graph_tensor_at(g, t);
            bool is = false;
            const double v =
                s->kind == WEFT_T_SCALAR ? scalar_value(x, s->name, lr, skipped, &is) : 0;
            if (is)
                (*at(x, r, t))[0] = x->narrow ? (double)(float)v : v;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (!g->nodes.at[i].assign)
            compute(x, &g->nodes.at[i]);
    if (!skipped)
        assign_all(x);
}

static bool is_copy(const graph_tensor *t)
{
    return t->kind == WEFT_T_STATE && t->init && !strcmp(t->init, "copy");
}

static double initial(const graph_tensor *t, uint64_t i)
{
    if (t->constant)
        return t->value;
    if (t->kind != WEFT_T_STATE || !t->init || is_copy(t)) /* check_rule_begin() copies */
        return 0;
    if (!strcmp(t->init, "eye"))
        return i / (uint64_t)t->shape.axes[1].size == i % (uint64_t)t->shape.axes[1].size;
    return strcmp(t->init, "ones") ? strtod(t->init + sizeof "constant:" - 1, NULL) : 1;
}

void check_rule_begin(check_rule_run *x, const check_rule_graph *of, bool narrow,
                      const double *start)
{
    const graph *g = &of->g;
    const uint32_t ranks = of->ranks.n ? of->ranks.size[0] : 1;
    *x = (check_rule_run){.of = of, .narrow = narrow, .ranks = ranks};
    x->value = mem_alloc((size_t)ranks * (g->tensors.n + 1) * sizeof *x->value);
    for (uint32_t r = 0; r < ranks; r++)
        for (weft_tensor t = 1; t <= g->tensors.n; t++) {
            double *v = mem_alloc(graph_local_elements(g, t) * sizeof *v);
            *at(x, r, t) = v;
            for (uint64_t i = 0; i < graph_local_elements(g, t); i++) {
                const double first = initial(graph_tensor_at(g, t), i);
                v[i] = narrow ? (double)(float)first : first;
            }
            if (t == of->param || is_copy(graph_tensor_at(g, t)))
                write_part(x, r, t, start);
        }
}

void check_rule_end(check_rule_run *x)
{
    for (size_t i = 0; x->value && i < (size_t)x->ranks * (x->of->g.tensors.n + 1); i++)
        free(x->value[i]);
    free(x->value);
    x->value = NULL;
}

uint64_t check_rule_read(const check_rule_run *x, weft_tensor t, double *out)
{
    const uint64_t part = graph_local_elements(&x->of->g, t);
    const uint64_t all = graph_shape_elements(&graph_tensor_at(&x->of->g, t)->shape);
    for (uint64_t i = 0; i < all; i++)
        out[i] = (*at(x, part == all ? 0 : (uint32_t)(i / part), t))[i % part];
    return all;
}

double check_rule_largest(const check_rule_run *x)
{
    double max = 0;
    for (uint32_t r = 0; r < x->ranks; r++)
        for (uint64_t i = 0; i < graph_local_elements(&x->of->g, x->of->param); i++)
            max = fmax(max, fabs((*at(x, r, x->of->param))[i]));
    return max;
}

const char *check_rule_infinite(const check_rule_run *x)
{
    for (weft_tensor t = 1; t <= x->of->g.tensors.n; t++) {
        const graph_tensor *k = graph_tensor_at(&x->of->g, t);
        for (uint64_t i = 0; is_kept(k) && i < graph_local_elements(&x->of->g, t); i++)
            if (!isfinite((*at(x, 0, t))[i]))
                return t == x->of->param ? "the parameter" : k->name;
    }
    return NULL;
}

const char *check_rule_same(const check_rule_run *a, const check_rule_run *b)
{
    for (weft_tensor t = 1; t <= a->of->g.tensors.n; t++) {
        const graph_tensor *k = graph_tensor_at(&a->of->g, t);
        bool is = false;
        if (k->kind == WEFT_T_SCALAR)
            (void)scalar_value(a, k->name, 0, false, &is);
        if (!is_kept(k) || is)
            continue;
        if (memcmp(*at(a, 0, t), *at(b, 0, t),
                   graph_local_elements(&a->of->g, t) * sizeof(double)) != 0)
            return t == a->of->param ? "the parameter" : k->name;
    }
    return NULL;
}
