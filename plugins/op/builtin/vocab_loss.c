/* vocab_loss.c: softmax cross-entropy over a vocabulary that is split among ranks.
 *
 * The logits are never gathered. A token needs three numbers of all columns:
 *
 *   xent.max     the largest logit                        a partial maximum over the split
 *   xent.sums    the sum of exp(logit - max), and the     a partial sum
 *                logit of the target where it is
 *   xent.finish  from those: the gradient of the rank's columns, over the logits, and the loss,
 *                which every rank has whole. The formula of the gradient includes that maximum and
 *                sums depend on the logits
 *   xent.loss    the loss alone
 *
 * The attribute "valid" is the number of real columns of the whole vocabulary (0: all); "first" is
 * the index of a rank's first column in it. Columns from `valid` on have probability 0. A rank
 * sends 12 bytes a token and reduction instead of its logits; the cost is that the logits are read
 * three times, where softmax_xent reads them once. */
#include "builtin.h"

static weft_status max_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                             const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("xent.max: logits[t,v] -> max[t]:f32", self->b, in, nin, out, nout);
}

static weft_status sums_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    weft_status st = op_infer("xent.sums: logits[t,v] targets[t]:i32 max[t]:f32 -> sums[t]:f32",
                              self->b, in, nin, out, nout);
    if (st == WEFT_OK) /* exponentials, target */
        out[0].axes[out[0].rank++] = (weft_axis){"sums", 2};
    return st;
}

static weft_status finish_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("xent.finish: logits[t,v] targets[t]:i32 max[t]:f32 sums[t,s]:f32 scale[]:f32 "
                    "-> dlogits[t,v] loss[]:f32",
                    self->b, in, nin, out, nout);
}

static weft_status loss_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("xent.loss: targets[t]:i32 max[t]:f32 sums[t,s]:f32 -> loss[]:f32", self->b, in,
                    nin, out, nout);
}

/* These two have no gradient. */
static weft_status no_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                           weft_tensor *din)
{
    (void)self->b, (void)call, (void)phase, (void)din;
    return WEFT_OK;
}

/* If the logits are split along the vocabulary, the other inputs are complete, and the first output
 * is of kind `kind`. Otherwise by names. */
static weft_status shard(const weft_builder *b, const weft_opcall *call, const weft_place *in,
                         weft_place *out, weft_place first)
{
    static const weft_shard_rule by_tokens = {.only = 1u << 0, .sums = 1};
    if (in[0].kind != WEFT_SPLIT || in[0].axis != 1)
        return weft_shard(b, call, in, out, &by_tokens);
    for (uint32_t i = 1; i < call->nin; i++)
        if (in[i].kind != WEFT_WHOLE)
            return op_fail(b, WEFT_UNSUPPORTED,
                           "the logits are split along the vocabulary over the mesh axis, and "
                           "%s is not complete there",
                           b->name(b->ctx, call->in[i]));
    out[0] = first;
    return WEFT_OK;
}

static weft_status max_shard(const weft_op_self *self, const weft_opcall *call,
                             const char *mesh_axis, uint32_t size, const weft_place *in,
                             weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return shard(self->b, call, in, out, (weft_place){WEFT_PARTIAL_MAX, 0, 0, 0});
}

static weft_status sums_shard(const weft_op_self *self, const weft_opcall *call,
                              const char *mesh_axis, uint32_t size, const weft_place *in,
                              weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return shard(self->b, call, in, out, (weft_place){WEFT_PARTIAL_SUM, 0, 0, 0});
}

static weft_status finish_shard(const weft_op_self *self, const weft_opcall *call,
                                const char *mesh_axis, uint32_t size, const weft_place *in,
                                weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return shard(self->b, call, in, out, (weft_place){WEFT_SPLIT, 1, 0, 0});
}

static weft_status loss_shard(const weft_op_self *self, const weft_opcall *call,
                              const char *mesh_axis, uint32_t size, const weft_place *in,
                              weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.only = 1u << 0, .sums = 1});
}

#define COLUMNS .first_input = 1, .first_axis = 1
#define VALID                                                                                      \
    "valid int 0 the first columns of the whole vocabulary that are real (0: all), the others "    \
    "have probability 0"
#define WEIGHT "weight real 1 factor of each token's loss"

const weft_component op_vocab_loss[] = {
    OP("xent.max", "max[t] = the largest of the logits that are real",
       DOC(.operands = "logits:cTV", .results = "max:fT", .attributes = VALID), .infer = max_infer,
       .grad = no_grad, .shard = max_shard, COLUMNS),
    OP("xent.sums", "sums[t] = the sum of exp(logits - max), and the logit of the target",
       DOC(.operands = "logits:cTV targets:iT max:fT", .results = "sums:fTS", .attributes = VALID),
       .infer = sums_infer, .grad = no_grad, .shard = sums_shard, COLUMNS),
    OP("xent.finish",
       "the loss of softmax_xent, and dlogits, from max and sums of the whole "
       "vocabulary",
       DOC(.operands = "logits:cTV targets:iT max:fT sums:fTS scale:f",
           .results = "dlogits:cTV loss:f", .attributes = VALID "; " WEIGHT),
       .in_place = 1, .infer = finish_infer, .grad = op_loss_grad, .shard = finish_shard, COLUMNS),
    OP("xent.loss", "the loss of xent.finish alone",
       DOC(.operands = "targets:iT max:fT sums:fTS", .results = "loss:f", .attributes = WEIGHT),
       .infer = loss_infer, .shard = loss_shard),
};
