/* check/rule/eval.c: an interpreter of rules' graphs in double precision, by plain loops.
 *
 * Nodes are computed in their order, and assignments after all of them, as the SDK says. With
 * `narrow` every result is rounded to fp32. Where the parameter is split, each rank has its part of
 * every tensor, and communication works on the parts of all ranks. */
#include "check/rule/rule.h"

#include "base/number/half.h"
#include "check/elementwise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct call { /* an op on one rank */
    const graph_node *n;
    weft_shape is[WEFT_MAX_OPERANDS], os;
    const double *in[WEFT_MAX_OPERANDS];
    double *out;
} call;

static double **at(const check_rule_run *x, uint32_t rank, weft_tensor t)
{
    return &x->value[rank * (x->of->g.tensors.n + 1) + t];
}

static uint64_t count(const graph *g, weft_tensor t)
{
    const weft_shape s = graph_local_shape(g, t);
    return graph_shape_elements(&s);
}

/* --- ops --- */

static void each_element(const call *c)
{
    const uint64_t n = graph_shape_elements(&c->os);
    for (uint64_t i = 0; i < n; i++) {
        double v[3] = {0};
        for (uint32_t k = 0; k < c->n->nin && k < 3; k++)
            v[k] = c->in[k][c->is[k].rank ? i : 0];
        c->out[i] = check_elementwise(c->n->op->ew, v[0], v[1], v[2]);
    }
}

static uint64_t columns(const weft_shape *s)
{
    return graph_shape_elements(s) / (uint64_t)s->axes[0].size;
}

/* Which product: y[i, j] = sum over l of x(i, l) w(j, l), each as it lies in memory. */
static void product(const call *c, bool dx, bool dw)
{
    const uint64_t rows = dw ? columns(&c->is[0]) : (uint64_t)c->is[0].axes[0].size;
    const uint64_t across = columns(&c->os);
    const uint64_t inner = dw ? (uint64_t)c->is[0].axes[0].size : columns(&c->is[0]);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < across; j++) {
            double sum = !dx && !dw && c->n->nin > 2 ? c->in[2][j] : 0;
            for (uint64_t l = 0; l < inner; l++)
                sum += c->in[0][dw ? l * rows + i : i * inner + l] *
                       c->in[1][dx || dw ? l * across + j : j * inner + l];
            c->out[i * across + j] = sum;
        }
}

static void linear(const call *c)
{
    product(c, false, false);
}

static void linear_dx(const call *c)
{
    product(c, true, false);
}

static void linear_dw(const call *c)
{
    product(c, false, true);
}

static void sumsq(const call *c)
{
    c->out[0] = 0;
    for (uint64_t i = 0; i < graph_shape_elements(&c->is[0]); i++)
        c->out[0] += c->in[0][i] * c->in[0][i];
}

/* Elements before, along and behind the named axis of the tensor that has it. */
static void around(const call *c, const weft_shape *s, uint64_t *n, uint64_t *behind)
{
    int64_t axis = 0;
    for (uint32_t i = 0; i < c->n->nattr; i++)
        if (strcmp(c->n->attrs[i].key, "size") != 0)
            axis = c->n->attrs[i].i;
    *n = (uint64_t)s->axes[axis].size;
    *behind = 1;
    for (uint32_t i = (uint32_t)axis + 1; i < s->rank; i++)
        *behind *= (uint64_t)s->axes[i].size;
}

static void reduce_axis(const call *c)
{
    const bool sums = !strcmp(c->n->id, "sum_axis");
    uint64_t n, behind;
    around(c, &c->is[0], &n, &behind);
    for (uint64_t i = 0; i < graph_shape_elements(&c->os); i++) {
        const double *x = c->in[0] + i / behind * n * behind + i % behind;
        double v = *x;
        for (uint64_t k = 1; k < n; k++)
            v = sums ? v + x[k * behind] : fmax(v, x[k * behind]);
        c->out[i] = v;
    }
}

static void spread_axis(const call *c)
{
    uint64_t n, behind;
    around(c, &c->os, &n, &behind);
    for (uint64_t i = 0; i < graph_shape_elements(&c->os); i++)
        c->out[i] = c->in[0][i / behind / n * behind + i % behind];
}

static double rounded(double v, uint32_t dtype)
{
    switch (dtype) {
    case WEFT_BF16: return (double)bf16_value(bf16_from((float)v));
    case WEFT_F16: return (double)f16_value(f16_from((float)v));
    case WEFT_U8: return rint(fmin(fmax(v, 0), 255));
    case WEFT_I32: return rint(fmin(fmax(v, -2147483648.0), 2147483647.0));
    default: return v;
    }
}

