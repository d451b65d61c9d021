/* weft/op.h: ops, their gradients, and kernels for them.
 *
 * An op is a name ("linear", "org.acme.rope2d") and a table of pure functions: output shapes, cost,
 * the gradient written in ops, and how a split of its inputs propagates to its outputs. It is
 * independent of devices. A device says for an op id whether it has a kernel (device.h); a plugin
 * can provide the kernel of its own op for a named device (weft_kernel below). The ops that come
 * with weft are a plugin, too: plugins/op/builtin.
 *
 * A component of interface "weft.op/1" has the op id as its name. An id without a dot is of weft's
 * own plugins; others are refused.
 */
#ifndef WEFT_OP_H
#define WEFT_OP_H

#include <weft/graph.h>
#include <weft/plugin.h>

WEFT_EXTERN_C_BEGIN

/* Placement of a tensor along one mesh axis. */
#define WEFT_WHOLE 0u       /* every coordinate has all of it */
#define WEFT_SPLIT 1u       /* each has an equal part of the tensor axis `axis`, in order */
#define WEFT_PARTIAL_SUM 2u /* the true value is the sum over coordinates */
#define WEFT_PARTIAL_MAX 3u /* ... the maximum */
#define WEFT_HELD 4u        /* only coordinate `axis` has it (a pipeline stage) */

/* Passed in arrays: never grows. */
typedef struct weft_place {
    uint32_t kind;
    uint32_t axis; /* WEFT_SPLIT: index of the tensor axis; WEFT_HELD: the coordinate; else 0 */
    uint32_t flags, reserved; /* 0: equal consecutive parts */
} weft_place;
WEFT_FREEZE(weft_place, reserved, 16);

/* A call of an op in the graph. Arrays have nin and nout elements; dout holds the gradient of each
 * output, 0 where none flows, and is NULL except in grad(). */
typedef struct weft_opcall {
    uint32_t struct_size, nattr;
    const weft_attr *attrs;
    uint32_t nin, nout;
    const weft_tensor *in, *out, *dout;
} weft_opcall;
WEFT_FREEZE(weft_opcall, dout, 48);

/* Who is called: the first argument of each function of an op. */
typedef struct weft_op_self {
    uint32_t struct_size, flags;
    void *module; /* of the op's plugin */
    const weft_conf
        *conf; /* its component's; component->name is the id, component->user the rest */
    const weft_builder *b; /* of the graph; flops() only records failures with it */
} weft_op_self;
WEFT_FREEZE(weft_op_self, b, 32);

/* The two parts of a gradient, which a schedule may run separately. */
#define WEFT_GRAD_INPUTS 1u /* B: gradients of activations, needed by the block before */
#define WEFT_GRAD_PARAMS 2u /* W: gradients of parameters, needed at the end of the step */

/* Inputs of the output's shape, or scalars, and operation `ew`; it may be fused. Of a WEFT_EW_COPY
 * the axes may differ in names and grouping: it has as many elements, in their order. */
#define WEFT_OP_ELEMENTWISE 1u
#define WEFT_OP_ACCUMULATES 2u /* its kernels can add to their outputs instead of writing them */
#define WEFT_OP_SHAPE_LAST 4u  /* of the last input only the shape is used: run() may get NULL */

/* What its kernels compute depends on where an element lies in the whole tensor (random numbers).
 * `first_input` names a tensor whose elements are numbered in row-major order over the whole job's
 * sizes, and `first_axis` is 0. The kernels get the whole-number attributes "seed" (run.seed),
 * "first" (number of this rank's first element) and "whole.K" (the whole job's size of its axis
 * K, for each K from 0), in place of attributes of these names that the graph sets. */
#define WEFT_OP_NUMBERED 8u

/* What an op is, for readers and tools: `weft ops` prints it, with what shard() and grad() answer
 * for an example that is built from it. Each text is one line of printable ASCII.
 *
 *   operands    "x:cT*I w:c*O*I b:c*O?": for each input its name, a colon and a word of
 *               weft/match.h; a group (*I) has one axis or more. Several inputs at the end may have
 *               the '?'. " | " separates forms that take other operands. An elementwise op takes
 *               scalars, too
 *   results     the same for the outputs, in as many forms
 *   axes        "T tokens, I in, O out": for each letter a name that its axis may have
 *   attributes  "sequence int - MEANING; eps real 1e-05 MEANING": key, int or real, default ('-':
 *               it must be given; '-N': it has the size of the letter N in examples) and meaning,
 *               without those that the core gives ("first", WEFT_OP_NUMBERED). NULL: none. "*in"
 *               is a key that names an axis; in examples it is `in` with the number of that axis,
 *               or with 0 if no operand has it
 *   formula     what flops() counts, by letters and keys: "2 T I O". NULL: negligible */
typedef struct weft_op_doc {
    uint32_t struct_size, flags; /* flags: 0 */
    const char *help;            /* what it computes: "y = x w^T + b" */
    const char *operands, *results, *axes, *attributes, *formula;
} weft_op_doc;
WEFT_FREEZE(weft_op_doc, formula, 56);

