/* graph/ops/ops.h: the core's own ops, as the tables of weft/op.h, and how a split carries through
 * one.
 *
 * Each op has a signature, against which its shapes are checked; messages quote it:
 *
 *   linear: x[t,I..] w[O..,I..] b?[O..] -> y[t,O..]
 *
 * A small letter stands for one axis, a capital with ".." for one or more; equal letters must be
 * equal axes, in name and in size; "?" marks an input that may be left out. Element types: none
 * written is the op's compute type (that of its first such operand), ":i32", ":i64" and ":f32" are
 * fixed. [] is a scalar.
 *
 * To add an op:
 *   - here: a file with its table, one family a file (misc.c has ops of a few lines); the family in
 *     util.h and table.c. infer() checks attributes. A default is repeated in the device, and is
 *     equal there.
 *   - cpu device: plugins/device/cpu/ops/ops.c has the list.
 *   - tests/ops: referee/ and cases.c, which fail for an id that they do not know; ops_test.c and
 *     gradient_test.c.
 *   - tests/unit/graph: an example in graph_shard_test.c, which asks for one; a case in
 *     graph_ops_test.c; a case in graph_gradient_test.c if no model has the op, which asks for one.
 *   - with a cuda kernel: test_all of tests/gpu/small_test.c, tests/cuda/traffic_test.c. */
#ifndef GRAPH_OPS_OPS_H
#define GRAPH_OPS_OPS_H

#include <weft/op.h>

/* The table of one of the core's ops; NULL for an id that is none of them. [any] */
const weft_op *graph_core_op(const char *id);

/* Every id of the core's ops, in no order that matters; NULL behind the last. [any] */
const char *graph_core_op_id(uint32_t i);

/* Placement of the outputs of a call along one mesh axis, by axis names alone: the default of an op
 * whose shard() is NULL. It honours `op->whole`; `id` is for messages.
 *
 *   - Inputs may be split along one axis name only; every input that has the axis is split on it.
 *   - Every output must have the axis, and is split on it.
 *   - A tensor held by only one coordinate stays there.
 *
 * Anything else, partial inputs too, is WEFT_UNSUPPORTED with a message. Core ops whose algebra
 * allows more use a graph_shard_rule (ops/util.h). [plan] */
weft_status graph_shard_by_names(const weft_builder *b, const weft_op *op, const char *id,
                                 const weft_opcall *call, const weft_place *in, weft_place *out);

#endif
