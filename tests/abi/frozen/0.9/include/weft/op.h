#ifndef WEFT_OP_H
#define WEFT_OP_H
#include <weft/graph.h>
#include <weft/plugin.h>
WEFT_EXTERN_C_BEGIN
#define WEFT_WHOLE 0u
#define WEFT_SPLIT 1u
#define WEFT_PARTIAL_SUM 2u
#define WEFT_PARTIAL_MAX 3u
#define WEFT_HELD 4u
typedef struct weft_place {
    uint32_t kind;
    uint32_t axis;
    uint32_t flags, reserved;
} weft_place;
WEFT_FREEZE(weft_place, reserved, 16);
typedef struct weft_opcall {
    uint32_t struct_size, nattr;
    const weft_attr *attrs;
    uint32_t nin, nout;
    const weft_tensor *in, *out, *dout;
} weft_opcall;
WEFT_FREEZE(weft_opcall, dout, 48);
typedef struct weft_op_self {
    uint32_t struct_size, flags;
    void *module;
    const weft_conf *conf;
    const weft_builder *b;
} weft_op_self;
WEFT_FREEZE(weft_op_self, b, 32);
#define WEFT_GRAD_INPUTS 1u
#define WEFT_GRAD_PARAMS 2u
#define WEFT_OP_ELEMENTWISE 1u
#define WEFT_OP_ACCUMULATES 2u
#define WEFT_OP_SHAPE_LAST 4u
#define WEFT_OP_NUMBERED 8u
typedef struct weft_op_doc {
    uint32_t struct_size, flags;
    const char *help;
    const char *operands, *results, *axes, *attributes, *formula;
} weft_op_doc;
WEFT_FREEZE(weft_op_doc, formula, 56);
typedef struct weft_op {
    uint32_t struct_size;
    uint32_t flags;
    uint32_t ew;
    uint32_t in_place;
    weft_status (*infer)(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                         const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout);
    weft_status (*grad)(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                        weft_tensor *din);
    weft_status (*shard)(const weft_op_self *self, const weft_opcall *call, const char *mesh_axis,
                         uint32_t size, const weft_place *in, weft_place *out);
    const char *whole;
    double (*flops)(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                    const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout);
    uint32_t first_input, first_axis;
    const weft_op_doc *doc;
} weft_op;
WEFT_FREEZE(weft_op, doc, 72);
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
#define WEFT_EW_POW 14u
#define WEFT_EW_SELECT 15u
#define WEFT_EW_LESS 16u
#define WEFT_EW_FINITE 17u
#define WEFT_EW_COS 18u
#define WEFT_EW_CONST 19u
#define WEFT_EW_ROUND 20u
#define WEFT_EW_FLOOR 21u
#define WEFT_EW_SCALAR 1u
typedef struct weft_ew_step {
    uint16_t op, dst, a, b, c, flags;
    float imm;
} weft_ew_step;
WEFT_FREEZE(weft_ew_step, imm, 16);
#define WEFT_EW_MAX_REGISTERS 64
typedef struct weft_ew_program {
    uint32_t struct_size, nsteps, nregs;
    int32_t gate;
    const weft_ew_step *steps;
    const uint16_t *out_reg;
} weft_ew_program;
WEFT_FREEZE(weft_ew_program, out_reg, 32);
struct weft_opspec;
struct weft_requirements;
typedef struct weft_kernel {
    uint32_t struct_size, flags;
    const char *op, *device;
    weft_status (*query)(void *module, const weft_conf *conf, const struct weft_opspec *spec,
                         struct weft_requirements *out);
    weft_status (*prepare)(void *module, const weft_conf *conf, const struct weft_opspec *spec,
                           void *stream, void **out);
    void (*release)(void *prepared);
    weft_status (*run)(void *prepared, void *stream, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags);
    int32_t (*score)(void *module, const weft_conf *conf, const struct weft_opspec *spec);
} weft_kernel;
WEFT_FREEZE(weft_kernel, score, 64);
WEFT_EXTERN_C_END
#endif
