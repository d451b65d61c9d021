/* check/op/finite.c: the gradient that an op writes, against finite differences of its values.
 *
 * With weights r for the elements of the outputs, L = sum r y, and the gradient of L follows from
 * the graph that grad() appends when dout is r. It is compared element by element with
 * (L(x + h) - L(x - h)) / 2h. The sum is over differences, in double precision, so what does not
 * depend on the element drops out. An element is wrong if it is off for two sizes of h: a larger
 * one errs by curvature, a smaller one by rounding. */
#include "check/op/value.h"

#include "base/err.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS 20u /* of an input that are compared */
#define SHARE 0.02   /* of the element itself */
#define OF_MAX 5e-3  /* of the largest element */

typedef struct probe { /* an example, with a gradient that flows into the outputs `from` */
    const check_op_example *e;
    uint32_t kind, from;
    check_op_graph x;
    void **value; /* [tensor] */
    uint64_t random;
    void *low[WEFT_MAX_OPERANDS], *high[WEFT_MAX_OPERANDS]; /* results */
    bool given[WEFT_MAX_OPERANDS]; /* a gradient was filled, for this kind of input or the other */
    char why[1024];
} probe;

/* --- values of the graph --- */

static void begin_values(probe *p, bool mixed)
{
    const graph *g = &p->x.g;
    p->value = mem_alloc((g->tensors.n + 1) * sizeof *p->value);
    p->value[0] = NULL;
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        const graph_tensor *k = graph_tensor_at(g, t);
        const bool is_input = t <= p->e->nin;
        p->value[t] =
            check_op_numbers(&k->shape, &p->random, mixed || !is_input, is_input ? p->e->scale : 1);
        if (k->kind == WEFT_T_SCALAR)
            *(float *)p->value[t] = k->constant ? (float)k->value : 1;
    }
}

static void end_values(probe *p)
{
    check_op_free(p->value, p->x.g.tensors.n + 1);
    free(p->value);
    p->value = NULL;
}

/* Nodes [first, end); false: one is not computed. */
static bool compute(probe *p, uint32_t first, uint32_t end)
{
    const graph *g = &p->x.g;
    for (uint32_t i = first; i < end; i++) {
        const graph_node *n = &g->nodes.at[i];
        weft_shape in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
        const void *from[WEFT_MAX_OPERANDS];
        void *to[WEFT_MAX_OPERANDS];
        weft_attr attrs[CHECK_OP_ATTRS];
        if (!n->op || n->nattr > GRAPH_DOC_ATTRS) {
            snprintf(p->why, sizeof p->why, "its gradient has %s, which takes several ranks",
                     n->id);
            return false;
        }
        for (uint32_t k = 0; k < n->nin; k++) {
            in[k] = graph_tensor_at(g, n->in[k])->shape;
            from[k] = p->value[n->in[k]];
        }
        for (uint32_t k = 0; k < n->nout; k++) {
            out[k] = graph_tensor_at(g, n->out[k])->shape;
            to[k] = p->value[n->out[k]];
        }
        const check_op_task t = {
            .id = n->id,
            .op = n->op,
            .attrs = attrs,
            .nattr = check_op_position(n->op, n->attrs, n->nattr, in, n->nin, NULL, 0, attrs),
            .nin = n->nin,
            .nout = n->nout,
            .in = in,
            .out = out,
            .from = from,
            .to = to};
        if (!check_op_compute(p->e->of, &t, p->why))
            return false;
    }
    return true;
}

/* --- one input --- */

/* The results where an element of input i is `v`. */
static bool at_value(probe *p, uint32_t i, uint64_t at, float v, void **to)
{
    const void *from[WEFT_MAX_OPERANDS];
    float *x = (float *)p->value[p->x.in[i]] + at;
    const float was = *x;
    for (uint32_t k = 0; k < p->e->nin; k++)
        from[k] = p->value[p->x.in[k]];
    *x = v;
    const bool done = check_op_forward(p->e, from, 0, to, p->why);
    *x = was;
    return done;
}

