/* ptx.h: the kernels as nvcc has compiled them, in an interpreter of PTX.
 *
 * The language is that of NVIDIA's "PTX ISA", of which ptx_read.c takes what nvcc makes of our
 * kernels and refuses the rest by name. Each register is a row of 32 lanes, a warp's; a row holds
 * 64 bits a lane, of which narrower values fill the lower ones. Constants, addresses of variables
 * and %tid and its like are rows as well, written before the first instruction, so that an
 * instruction knows of nothing but rows. Products and sums that the text leaves apart stay apart,
 * where the assembler may join those without a rounding, so that a GPU can have other last bits.
 *
 *   ptx_words.c    words of the text, and what the parts of "ld.global.v4.u32" mean
 *   ptx_names.c    what names stand for while a file is read
 *   ptx_read.c     text -> struct ptx_code
 *   ptx_run.c      blocks, warps, where threads part and meet, barriers, shuffles
 *   ptx_math.c     arithmetic
 *   ptx_memory.c   loads and stores: bounds, alignment, races
 *   ptx_traffic.c  what they move
 */
#ifndef PTX_H
#define PTX_H

#include "double/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_LANES = 32, PTX_MAX_THREADS = 1024, PTX_OPERANDS = 6 };

typedef uint64_t ptx_row[PTX_LANES];

enum ptx_type { PTX_B, PTX_U, PTX_S, PTX_F, PTX_BF16X2, PTX_F16X2, PTX_PRED };
enum ptx_space { PTX_NO_SPACE, PTX_PARAM, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL };
enum ptx_round { PTX_NEAREST, PTX_ZERO, PTX_DOWN, PTX_UP };

/* Instructions, by their first word; the last three are the interpreter's own. */
enum ptx_op {
    ptx_abs,
    ptx_add,
    ptx_and,
    ptx_bar,
    ptx_bfi,
    ptx_bra,
    ptx_call,
    ptx_cvt,
    ptx_cvta,
    ptx_div,
    ptx_ex2,
    ptx_fma,
    ptx_ld,
    ptx_mad,
    ptx_max,
    ptx_min,
    ptx_mov,
    ptx_mul,
    ptx_neg,
    ptx_not,
    ptx_or,
    ptx_prmt,
    ptx_rcp,
    ptx_rem,
    ptx_ret,
    ptx_selp,
    ptx_setp,
    ptx_shfl,
    ptx_shl,
    ptx_shr,
    ptx_sqrt,
    ptx_st,
    ptx_sub,
    ptx_xor,
    ptx_pack,
    ptx_unpack,
    ptx_exit,
};

struct ptx_kind {
    enum ptx_type type;
    int bits;
};

struct ptx_instr {
    enum ptx_op op;
    struct ptx_kind kind, from; /* from: a conversion's operand */
    enum ptx_space space;
    enum ptx_round round;
    bool ftz, sat, approx;
    bool integral;   /* a float is rounded to a whole number */
    bool wide, warp; /* warp: a barrier of a warp */
    char compare[4]; /* "lt", "neu" */
    int vector;      /* elements of a load or store; 0: it is none */
    int guard;       /* row of the predicate, or -1 */
    bool guard_not;
    int out[4], in[PTX_OPERANDS]; /* rows; a store's first is its address */
    int nout, nin;
    int64_t offset; /* of an address */
    int target;     /* of a branch or a call: an instruction */
    int line;       /* of the text */
};

struct ptx_start { /* what a row holds before the first instruction */
    int row;
    enum { PTX_VALUE, PTX_DYNAMIC, PTX_TID, PTX_NTID, PTX_CTAID, PTX_CTAID_Y, PTX_NCTAID } what;
    uint64_t value; /* PTX_VALUE. PTX_DYNAMIC: where the shared memory of the launch begins */
};

struct ptx_code { /* a file */
    char *path;
    struct ptx_instr *instr;
    struct ptx_start *start;
    int ninstr, nstart;
    int function_starts; /* [0, this) are of rows of functions, which all kernels share */
    uint64_t local;      /* bytes of a thread's own memory */
    struct ptx_constant {
        const char *at;
        uint64_t bytes;
        struct ptx_constant *next;
    } * constants; /* variables of the file, which kernels read */
};

/* --- what kernels have moved --- */

struct ptx_moved {
    uint64_t asked, moved; /* at best, and in fact */
};
struct ptx_traffic {
    struct ptx_moved loads, stores; /* sectors of 32 bytes */
    struct ptx_moved banks;         /* rounds of shared memory */
};
struct ptx_kernel {
    struct kernel kernel; /* first, so that one is the other */
    const struct ptx_code *code;
    int first;                  /* instruction */
    int rows;                   /* functions' come before the kernel's */
    int first_start, end_start; /* of the kernel's rows */
    struct ptx_traffic *traffic;
    struct ptx_kernel *next;
};

/* Do the bytes lie in a variable of the file? */
bool ptx_is_constant(const struct ptx_code *c, const char *at, uint64_t bytes);

/* Read a file of PTX: its kernels, newest first, before those of `others`. Ends the process with a
 * sentence that names the line where something is not understood. */
struct ptx_kernel *ptx_read(const char *path, struct ptx_kernel *others);

/* --- words (ptx_words.c) --- */

struct ptx_text {
    const char *path, *at;
    int line;
};
__attribute__((noreturn)) void ptx_refuse(const struct ptx_text *t, const char *word,
                                          const char *why);
enum { PTX_WORD = 256 };
/* The next word, "" at the end: a name, a number, or one character of another kind. */
void ptx_next(struct ptx_text *t, char word[PTX_WORD]);
void ptx_expect(struct ptx_text *t, const char *word);
/* 12, -1, 0x7f, 0f3F800000, 0d3FF0000000000000 */
bool ptx_number(const char *word, uint64_t *out);
bool ptx_kind_of(const char *word, struct ptx_kind *out); /* "u32" */
/* What "ld.global.v4.u32" says but for its operands. */
void ptx_mnemonic(const struct ptx_text *t, const char *word, struct ptx_instr *i);

/* --- while a kernel runs --- */

/* When a thread does something: what two threads do is in order if a barrier of both lies
 * between. */
struct ptx_moment {
    uint32_t block; /* of the launch, from 1 */
    uint32_t epoch; /* barriers of the block before it */
    uint32_t warp;  /* barriers of the warp before it */
    int32_t thread;
};

struct ptx_place { /* an instruction that some lanes of a warp have come to */
    const struct ptx_kernel *kernel;
    const struct ptx_instr *instr;
    ptx_row *rows;
    uint32_t lanes;           /* mask */
    struct ptx_moment moment; /* of lane 0; the threads of the others follow */
    const char *param;
    char *shared, *local; /* local: of lane 0 */
    uint64_t shared_size;
};

__attribute__((noreturn, format(printf, 3, 4))) void ptx_die(const struct ptx_place *p, int lane,
                                                             const char *format, ...);
void ptx_do_math(const struct ptx_place *p);
void ptx_count_traffic(const struct ptx_place *p);
/* Of all launches of a kernel so far; NULL: there is no such kernel. */
const struct ptx_traffic *ptx_traffic_of(const char *kernel);
void ptx_do_memory(const struct ptx_place *p);
/* A launch begins: its threads have touched nothing. A block begins: nor its shared memory. */
void ptx_begin_launch(void);
void ptx_begin_block(uint64_t shared_size);

#endif
