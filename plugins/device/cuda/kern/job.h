/* kern/job.h: the launch parameters that host code and kernels share.
 *
 * Compiled by the C compiler and by nvcc. A kernel has one parameter, a struct gpu_job by value
 * (elementwise programs have a struct ew_job), and is found by name: "layernorm_bf16". */
#ifndef GPU_JOB_H
#define GPU_JOB_H

#include <stdint.h>

/* Element types, as weft/base.h numbers them. */
#define GPU_F32 1u
#define GPU_BF16 2u
#define GPU_F16 3u

/* An op with its sizes known; each op uses some of them. */
struct gpu_sizes {
    int64_t rows;         /* tokens, or elements of a flat op */
    int64_t cols;         /* features of a row; outputs of a product */
    int64_t inner;        /* inputs of a product */
    int64_t heads, dim;   /* attention, rope */
    int64_t kv_heads;     /* attention: heads of keys and values */
    int64_t sequence;     /* tokens of a sequence */
    int64_t table, first; /* embedding: rows of the table, id of its first row */
    int64_t valid;        /* columns of the logits that are real */
    int64_t part, parts;  /* rows of a partial sum, and how many there are */
    float eps, weight;    /* weight: of a loss; attention: 1 / sqrt(dim) */
    uint32_t dt;          /* element type of inputs and activations */
    uint32_t gt[2];       /* ... of outputs that may differ */
    int32_t accumulate, causal;
    int32_t fused;       /* attention: queries, keys and values are one operand */
    int32_t loss;        /* cross-entropy: the output that takes the loss */
    int32_t wide;        /* rows are whole vectors of WIDE elements */
    int32_t team;        /* threads that share a row */
    int32_t digit, flip; /* sorting: lowest bit of the digit; pairs are in keys2 */
};

#define GPU_INPUTS 6
#define GPU_OUTPUTS 3
struct gpu_job {
    const void *in[GPU_INPUTS];
    void *out[GPU_OUTPUTS];
    char *ws;
    struct gpu_sizes z;
};

#define WIDE 8           /* elements that a thread takes at once */
#define ROW_BLOCK 256    /* threads of a block, where it is not said otherwise */
#define TEAM_VECTORS 4   /* vectors of a row that a thread keeps in registers */
#define TEAM_MAX 512     /* threads that share a row */
#define COLUMN_ROWS 256  /* least rows of a partial column sum ... */
#define COLUMN_PARTS 256 /* ... and the most partial sums of a column */
#define FLAT_BLOCK 65536 /* elements of a partial sum of squares */
#define SUM_BLOCK 1024   /* threads that add up the losses of all rows */

/* Sorting tokens by id, for the gradient of an embedding. */
#define SORT_BITS 4
#define SORT_DIGITS 16
#define SORT_BLOCK 4096 /* keys of a block of SORT_THREADS threads */
#define SORT_THREADS 256
#define RUN_BLOCK 64 /* sorted tokens that one block adds up */
#define RUN_THREADS 128

/* Attention without a library: tiles of queries and of keys; `part` is their rows. */
#define HEAD_THREADS 256
#define HEAD_TILE 32

/* --- compiled elementwise programs (ew.c) ---
 *
 * A value per element has a slot: WIDE elements for each thread, in shared memory. Scalars are
 * numbered separately; each is computed once per block, in order. */
#define EW_THREADS 128
#define EW_RESIDENT 16 /* blocks of so many threads that a multiprocessor has at most */
#define EW_OPERANDS 12
#define EW_SCALAR 0x8000u  /* + the scalar's number; below it stand slots */
#define EW_BEFORE 0x7fffu  /* the result of the instruction before, still in registers */
#define EW_NOWHERE 0x7ffeu /* dst: only the next instruction wants it */

/* Steps beside the SDK's. */
#define EW_MULADD 64u  /* a * b + c, a product and a sum joined */
#define EW_NMULADD 65u /* c - a * b */
#define EW_INVERSE 66u /* 1 / a; of scalars only */
#define EW_INPUT 67u   /* the value of scalar input number a */

struct ew_instr {
    uint16_t op, dst, a, b, c, spare;
};
struct ew_scalar {
    uint16_t op, a, b, c; /* of scalars: their numbers; EW_INPUT: the input's */
    float imm;
};

struct ew_code { /* in device memory; instructions, then scalars follow */
    int64_t count;
    uint32_t nin, nout, ninstr, nscalar, nslot;
    int32_t gate;                  /* scalar whose value 0 means: write nothing; -1: none */
    uint16_t in_slot[EW_OPERANDS]; /* EW_NOWHERE: not a vector, or not read */
    uint16_t out[EW_OPERANDS];     /* a slot or a scalar */
    uint8_t in_type[EW_OPERANDS], out_type[EW_OPERANDS], out_one[EW_OPERANDS];
    uint8_t spare[4];
};

struct ew_job {
    const void *in[EW_OPERANDS];
    void *out[EW_OPERANDS];
    const struct ew_code *code;
    uint64_t scalars; /* 1: the outputs that are scalars, by one block; 0: the others */
};

/* A product C [m,n] = A [m,k] B [k,n] by strides, which are in elements. */
struct product_job {
    const void *a, *b, *bias;
    void *c;
    int64_t m, n, k;
    int64_t a_row, a_k, b_col, b_k;
    uint32_t gt;
    int32_t accumulate;
};

#endif