/* The slope of L between two values of an element of input i; not a number where an op cannot take
 * the values. *noise: how far the rounding of results that are large beside their differences may
 * put it off, from eight units in the last place of each, added as errors at random are. */
static double rise(probe *p, uint32_t i, uint64_t at, float low, float high, double *noise)
{
    const check_op_example *e = p->e;
    const double distance = (double)high - (double)low;
    double sum = 0, squares = 0;
    bool done = at_value(p, i, at, high, p->high);
    done = done && at_value(p, i, at, low, p->low);
    for (uint32_t k = 0; done && k < e->nout; k++)
        for (uint64_t j = 0; p->from >> k & 1 && j < graph_shape_elements(&e->out[k]); j++) {
            const double weight = (double)((float *)p->value[p->x.dout[k]])[j];
            const double to = (double)((float *)p->high[k])[j];
            sum += weight * (to - (double)((float *)p->low[k])[j]);
            squares += weight * to * weight * to;
        }
    *noise = 8 * 0x1p-24 * sqrt(squares) / distance;
    check_op_free(p->high, e->nout);
    check_op_free(p->low, e->nout);
    return done ? sum / distance : (double)NAN;
}

static bool near(double a, double b, double max, double noise)
{
    return fabs(a - b) <= SHARE * fmax(fabs(a), fabs(b)) + OF_MAX * max + noise + 1e-5;
}

/* Whether `is` fits the differences about an element; *shown is what they say. Distances go by the
 * size of the inputs and, where these are large, also by the size at which ops are curved. Where
 * the op has a kink there, as a maximum has, anything between the slopes of both sides fits. */
static bool fits(probe *p, uint32_t i, uint64_t at, double is, double max, double *shown)
{
    const float x = ((float *)p->value[p->x.in[i]])[at];
    const float scale = (float)p->e->scale;
    double noise;
    const float h[] = {0x1p-6f * scale, 0x1p-9f * scale, 0x1p-6f, 0x1p-9f};
    for (uint32_t k = 0; k < (p->e->scale > 1 ? 4 : 2); k++) {
        *shown = rise(p, i, at, x - h[k], x + h[k], &noise);
        if (!isfinite(*shown) || near(*shown, is, max, noise))
            return true;
    }
    const double left = rise(p, i, at, x - h[1], x, &noise),
                 right = rise(p, i, at, x, x + h[1], &noise);
    return near(left, is, max, noise) || near(right, is, max, noise) || (is < left) != (is < right);
}

/* `got`: the gradient by grad(); NULL: it says that none flows. */
static void one_input(probe *p, uint32_t i, const float *got)
{
    const check_op_example *e = p->e;
    const uint64_t n = graph_shape_elements(&e->in[i]);
    const double max = got ? check_op_largest(&e->in[i], got) : 0;
    for (uint64_t k = 0; k < n && k < ELEMENTS; k++) {
        const uint64_t at = n <= ELEMENTS ? k : check_random(&p->random) % n;
        const double is = got ? (double)got[at] : 0;
        double shown;
        if (!fits(p, i, at, is, max, &shown))
            check_fail(
                "grad() of '%s' gives element %llu of the gradient of %s as %.6g, and finite "
                "differences of its values give %.6g (%s; inputs are %s)%s",
                e->of->c->name, (unsigned long long)at, e->call.form->in[i].name, is, shown,
                e->text, p->kind == WEFT_T_PARAM ? "parameters" : "activations",
                got ? "" : ": din is 0 in both parts, as where no gradient flows");
    }
}

/* --- an example --- */

/* Whether the gradient is a result of the op itself: of a loss, which knows that its own is 1 and
 * may have other factors in it, such as a loss scale. */
