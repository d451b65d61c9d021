/* check/op/grad.c: grad() works where a gradient flows into some of the outputs only. */
#include "check/op/op.h"

/* All subsets of up to 6 outputs; of more, those of the first 6. */
static void one(const check_op_example *e)
{
    static const uint32_t kinds[] = {WEFT_T_ACTIVATION, WEFT_T_PARAM};
    static check_op_graph x;
    const uint32_t outputs = e->nout < 6 ? e->nout : 6;
    for (uint32_t from = 0; from < 1u << outputs; from++)
        for (uint32_t i = 0; i < 2; i++) {
            (void)check_op_derive(e, kinds[i], from, &x);
            graph_free(&x.g);
        }
}

bool check_op_has_grad(const weft_op *op)
{
    return op->grad;
}

void check_op_subsets(check_run *r)
{
    check_op_examples(r, false, check_op_has_grad, "grad()", one);
}