typedef struct weft_op {
    uint32_t struct_size;
    uint32_t flags;    /* WEFT_OP_... */
    uint32_t ew;       /* WEFT_EW_... of an elementwise op, else 0 */
    uint32_t in_place; /* k > 0: output 0 may overwrite input k-1 if nothing reads it later */

    /* Shapes of the outputs from those of the inputs, and their number: `out` has room for *nout on
     * entry and is zeroed; names may be those of inputs or constants. Sizes are the whole job's, or
     * those of one rank: the function must work for both. [plan] */
    weft_status (*infer)(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                         const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout);

    /* Write the gradient into the graph: for WEFT_GRAD_INPUTS fill din[i] for inputs that are
     * activations, for WEFT_GRAD_PARAMS for those that are parameters; leave 0 where none flows.
     * INPUTS is asked first, and what it filled is still in din for PARAMS. NULL: the op has no
     * gradient. The inputs and outputs that it reads are kept until backward. OPT [plan] */
    weft_status (*grad)(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                        weft_tensor *din);

    /* Placement of the outputs (WEFT_WHOLE on entry) along `mesh_axis` of `size` coordinates.
     * Several axes of a job may have one size: tell them apart by name. WEFT_UNSUPPORTED with a
     * message when the op cannot compute on these placements: the host then completes partial
     * inputs and asks once more. NULL: by axis names alone (weft/shard.h); every axis may be split
     * except those in `whole`. OPT [plan] */
    weft_status (*shard)(const weft_op_self *self, const weft_opcall *call, const char *mesh_axis,
                         uint32_t size, const weft_place *in, weft_place *out);
    const char *whole; /* "embed,head_dim": axes that the op needs whole; NULL: none. OPT */

    /* Floating-point operations, multiply and add counted separately; NULL: negligible. OPT
     * [plan] */
    double (*flops)(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                    const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout);

    /* k > 0: where axis `first_axis` of input k-1 is split, the kernels get the index at which this
     * rank's part begins, as the whole-number attribute "first" (rows of a vocabulary). */
    uint32_t first_input, first_axis;

    const weft_op_doc *doc; /* NULL: `weft ops` knows its name alone. OPT */
} weft_op;
WEFT_FREEZE(weft_op, doc, 72);

/* --- Elementwise programs ---
 *
 * The core fuses chains of elementwise ops into one op "ew", which reads its operands once.
 * Register r < nin holds input r; each step writes register dst = op(a, b, c), also one that has
 * held something else. An operand with one element is a scalar: it is broadcast. Steps whose
 * operands are all scalars are marked and computed once. Arithmetic is fp32; 16-bit inputs are
 * widened, outputs rounded to their own type. */
#define WEFT_EW_COPY 1u
#define WEFT_EW_ADD 2u
#define WEFT_EW_SUB 3u
#define WEFT_EW_MUL 4u
#define WEFT_EW_DIV 5u
#define WEFT_EW_MIN 6u
#define WEFT_EW_MAX 7u
#define WEFT_EW_SQRT 8u
#define WEFT_EW_NEG 9u
#define WEFT_EW_ABS 10u
#define WEFT_EW_SIGN 11u
#define WEFT_EW_EXP 12u
#define WEFT_EW_LOG 13u
#define WEFT_EW_POW 14u    /* a to the b */
#define WEFT_EW_SELECT 15u /* c != 0 ? a : b */
#define WEFT_EW_LESS 16u   /* a < b ? 1 : 0 */
#define WEFT_EW_FINITE 17u /* 1 when a is neither infinite nor a NaN, else 0 */
#define WEFT_EW_COS 18u
#define WEFT_EW_CONST 19u /* the number imm */
#define WEFT_EW_ROUND 20u /* to the nearest whole number, ties to even */
#define WEFT_EW_FLOOR 21u /* to the next whole number that is not larger */

#define WEFT_EW_SCALAR 1u             /* every operand of the step is a scalar */
typedef struct weft_ew_step {         /* passed in arrays: never grows */
    uint16_t op, dst, a, b, c, flags; /* WEFT_EW_SCALAR */
    float imm;
} weft_ew_step;
WEFT_FREEZE(weft_ew_step, imm, 16);

#define WEFT_EW_MAX_REGISTERS 64 /* as many operands as an op may have, and 32 more at least */
#define WEFT_EW_MAX_STEPS 256    /* of a program of the core */

typedef struct weft_ew_program {
    uint32_t struct_size, nsteps, nregs;
    int32_t gate; /* input whose value 0 disables all writes; -1: none */
    const weft_ew_step *steps;
    const uint16_t *out_reg; /* [nout] the register of each output */
} weft_ew_program;
WEFT_FREEZE(weft_ew_program, out_reg, 32);

/* --- A kernel of an op for one device, interface "weft.kernel/1" ---
 *
 * The same calls that a device has for its own ops, with the same rules (device.h); `stream`
 * is the device's native stream, or NULL on a device that computes on the calling thread. prepare()
 * gets one too, to find the context into which it loads its code. */
struct weft_opspec;
struct weft_requirements;
typedef struct weft_kernel {
    uint32_t struct_size, flags;
    const char *op, *device; /* op id, device component name */
    weft_status (*query)(void *module, const weft_conf *conf, const struct weft_opspec *spec,
                         struct weft_requirements *out); /* [plan] */
    weft_status (*prepare)(void *module, const weft_conf *conf, const struct weft_opspec *spec,
                           void *stream, void **out); /* [setup] */
    void (*release)(void *prepared);                  /* [setup] */
    /* `in` has spec.nin entries and `out` spec.nout: where a last operand is absent (a '?' of the
     * doc), its number is smaller and there is no entry, not a NULL. [compute] */
    weft_status (*run)(void *prepared, void *stream, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags);

    /* How well the kernel suits `spec`, compared with others of the same op and device. The
     * device's own kernel counts 50, and so does a kernel without score(). The highest score is
     * taken whose query() accepts `spec`; at equal scores the device's own, then the first by
     * component name. 0 or less: not for this spec. The choice is part of the plan, so the answer
     * follows from `spec` alone, never from the machine, and is the same on every rank. A chain
     * that the device fuses is an op of another id. OPT [plan] */
    int32_t (*score)(void *module, const weft_conf *conf, const struct weft_opspec *spec);
} weft_kernel;
WEFT_FREEZE(weft_kernel, score, 64);

WEFT_EXTERN_C_END

#endif
