/* kern/kern.h: the interface between the device and its kernels.
 *
 * A kernel processes items [begin, end) of a job: rows, blocks of columns, tiles. Items are
 * independent, so results are bit-identical for any division among threads. The kernels are
 * compiled once per instruction set (CPU_SUFFIX names it, CPU_VEC its header), and a device
 * selects one table of them when it is opened. */
#ifndef CPU_KERN_H
#define CPU_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/op.h>

/* Elements of an op by their numbers in the whole tensor (random/random.c): `runs` runs of `length`
 * neighbours each. A run begins at first + time * unit + the sum over the outer axes, slowest
 * first, of its index along each times `step`. */
struct cpu_numbers {
    int64_t runs, length, blocks; /* blocks: items of a run */
    uint64_t seed, stream, first, unit;
    uint32_t outer, by_step; /* axes; 1: time is the scalar "step" */
    int64_t size[WEFT_MAX_AXES];
    uint64_t step[WEFT_MAX_AXES];
};

/* A product by kern/product.c: C [m,n] of A [m,k] and B [k,n], `batch` times, in parts down x
 * across. */
struct cpu_product {
    int64_t m, n, k;
    bool a_transposed, b_transposed; /* as they are stored */
    bool bias;
    bool outer_a; /* A is the outer operand */
    int64_t down, across;
};

#define PRODUCT_LANES 32           /* parts and panels begin at multiples of it */
#define PRODUCT_ALONG 32           /* elements of a tile along k */
#define PRODUCT_PACKED (384 << 10) /* elements of the outer operand, 768 KiB of L2 */

/* Elements along k that are packed at a time. Fewer leave more lanes to the outer operand, so that
 * the inner one is packed less often. That pays where A is transposed; elsewhere the inner one is
 * mostly loaded as it is stored, and more sums would wait for nothing. */
static inline int64_t cpu_product_depth(const struct cpu_product *p)
{
    const int64_t most = p->a_transposed ? 512 : 1024;
    return p->k < most ? p->k : most;
}

/* Lanes of the outer operand that are packed at a time. */
static inline int64_t cpu_product_width(const struct cpu_product *p)
{
    const int64_t tiles = (cpu_product_depth(p) + PRODUCT_ALONG - 1) / PRODUCT_ALONG;
    return PRODUCT_PACKED / (tiles * PRODUCT_ALONG) / PRODUCT_LANES * PRODUCT_LANES;
}

/* Whether A is the inner operand and its rows are loaded as they are stored: whole tiles, and not
 * a multiple of 4 KiB apart, where they share their places in L1 and packing them gains 5 %. */
static inline bool cpu_product_stored(const struct cpu_product *p)
{
    return !p->outer_a && !p->a_transposed && p->k % PRODUCT_ALONG == 0 && p->k % 2048 != 0;
}

static inline int64_t cpu_product_panels(int64_t lanes)
{
    return (lanes + PRODUCT_LANES - 1) / PRODUCT_LANES;
}

/* Where part i of n rows or columns begins. */
static inline int64_t cpu_product_cut(int64_t n, int64_t parts, int64_t i)
{
    return i == parts ? n : cpu_product_panels(n) * i / parts * PRODUCT_LANES;
}

/* The arguments of a prepared op; each op uses some of them. */
struct cpu_args {
    int64_t rows;             /* tokens, or elements of a flat op */
    int64_t cols;             /* features of a row; outputs of a product */
    int64_t inner;            /* inputs of a product */
    int64_t heads, dim;       /* attention, rope */
    int64_t kv_heads;         /* attention: heads of keys and values */
    int64_t fused;            /* ... queries, keys and values are one operand */
    int64_t reach;            /* ... number of the operand `reach`; 0: there is none */
    int64_t sequence, causal; /* ... tokens of a sequence, or rows of a cache */
    int64_t table, first;     /* embedding: rows of the table, id of its first row; cache.write: the
                                 part of x */
    int64_t outer, along;     /* axis ops: elements before and along the axis; `inner` behind it */
    int64_t chunk;            /* ... elements along the axis that an item has */
    int64_t valid;            /* columns of the logits that are not padding */
    double eps, weight;
    uint32_t dt;              /* element type of inputs and activations */
    uint32_t gt[2];           /* ... of outputs that may differ */
    uint32_t nin;             /* number of inputs; the last may be absent */
    int32_t accumulate, loss; /* loss: number of the loss output */
    const struct ew_code *ew;
    struct cpu_numbers numbers;        /* random, dropout */
    const struct cpu_product *product; /* of kern/product.c */
    const float *turn; /* rope: cosines, then sines, of the pairs [sequence][2][dim/2] */
};

struct cpu_job {
    const struct cpu_args *a;
    const void *const *in;
    void *const *out;
    void *ws;
};

