/* loss.c: softmax cross-entropy, loss and gradient in one pass.
 *
 * The gradient of the logits needs only the loss scale from the backward pass, so the forward pass
 * writes it in place of the logits. The vocabulary is needed whole; over split tokens the loss is a
 * partial sum. */
#include "builtin.h"

static weft_status check_valid(const weft_builder *b, const weft_attr *attrs, uint32_t nattr,
                               const weft_shape *logits)
{
    int64_t valid = op_attr_i(attrs, nattr, "valid", 0), columns = logits->axes[1].size;
    if (valid >= 0 && valid <= columns)
        return WEFT_OK;
    return op_fail(b, WEFT_USAGE,
                   "the attribute says that %lld columns of the logits are real; they have %lld",
                   (long long)valid, (long long)columns);
}

static weft_status xent_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    weft_status st = op_infer("softmax_xent: logits[t,v] targets[t]:i32 scale[]:f32 -> "
                              "dlogits[t,v] loss[]:f32",
                              self->b, in, nin, out, nout);
    return st != WEFT_OK ? st : check_valid(self->b, attrs, nattr, &in[0]);
}

static weft_status loss_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    weft_status st = op_infer("softmax_xent.loss: logits[t,v] targets[t]:i32 -> loss[]:f32",
                              self->b, in, nin, out, nout);
    return st != WEFT_OK ? st : check_valid(self->b, attrs, nattr, &in[0]);
}

static weft_status xent_shard(const weft_op_self *self, const weft_opcall *call,
                              const char *mesh_axis, uint32_t size, const weft_place *in,
                              weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.only = 1u << 0, .sums = 1});
}

#define ATTRIBUTES                                                                                 \
    "valid int 0 the first columns that are real (0: all), the others have probability 0; "        \
    "weight real 1 factor of each token's loss"

const weft_component op_loss[] = {
    OP("softmax_xent",
       "loss = weight times the sum of -log softmax(logits)[target] over the "
       "tokens whose target is not negative; dlogits = scale times its gradient",
       DOC(.operands = "logits:cTV targets:iT scale:f", .results = "dlogits:cTV loss:f",
           .attributes = ATTRIBUTES),
       .in_place = 1, .infer = xent_infer, .grad = op_loss_grad, .shard = xent_shard),
    OP("softmax_xent.loss", "the loss of softmax_xent alone",
       DOC(.operands = "logits:cTV targets:iT", .results = "loss:f", .attributes = ATTRIBUTES),
       .infer = loss_infer, .shard = xent_shard),
};
