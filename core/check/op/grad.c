/* check/op/grad.c: grad() works where a gradient flows into some of the outputs only. */
#include "base/err.h"
#include "check/op/op.h"

#include <string.h>

/* A gradient for each output in `from`. */
static void derive(const check_op_example *e, uint32_t kind, uint32_t from)
{
    static const uint32_t parts[] = {WEFT_GRAD_INPUTS, WEFT_GRAD_PARAMS};
    check_op_graph x;
    weft_tensor din[WEFT_MAX_OPERANDS] = {0};
    char why[1024];
    check_op_build(e, kind, &x);
    for (uint32_t k = 0; k < e->nout; k++) {
        const weft_shape s = graph_tensor(&x.g, x.out[k])->shape;
        if (from >> k & 1)
            x.dout[k] = graph_add(&x.g, "flows.in", WEFT_T_ACTIVATION, &s);
    }
    const node n = x.g.nodes.at[0]; /* a copy: the array grows below */
    const weft_opcall call = {.struct_size = sizeof call,
                              .nattr = n.nattr,
                              .attrs = n.attrs,
                              .nin = n.nin,
                              .nout = n.nout,
                              .in = n.in,
                              .out = n.out,
                              .dout = x.dout};
    const weft_builder b = graph_builder(&x.g);
    const weft_op_self self = {sizeof self, 0, e->of->module, e->of->conf, &b};
    for (uint32_t i = 0; i < 2; i++) {
        x.g.deriving = n.id;
        x.g.calls = 0;
        check_op_quiet(e->of);
        const weft_status st = PLUGIN_GET(e->of->table, grad, &self, &call, parts[i], din);
        check_op_answered(e->of, "grad", st, why);
        if (st != WEFT_OK && !*why)
            check_fail("grad() of '%s' returned %s without a sentence, where dout[] has a gradient "
                       "for the outputs of the bits 0x%x alone",
                       e->of->c->name, check_status(st), from);
    }
    graph_free(&x.g);
}

/* All subsets of up to 6 outputs; of more, those of the first 6. */
static void one(const check_op_example *e)
{
    const uint32_t outputs = e->nout < 6 ? e->nout : 6;
    for (uint32_t from = 0; from < 1u << outputs; from++) {
        derive(e, WEFT_T_ACTIVATION, from);
        derive(e, WEFT_T_PARAM, from);
    }
}

static bool has_grad(const weft_op *op)
{
    return op->grad;
}

void check_op_subsets(check_run *r)
{
    check_op_examples(r, false, has_grad, "grad()", one);
}
