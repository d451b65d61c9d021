/* kern/kern.h: what stands between the device and its kernels.
 *
 * A kernel works on items [begin, end) of a job: rows, blocks of columns, tiles. Items are
 * independent of each other, so any division among threads gives the same bits. The kernels are
 * compiled once for each instruction set (CPU_SUFFIX names it, CPU_VEC its header), and a device
 * chooses one table of them when it is opened. */
#ifndef CPU_KERN_H
#define CPU_KERN_H

#include <stddef.h>
#include <stdint.h>
#include <weft/op.h>

/* An op with its sizes known; each op uses some of them. */
struct cpu_args {
    int64_t rows;       /* tokens, or elements of a flat op */
    int64_t cols;       /* features of a row; outputs of a product */
    int64_t inner;      /* inputs of a product */
    int64_t heads, dim; /* attention, rope */
    int64_t kv_heads;   /* attention: heads of keys and values */
    int64_t fused;      /* ... queries, keys and values lie in one operand */
    int64_t sequence, causal;
    int64_t table, first; /* embedding: rows of the table, id of its first row */
    int64_t valid;        /* columns of the logits that are real */
    double eps, weight;
    uint32_t dt;              /* element type of inputs and activations */
    uint32_t gt[2];           /* ... of outputs that may differ */
    uint32_t nin;             /* operands, where the last may be absent */
    int32_t accumulate, loss; /* loss: the output that takes it */
    const struct ew_code *ew;
    const float *turn; /* rope: cosines, then sines, of the pairs [sequence][2][dim/2] */
};

struct cpu_job {
    const struct cpu_args *a;
    const void *const *in;
    void *const *out;
    void *ws;
};

/* `scratch`: this thread's own, as many bytes as the op asked for when it was prepared. */
typedef void cpu_kernel(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch);

#define CPU_KERNELS(X)                                                                             \
    X(layernorm)                                                                                   \
    X(layernorm_dx)                                                                                \
    X(layernorm_dw)                                                                                \
    X(rmsnorm)                                                                                     \
    X(rmsnorm_dx)                                                                                  \
    X(rmsnorm_dw)                                                                                  \
    X(rope)                                                                                        \
    X(swiglu)                                                                                      \
    X(swiglu_dx)                                                                                   \
    X(colsum)                                                                                      \
    X(gelu)                                                                                        \
    X(gelu_dx)                                                                                     \
    X(bias_residual)                                                                               \
    X(xent)                                                                                        \
    X(xent_loss)                                                                                   \
    X(vocab_max)                                                                                   \
    X(vocab_sums)                                                                                  \
    X(vocab_finish)                                                                                \
    X(vocab_loss)                                                                                  \
    X(embedding)                                                                                   \
    X(embedding_dw)                                                                                \
    X(accumulate)                                                                                  \
    X(sumsq)                                                                                       \
    X(ew)                                                                                          \
    X(attention)                                                                                   \
    X(attention_dx)

/* Bytes of scratch that a thread needs for a job of these sizes. */
typedef size_t cpu_scratch(const struct cpu_args *a);

#define CPU_KERNEL_FIELD(name) cpu_kernel *name;
struct cpu_kernels {
    const char *isa;
    int32_t lanes; /* floats in a vector */
    cpu_scratch *attention_scratch, *attention_dx_scratch;
    CPU_KERNELS(CPU_KERNEL_FIELD)
};

extern const struct cpu_kernels cpu_kernels_v2, cpu_kernels_v3, cpu_kernels_v4, cpu_kernels_v4bf16;
extern const struct cpu_kernels cpu_kernels_plain; /* the one set on other processors than x86-64 */

#define CPU_JOIN_(a, b) a##_##b
#define CPU_JOIN(a, b) CPU_JOIN_(a, b)
#define KERNEL(name) CPU_JOIN(cpu_##name, CPU_SUFFIX)

/* Items: what one unit of a kernel's range is. */
#define FLAT_BLOCK 65536 /* elements of an item of accumulate and sumsq */
#define EW_TILE 256      /* elements of an item of ew; floats of a slot */
#define COLUMN_BLOCK 64  /* columns of an item of the column sums */

/* An elementwise program made ready. A value lies in a tile of the thread's own (a slot), where a
 * fp32 input lies, or where a fp32 output is to lie; scalars, computed beforehand, are vectors that
 * are read again and again. */
struct ew_ref {
    uint8_t kind; /* EW_... */
    uint16_t at;  /* number of the slot, input, output or scalar */
};
#define EW_NONE 0
#define EW_SLOT 1
#define EW_INPUT 2
#define EW_SCALAR 3
#define EW_OUTPUT 4
#define EW_BEFORE 5 /* the result of the instruction before, still in registers; `a` only */

/* Steps beside the SDK's. */
#define EW_MULADD 64u  /* a * b + c, a product and a sum joined */
#define EW_NMULADD 65u /* c - a * b */
#define EW_INVERSE 66u /* 1 / a; of scalars only */
#define EW_ADDMUL 67u  /* b * c + a: from here on another order of operands */
#define EW_SUBMUL 68u  /* a - b * c */
#define EW_RSUB 69u    /* b - a */
#define EW_RDIV 70u    /* b / a */
#define EW_MAX_LANES 16

struct ew_instr {
    uint16_t op;
    struct ew_ref dst, a, b, c; /* dst EW_NONE: only the next instruction wants it */
};

struct ew_code {
    int64_t count;
    uint32_t nin, nout, ninstr, nslot, nscalar;
    uint32_t in_type[WEFT_MAX_OPERANDS], out_type[WEFT_MAX_OPERANDS];
    uint16_t in_slot[WEFT_MAX_OPERANDS];  /* of a vector input, for conversion and tails */
    uint16_t out_slot[WEFT_MAX_OPERANDS]; /* of EW_OUTPUT, where it cannot be in place */
    uint8_t in_vector[WEFT_MAX_OPERANDS];
    int32_t in_last[WEFT_MAX_OPERANDS];   /* last instruction that reads it where it lies, or -1 */
    int32_t out_born[WEFT_MAX_OPERANDS];  /* instruction that writes EW_OUTPUT, or -1 */
    struct ew_ref out[WEFT_MAX_OPERANDS]; /* EW_NONE: a scalar output, written by the host side */
    struct ew_instr *instr;
    float *scalar; /* [nscalar][EW_MAX_LANES] */
};

/* An instruction with its addresses found. */
struct ew_place {
    char *base;
    int64_t moves; /* -1: goes on with the blocks of the operands; 0: stays */
    int64_t step;  /* floats from vector to vector: 0 for a scalar */
};

struct ew_step {
    uint16_t op;
    uint8_t loads, keeps; /* a comes from memory; the result goes there */
    struct ew_place a, b, c, dst;
};

#endif
