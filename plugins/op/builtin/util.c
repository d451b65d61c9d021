/* util.c: message, attribute and builder helpers shared by the op tables. */
#include "builtin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

weft_status op_fail(const weft_builder *b, weft_status code, const char *fmt, ...)
{
    char text[4 * OP_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return b->fail(b->ctx, code, text);
}

static const char *dtype_text(uint32_t dtype)
{
    static const char *const words[] = {"typeless", "f32", "bf16", "f16",
                                        "i32",      "i64", "f64",  "u8"};
    return dtype < sizeof words / sizeof *words ? words[dtype] : "unknown type";
}

const char *op_shape_text(const weft_shape *s, char text[OP_TEXT])
{
    size_t used = (size_t)snprintf(text, OP_TEXT, "%s [", dtype_text(s->dtype));
    for (uint32_t i = 0; i < s->rank && i < WEFT_MAX_AXES && used < OP_TEXT; i++)
        used += (size_t)snprintf(text + used, OP_TEXT - used, "%s%.*s %" PRId64, i ? ", " : "",
                                 WEFT_MAX_NAME, s->axes[i].name, s->axes[i].size);
    if (used < OP_TEXT - 1)
        memcpy(text + used, "]", 2);
    return text;
}

weft_status op_one_result(const weft_builder *b, uint32_t *nout)
{
    if (!*nout)
        return op_fail(b, WEFT_USAGE, "there is no room for its result");
    *nout = 1;
    return WEFT_OK;
}

int64_t op_elements(const weft_shape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->axes[i].size;
    return n;
}

int64_t op_attr_i(const weft_attr *attrs, uint32_t nattr, const char *key, int64_t dflt)
{
    for (uint32_t i = 0; i < nattr; i++)
        if (!strcmp(attrs[i].key, key))
            return attrs[i].i;
    return dflt;
}

double op_attr_f(const weft_attr *attrs, uint32_t nattr, const char *key, double dflt)
{
    for (uint32_t i = 0; i < nattr; i++)
        if (!strcmp(attrs[i].key, key))
            return attrs[i].f;
    return dflt;
}

weft_status op_check_sequence(const weft_builder *b, const char *id, const weft_attr *attrs,
                              uint32_t nattr, const weft_shape *first)
{
    int64_t sequence = op_attr_i(attrs, nattr, "sequence", 0);
    int64_t tokens = first->axes[0].size;
    if (sequence < 1)
        return op_fail(b, WEFT_USAGE,
                       "%s needs the attribute 'sequence', the tokens of one sequence", id);
    if (tokens % sequence)
        return op_fail(b, WEFT_USAGE,
                       "%s over sequences of %lld tokens was given %lld tokens, which is not "
                       "a whole number of sequences",
                       id, (long long)sequence, (long long)tokens);
    return WEFT_OK;
}

weft_status op_check_split(const weft_builder *b, const char *id, const weft_opcall *call,
                           uint32_t size, weft_place place)
{
    weft_shape first;
    weft_status st = b->shape(b->ctx, call->in[0], &first);
    if (st != WEFT_OK || place.kind != WEFT_SPLIT || place.axis != 0)
        return st;
    int64_t sequence = op_attr_i(call->attrs, call->nattr, "sequence", 1);
    if (first.axes[0].size % ((int64_t)size * sequence) == 0)
        return WEFT_OK;
    return op_fail(
        b, WEFT_UNSUPPORTED,
        "%lld tokens split in %u would cut a sequence of %lld tokens, which %s needs whole; the "
        "sequences of a pass must be a multiple of %u",
        (long long)first.axes[0].size, size, (long long)sequence, id, size);
}

bool op_expects(const weft_builder *b, const weft_opcall *call, uint32_t i, uint32_t phase)
{
    if (i >= call->nin)
        return false;
    uint32_t kind = b->kind(b->ctx, call->in[i]);
    return phase == WEFT_GRAD_PARAMS ? kind == WEFT_T_PARAM : kind == WEFT_T_ACTIVATION;
}

weft_status op_loss_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                         weft_tensor *din)
{
    if (call->dout[0])
        return op_fail(self->b, WEFT_UNSUPPORTED,
                       "the gradient of the logits has no gradient itself");
    if (call->dout[1] && op_expects(self->b, call, 0, phase))
        din[0] = call->out[0];
    return WEFT_OK;
}

weft_status op_first_only(const weft_builder *b, const weft_opcall *call)
{
    for (uint32_t i = 1; i < call->nout; i++)
        if (call->dout[i])
            return op_fail(b, WEFT_UNSUPPORTED,
                           "%s is a by-product of its op, kept for the backward pass; no gradient "
                           "can flow into it",
                           b->name(b->ctx, call->out[i]));
    return WEFT_OK;
}

weft_status op_append(const weft_builder *b, const char *id, const weft_tensor *in, uint32_t nin,
                      weft_tensor *out)
{
    return b->op(b->ctx, id, NULL, 0, in, nin, 0, out, 1);
}
