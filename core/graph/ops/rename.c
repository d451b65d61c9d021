/* graph/ops/rename.c: gives an axis another name; the data are unchanged.
 *
 * Axes are matched by name, and two axes of a tensor have different names. The product of a matrix
 * with its own transpose therefore needs the matrix under two names. The attribute's key is the new
 * name, its number the axis: {"rows2", 0}. A split of the axis is kept. */
#include <string.h>

#include "graph/ops/util.h"

static weft_status rename_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    if (nin != 1 || nattr != 1 || attrs[0].i < 0 || attrs[0].i >= (int64_t)in[0].rank)
        return graph_op_fail(
            self->b, WEFT_USAGE,
            "rename takes one tensor and one attribute: the axis's new name as key, "
            "its number as value");
    out[0] = in[0];
    out[0].axes[attrs[0].i].name = attrs[0].key;
    for (uint32_t i = 0; i < in[0].rank; i++)
        if ((int64_t)i != attrs[0].i && !strcmp(in[0].axes[i].name, attrs[0].key))
            return graph_op_fail(self->b, WEFT_USAGE, "rename: the tensor has an axis '%s' already",
                                 attrs[0].key);
    *nout = 1;
    return WEFT_OK;
}

static weft_status rename_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                               weft_tensor *din)
{
    weft_shape was;
    if (!call->dout[0] || !graph_op_expects(self->b, call, 0, phase))
        return WEFT_OK;
    weft_status st = self->b->shape(self->b->ctx, call->in[0], &was);
    const weft_attr back = WEFT_ATTR_INT(was.axes[call->attrs[0].i].name, call->attrs[0].i);
    return st != WEFT_OK
               ? st
               : self->b->op(self->b->ctx, "rename", &back, 1, &call->dout[0], 1, 0, &din[0], 1);
}

static weft_status rename_shard(const weft_op_self *self, const weft_opcall *call,
                                const char *mesh_axis, uint32_t size, const weft_place *in,
                                weft_place *out)
{
    (void)mesh_axis;
    (void)self->b, (void)call, (void)size;
    out[0] = in[0];
    return WEFT_OK;
}

const op_entry graph_op_rename_family[] = {
    {"rename",
     {.struct_size = sizeof(weft_op),
      .flags = WEFT_OP_ELEMENTWISE,
      .ew = WEFT_EW_COPY,
      .in_place = 1,
      .infer = rename_infer,
      .grad = rename_grad,
      .shard = rename_shard,
      .doc =
          OP_DOC(.help = "y = x, of which one axis has another name", .operands = "x:x*A",
                 .results = "y:x*A",
                 .attributes =
                     "*renamed int - the key is the new name, the value the number of the axis")}},
    {0},
};