static bool made_before(const probe *p, weft_tensor din)
{
    for (uint32_t k = 0; k < p->e->nout; k++)
        if (p->x.out[k] == din)
            return true;
    return false;
}

static void compare(probe *p)
{
    const check_op_example *e = p->e;
    const weft_tensor *din = p->x.din[p->kind == WEFT_T_PARAM];
    for (uint32_t i = 0; i < e->nin; i++) {
        if (!check_op_real(&e->in[i]) || !din[i])
            continue;
        const weft_shape *s = &graph_tensor_at(&p->x.g, din[i])->shape;
        p->given[i] = true;
        if (made_before(p, din[i])) {
            check_op_unknown(e, "the gradient of %s is a result of '%s' itself",
                             e->call.form->in[i].name, e->of->c->name);
            continue;
        }
        if (graph_shape_bytes(s) != graph_shape_bytes(&e->in[i]) || !check_op_real(s))
            check_fail("grad() of '%s' gives %s a gradient of another size (%s)", e->of->c->name,
                       e->call.form->in[i].name, e->text);
        one_input(p, i, p->value[din[i]]);
    }
}

/* Where some inputs get a gradient, those that get one neither as activations nor as parameters do
 * not change the outputs. */
static void compare_missing(probe *p)
{
    bool any = false;
    for (uint32_t i = 0; i < p->e->nin; i++)
        any |= p->given[i];
    for (uint32_t i = 0; any && i < p->e->nin; i++)
        if (check_op_real(&p->e->in[i]) && !p->given[i])
            one_input(p, i, NULL);
}

static bool all_finite(const probe *p)
{
    bool finite = true;
    for (uint32_t k = 0; k < p->e->nout; k++)
        finite &= check_op_finite(&p->e->out[k], p->value[p->x.out[k]]);
    return finite;
}

/* False: it cannot be computed, p->why says why. */
static bool with_values(probe *p, bool mixed, bool last)
{
    begin_values(p, mixed);
    bool done = compute(p, 0, 1);
    if (done && all_finite(p)) { /* log, sqrt and others do not take all numbers */
        done = compute(p, 1, p->x.g.nodes.n);
        if (done)
            compare(p);
        if (done && last)
            compare_missing(p);
    }
    end_values(p);
    return done;
}

/* Outputs into which a gradient may flow: all at once, or the first one that grad() accepts alone.
 * 0: none. */
static uint32_t flows_from(const check_op_example *e)
{
    static check_op_graph x;
    const uint32_t all = e->nout < 32 ? (1u << e->nout) - 1 : UINT32_MAX;
    uint32_t from = 0;
    for (uint32_t k = 0; !from && k <= e->nout && k <= 32; k++) {
        const uint32_t tried = k ? 1u << (k - 1) : all;
        from = check_op_derive(e, WEFT_T_ACTIVATION, tried, &x) == WEFT_OK ? tried : 0;
        graph_free(&x.g);
    }
    return from;
}

static void one(const check_op_example *e)
{
    static const uint32_t kinds[] = {WEFT_T_ACTIVATION, WEFT_T_PARAM};
    static probe p;
    p = (probe){.e = e, .from = flows_from(e), .random = e->of->run->seed};
    if (!p.from) {
        check_op_unknown(e, "grad() of '%s' refuses a gradient of each output (%s): %s",
                         e->of->c->name, e->text, err_text());
        return;
    }
    bool done = true;
    for (uint32_t i = 0; done && i < 4; i++) {
        p.kind = kinds[i / 2];
        if (check_op_derive(e, p.kind, p.from, &p.x) == WEFT_OK)
            done = with_values(&p, i % 2, i == 3);
        graph_free(&p.x.g);
    }
    if (!done)
        check_op_unknown(e, "the gradient of '%s' cannot be computed: %s", e->of->c->name, p.why);
}

void check_op_gradients(check_run *r)
{
    check_op_examples(r, true, check_op_has_grad, "grad()", one);
}
