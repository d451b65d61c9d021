/* check/op/cost.c: flops() is a cost: finite, not negative, and in proportion to the tokens. */
#include "check/op/op.h"

#include <math.h>
#include <string.h>

static double flops(const check_op_example *e)
{
    const check_op *of = e->of;
    graph g;
    graph_mesh none = {0};
    graph_init(&g, &none, (graph_ops){0}, WEFT_F32, WEFT_F32);
    g.now.looking = "infer";
    const weft_builder b = graph_builder(&g);
    const weft_op_self self = {sizeof self, 0, of->module, of->conf, &b};
    const double v =
        PLUGIN_GET(of->table, flops, &self, e->attrs, e->nattr, e->in, e->nin, e->out, e->nout);
    graph_free(&g);
    if (!isfinite(v) || v < 0)
        check_fail("flops() of '%s' returns %g for %s: a number of operations is finite and not "
                   "negative",
                   of->c->name, v, e->text);
    return v;
}

/* The same call with other sizes of the axes `name`; false: no operand has it. */
static bool stretch(check_op_example *e, const char *name, int64_t by)
{
    bool any = false;
    for (uint32_t i = 0; i < e->nin + e->nout; i++) {
        weft_shape *s = i < e->nin ? &e->in[i] : &e->out[i - e->nin];
        for (uint32_t k = 0; k < s->rank; k++)
            if (!strcmp(s->axes[k].name, name)) {
                s->axes[k].size *= by;
                any = true;
            }
    }
    return any;
}

static void one(const check_op_example *e)
{
    static const char *const axes[] = {"tokens", "batch"};
    static check_op_example x;
    const double once = flops(e);
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        x = *e;
        if (!stretch(&x, axes[i], 4))
            continue;
        const double more = flops(&x);
        if (fabs(more - 4 * once) > 1e-6 * more + 1e-6)
            check_fail("flops() of '%s' returns %.9g for %s and %.9g for four times as many %s: "
                       "the cost of a pass is in proportion to them, since each rank has a part",
                       e->of->c->name, once, e->text, more, axes[i]);
    }
}

static bool has_flops(const weft_op *op)
{
    return op->flops;
}

void check_op_flops(check_run *r)
{
    check_op_examples(r, false, has_flops, "flops(): their cost counts as negligible", one);
}