/* `scratch`: private to this thread, of the size that the op requested when it was prepared. */
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
    X(random)                                                                                      \
    X(dropout)                                                                                     \
    X(accumulate)                                                                                  \
    X(sum_axis)                                                                                    \
    X(max_axis)                                                                                    \
    X(broadcast)                                                                                   \
    X(cast)                                                                                        \
    X(sumsq)                                                                                       \
    X(ew)                                                                                          \
    X(attention_cached)                                                                            \
    X(product_row)

/* Those that a set with tiles has of its own (kern/simd/tiles.h). */
#define CPU_TILE_KERNELS(X)                                                                        \
    X(attention)                                                                                   \
    X(attention_dx)

/* Those that only a set with tiles has; NULL in the others. */
#define CPU_TILE_ONLY_KERNELS(X) X(product)

/* Bytes of scratch that a thread needs for a job of these sizes. */
typedef size_t cpu_scratch(const struct cpu_args *a);

#define CPU_KERNEL_FIELD(name) cpu_kernel *name;
struct cpu_kernels {
    const char *isa;
    int32_t lanes; /* floats in a vector */
    cpu_scratch *attention_scratch, *attention_dx_scratch, *attention_cached_scratch;
    cpu_scratch *product_scratch; /* NULL without tiles */
    CPU_KERNELS(CPU_KERNEL_FIELD)
    CPU_TILE_KERNELS(CPU_KERNEL_FIELD)
    CPU_TILE_ONLY_KERNELS(CPU_KERNEL_FIELD)
};

extern const struct cpu_kernels cpu_kernels_v2, cpu_kernels_v3, cpu_kernels_v4, cpu_kernels_v4bf16,
    cpu_kernels_v4amx;
extern const struct cpu_kernels cpu_kernels_plain; /* the only set on non-x86-64 processors */

#define CPU_JOIN_(a, b) a##_##b
#define CPU_JOIN(a, b) CPU_JOIN_(a, b)
#define KERNEL(name) CPU_JOIN(cpu_##name, CPU_SUFFIX)

/* Items: what one unit of a kernel's range is. */
#define FLAT_BLOCK 65536 /* elements of an item of accumulate, cast and sumsq */
#define PRODUCT_BLOCK 16 /* outputs of an item of product_row */
#define DRAW_BLOCK 8192  /* elements of an item of random and dropout */
#define EW_TILE 256      /* elements of an item of ew; floats of a slot */
#define COLUMN_BLOCK 64  /* columns of an item of the column sums */

/* A compiled elementwise program. A value is in a per-thread tile (a slot), in place in an fp32
 * input, or in place in an fp32 output; scalars are computed beforehand and stored as vectors of
 * equal lanes. */
struct ew_ref {
    uint8_t kind; /* EW_... */
    uint16_t at;  /* number of the slot, input, output or scalar */
};
#define EW_NONE 0
#define EW_SLOT 1
#define EW_INPUT 2
#define EW_SCALAR 3
#define EW_OUTPUT 4
#define EW_BEFORE 5 /* the previous instruction's result, still in registers; `a` only */

/* Ops in addition to the SDK's. */
#define EW_MULADD 64u  /* a * b + c, fused */
#define EW_NMULADD 65u /* c - a * b */
#define EW_INVERSE 66u /* 1 / a; of scalars only */
#define EW_ADDMUL 67u  /* b * c + a: operands are reordered from here on */
#define EW_SUBMUL 68u  /* a - b * c */
#define EW_RSUB 69u    /* b - a */
#define EW_RDIV 70u    /* b / a */
#define EW_MAX_LANES 16

struct ew_instr {
    uint16_t op;
    struct ew_ref dst, a, b, c; /* dst EW_NONE: only the next instruction uses it */
};

struct ew_code {
    int64_t count;
    uint32_t nin, nout, ninstr, nslot, nscalar;
    uint32_t in_type[WEFT_MAX_OPERANDS], out_type[WEFT_MAX_OPERANDS];
    uint16_t in_slot[WEFT_MAX_OPERANDS];  /* of a vector input, for conversion and tails */
    uint16_t out_slot[WEFT_MAX_OPERANDS]; /* of EW_OUTPUT, when it is not in place */
    uint8_t in_vector[WEFT_MAX_OPERANDS];
    int32_t in_last[WEFT_MAX_OPERANDS];   /* last instruction that reads it in place, or -1 */
    int32_t out_born[WEFT_MAX_OPERANDS];  /* instruction that writes EW_OUTPUT, or -1 */
    struct ew_ref out[WEFT_MAX_OPERANDS]; /* EW_NONE: a scalar output, written by the host side */
    struct ew_instr *instr;
    float *scalar; /* [nscalar][EW_MAX_LANES] */
};

/* An instruction with resolved addresses. */
struct ew_place {
    char *base;
    int64_t moves; /* -1: advances with the operands' blocks; 0: fixed */
    int64_t step;  /* floats between vectors; 0 for a scalar */
};

struct ew_step {
    uint16_t op;
    uint8_t loads, keeps; /* a is loaded from memory; the result is stored */
    struct ew_place a, b, c, dst;
};

#endif