static void cast(const call *c)
{
    for (uint64_t i = 0; i < graph_shape_elements(&c->os); i++)
        c->out[i] = rounded(c->in[0][i], c->os.dtype);
}

static const struct {
    const char *id;
    void (*run)(const call *c);
} known[] = {{"linear", linear},         {"linear.dx", linear_dx},  {"linear.dw", linear_dw},
             {"sumsq", sumsq},           {"sum_axis", reduce_axis}, {"max_axis", reduce_axis},
             {"broadcast", spread_axis}, {"repeat", spread_axis},   {"cast", cast}};

static void (*find(const graph_node *n))(const call *c)
{
    if (n->op && (n->op->flags & WEFT_OP_ELEMENTWISE))
        return n->op->ew >= WEFT_EW_COPY && n->op->ew <= WEFT_EW_FLOOR &&
                       n->op->ew != WEFT_EW_CONST && n->nin <= 3 && n->nout == 1
                   ? each_element
                   : NULL;
    for (size_t i = 0; n->op && i < sizeof known / sizeof *known; i++)
        if (!strcmp(n->id, known[i].id))
            return known[i].run;
    return NULL;
}

const char *check_rule_unknown(const graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        if (!n->assign && n->comm != WEFT_ALL_REDUCE && n->comm != WEFT_ALL_GATHER && !find(n))
            return n->id;
    }
    return NULL;
}

/* --- communication --- */

static void all_reduce(const check_rule_run *x, const graph_node *n)
{
    const uint64_t elements = count(&x->of->g, n->out[0]);
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
    const uint64_t part = count(&x->of->g, n->in[0]), all = count(&x->of->g, n->out[0]);
    for (uint32_t r = 0; r < x->ranks; r++)
        for (uint64_t i = 0; i < all; i++)
            (*at(x, r, n->out[0]))[i] = (*at(x, (uint32_t)(i / part), n->in[0]))[i % part];
}

/* --- running --- */

static void compute(const check_rule_run *x, const graph_node *n)
{
    const graph *g = &x->of->g;
    if (n->comm == WEFT_ALL_REDUCE)
        all_reduce(x, n);
    else if (n->comm)
        all_gather(x, n);
    for (uint32_t r = 0; r < x->ranks; r++) {
        call c = {.n = n, .os = graph_local_shape(g, n->out[0]), .out = *at(x, r, n->out[0])};
        for (uint32_t k = 0; k < n->nin; k++) {
            c.is[k] = graph_local_shape(g, n->in[k]);
            c.in[k] = *at(x, r, n->in[k]);
        }
        if (!n->comm)
            find(n)(&c);
        for (uint64_t i = 0; x->narrow && i < graph_shape_elements(&c.os); i++)
            c.out[i] = (double)(float)c.out[i];
    }
}

static void assign(const check_rule_run *x, const graph_node *n)
{
    const graph_tensor *t = graph_tensor_at(&x->of->g, n->out[0]);
    for (uint32_t r = 0; r < x->ranks; r++)
        for (uint64_t i = 0; i < count(&x->of->g, n->out[0]); i++) {
            const double v = (*at(x, r, n->in[0]))[i];
            (*at(x, r, n->out[0]))[i] = x->narrow ? rounded(v, t->shape.dtype) : v;
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
    const uint64_t part = count(&x->of->g, t);
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
            double *v = mem_alloc(count(g, t) * sizeof *v);
            *at(x, r, t) = v;
            for (uint64_t i = 0; i < count(g, t); i++) {
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
    const uint64_t part = count(&x->of->g, t);
    const uint64_t all = graph_shape_elements(&graph_tensor_at(&x->of->g, t)->shape);
    for (uint64_t i = 0; i < all; i++)
        out[i] = (*at(x, part == all ? 0 : (uint32_t)(i / part), t))[i % part];
    return all;
}

double check_rule_largest(const check_rule_run *x)
{
    double max = 0;
    for (uint32_t r = 0; r < x->ranks; r++)
        for (uint64_t i = 0; i < count(&x->of->g, x->of->param); i++)
            max = fmax(max, fabs((*at(x, r, x->of->param))[i]));
    return max;
}

const char *check_rule_infinite(const check_rule_run *x)
{
    for (weft_tensor t = 1; t <= x->of->g.tensors.n; t++) {
        const graph_tensor *k = graph_tensor_at(&x->of->g, t);
        for (uint64_t i = 0; is_kept(k) && i < count(&x->of->g, t); i++)
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
        if (memcmp(*at(a, 0, t), *at(b, 0, t), count(&a->of->g, t) * sizeof(double)) != 0)
            return t == a->of->param ? "the parameter" : k->name;
    }
    return NULL;
}
