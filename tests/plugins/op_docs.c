/* op_docs.c: ops of a plugin whose docs are right, absent, cannot be read, or are not true. */
#include <weft/op.h>
#include <weft/plugin.h>

/* y = x, for x of one axis or more. */
static weft_status infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                         const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    if (nin != 1 || in[0].rank < 1)
        return self->b->fail(self->b->ctx, WEFT_USAGE, "takes one tensor of one axis or more");
    out[0] = in[0];
    *nout = 1;
    return WEFT_OK;
}

/* Splits its output where there is no axis. */
static weft_status shard(const weft_op_self *self, const weft_opcall *call, const char *mesh_axis,
                         uint32_t size, const weft_place *in, weft_place *out)
{
    (void)self, (void)call, (void)mesh_axis, (void)size, (void)in;
    out[0] = (weft_place){.kind = WEFT_SPLIT, .axis = 7};
    return WEFT_OK;
}

#define DOC(name, ...)                                                                             \
    static const weft_op_doc name##_doc = {.struct_size = sizeof name##_doc, __VA_ARGS__};         \
    static const weft_op name##_op = {                                                             \
        .struct_size = sizeof name##_op, .infer = infer, .doc = &name##_doc}
DOC(right, .help = "y = x", .operands = "x:cA", .results = "y:cA", .axes = "A axis");
DOC(unread, .help = "y = x", .operands = "x:cA", .results = "y:cA");
DOC(untrue, .help = "y = x", .operands = "x:c", .results = "y:c");
static const weft_op absent_op = {.struct_size = sizeof absent_op, .infer = infer};
static const weft_op astray_op = {
    .struct_size = sizeof astray_op, .infer = infer, .shard = shard, .doc = &right_doc};

#define OP(id, op)                                                                                 \
    static const weft_component op##_component = {.struct_size = sizeof op##_component,            \
                                                  .iface = "weft.op/1",                            \
                                                  .name = id,                                      \
                                                  .help = "an op of the test",                     \
                                                  .table = &op##_op}
OP("test.right", right);
OP("test.unread", unread);
OP("test.untrue", untrue);
OP("test.absent", absent);
OP("test.astray", astray);
static const weft_component *const components[] = {&right_component,  &unread_component,
                                                   &untrue_component, &absent_component,
                                                   &astray_component, NULL};
WEFT_PLUGIN("org.test.docs", "1", "", components, weft_open_host, NULL);
