/* plan/emit.h: append entries to lists: calls of segments, starts and waits of collectives.
 *
 * All files of plan/ emit through these functions. A segment is written instruction by instruction
 * (segment_begin, segment_add, segment_end); for a single instruction there is emit_op. A list is
 * filled in execution order. */
#ifndef PLAN_EMIT_H
#define PLAN_EMIT_H

#include "plan/builder.h"

/* --- segment.c: kernels and segments, each stored once --- */

/* Choose the kernel of an op, and fill in what it needs (kernel.c). */
weft_status plan_kernel_choose(const plan *p, const weft_opspec *op, plan_kernel *k);

/* Begin a segment; the result is its number until plan_segment_end(). */
uint32_t plan_segment_begin(plan *p, const char *name);

/* Add one instruction; `refs` are its operands, nin + nout of them. A coordinate of mesh axis a
 * raises the attribute "first" by first[a]; NULL: all 0. WEFT_UNSUPPORTED if neither the device nor
 * a plugin has a kernel for it. */
weft_status plan_segment_add(plan *p, uint32_t seg, const weft_opspec *spec, double flops,
                             const plan_ref *refs, const uint64_t *first);

/* End the segment. If an equal one exists, the new one is dropped and the result is the old one. */
uint32_t plan_segment_end(plan *p, uint32_t seg, uint32_t nbases);

/* --- emit.c: entries of a list --- */

/* Append an entry. The pointer is valid until the next one. */
plan_entry *plan_list_add(plan *p, plan_list *l, uint32_t kind, uint32_t what, uint32_t micro_batch,
                          const char *name);

/* Append a call of a segment; `bases` is copied. */
void plan_list_call(plan *p, plan_list *l, uint32_t seg, const uint64_t *bases, uint32_t nbases,
                    uint32_t micro_batch, const char *name);

/* Base `base` of the last call is `stride` bytes further for each coordinate of the mesh axis. */
void plan_list_shift(plan *p, const plan_list *l, uint32_t base, uint32_t mesh_axis,
                     uint64_t stride);

/* One call of one instruction: a segment of its own, with `nbases` bases at `bases`. */
typedef struct plan_emission {
    const char *segment, *name; /* of the segment, of the entry; name NULL: the same */
    const plan_ref *refs;
    const uint64_t *bases; /* [nbases]; NULL: all 0, BASE_FIRST of them */
    uint32_t nbases;
    uint32_t micro_batch;
    const uint64_t *first; /* [WEFT_MAX_MESH] as plan_segment_add() takes it */
} plan_emission;
weft_status plan_emit_op(plan *p, plan_list *l, const weft_opspec *op, const plan_emission *x);

/* The op of an elementwise program; its nin + nout operands are at `io`. */
weft_opspec plan_program_spec(const weft_ew_program *program, uint32_t nin, uint32_t nout,
                              const weft_operand *io);

/* The op `id` that reads operand io[0] and writes io[1]. */
weft_opspec plan_unary_spec(const char *id, const weft_operand io[2], uint32_t flags);

/* The op that copies operand io[0] to io[1]. */
weft_opspec plan_copy_spec(const weft_operand io[2]);

/* Write a value to `elements` elements (0: one number of no axes) of `dtype`: one instruction of a
 * segment. */
weft_status plan_segment_add_fill(plan *p, uint32_t seg, uint32_t dtype, uint64_t elements,
                                  float value, plan_ref where);

/* Write 0 as an entry of its own, to one fp32 number at an arena offset. */
weft_status plan_emit_zero(plan *p, plan_list *l, const char *name, uint64_t at);

/* Add the collective to the plan and start it; *number is for plan_emit_wait(). */
weft_status plan_emit_start(plan_builder *b, plan_list *l, const plan_collective *like,
                            uint32_t micro_batch, uint32_t *number);

/* Wait for a collective that was started; its scratch is free for others from here on. */
void plan_emit_wait(plan_builder *b, plan_list *l, uint32_t number, uint32_t micro_batch);

/* Start a collective and wait for it at once. */
weft_status plan_emit_collective(plan_builder *b, plan_list *l, const plan_collective *like,
                                 uint32_t micro_batch);

/* Sum a scalar over each mesh axis in `axes` (bits), one all-reduce an axis. */
weft_status plan_emit_scalar_sum(plan_builder *b, plan_list *l, const char *scalar, uint64_t axes);

#endif
