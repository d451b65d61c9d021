/* embedding.c: embedding lookup: rows of a table by id.
 *
 * An id outside the table's rows gives a row of zeros. With the attribute "first" (the id of the
 * table's first row) a rank that holds a shard of the rows therefore makes a partial sum: each row
 * comes from the one rank that has it. Padding rows are never read. */
#include "builtin.h"

static weft_status embedding_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                   const weft_shape *in, uint32_t nin, weft_shape *out,
                                   uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("embedding: table[v,F..] ids[t]:i32 -> y[t,F..]", self->b, in, nin, out, nout);
}

static weft_status dw_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("embedding.dw: dy[t,F..] ids[t]:i32 table[v,F..] -> dtable[v,F..]", self->b, in,
                    nin, out, nout);
}

static weft_status embedding_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                                  weft_tensor *din)
{
    if (!call->dout[0] || !op_expects(self->b, call, 0, phase))
        return WEFT_OK;
    weft_tensor in[] = {call->dout[0], call->in[1], call->in[0]};
    return self->b->op(self->b->ctx, "embedding.dw", call->attrs, call->nattr, in, 3, 0, &din[0],
                       1);
}

static weft_status embedding_shard(const weft_op_self *self, const weft_opcall *call,
                                   const char *mesh_axis, uint32_t size, const weft_place *in,
                                   weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "a-", .sums = 1});
}

static weft_status dw_shard(const weft_op_self *self, const weft_opcall *call,
                            const char *mesh_axis, uint32_t size, const weft_place *in,
                            weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "a--", .sums = 1});
}

const weft_component op_embedding[] = {
    OP("embedding", "y[t] = table[ids[t]]; zeros for an id that the table does not have",
       DOC(.operands = "table:cV*F ids:iT", .results = "y:cT*F"), .infer = embedding_infer,
       .grad = embedding_grad, .shard = embedding_shard, .first_input = 1),
    OP("embedding.dw", "dtable[v] = the sum of dy[t] over the tokens with ids[t] = v",
       DOC(.operands = "dy:cT*F ids:iT table:cV*F", .results = "dtable:gV*F"),
       .flags = WEFT_OP_ACCUMULATES | WEFT_OP_SHAPE_LAST, .infer = dw_infer, .shard = dw_shard,
       .first_input = 3),
};
