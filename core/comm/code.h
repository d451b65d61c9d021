/* comm/code.h: elements in fewer bits, and back: what compressed sums are made of (compress.c).
 *
 * A code is made of blocks of CODE_BLOCK elements, the last one shorter. In fp16 and bf16 a block
 * is its elements, rounded to nearest even. In int8 it is an fp32 scale, which is the largest
 * magnitude of the block over 127, and a signed byte an element, element / scale rounded to nearest
 * even. A block with an element that is not finite has the scale NaN, so that all of it but what is
 * 0 decodes to NaN; one whose largest magnitude is below 2^-110 has the scale 0.
 *
 * What encoding takes away can be kept and added the next time (error feedback; Seide et al. 2014,
 * Karimireddy et al. 2019): over many sums nothing is lost then. Where the element or what it
 * decodes to is not finite, nothing is kept.
 *
 * The kernels are one source compiled for each level of the instruction set, and all give the same
 * bits: ranks decode the same bytes to the same values whatever processor they have. */
#ifndef COMM_CODE_H
#define COMM_CODE_H

#include "comm/schedule.h"

#define CODE_BLOCK 256u

/* All of one block, n <= CODE_BLOCK; `form` is COMM_TO_FP16, ... */
typedef struct code_set {
    const char *name;
    /* to[] = from[], elements of `dtype`, and the other way round */
    void (*widen)(uint32_t dtype, float *to, const void *from, uint64_t n);
    void (*narrow)(uint32_t dtype, void *to, const float *from, uint64_t n);
    /* x becomes what the code says; kept (or NULL) what that takes away */
    void (*encode)(uint32_t form, void *code, float *x, float *kept, uint64_t n);
    void (*decode)(uint32_t form, float *x, const void *code, uint64_t n);
    void (*add)(uint32_t form, float *x, const void *code, uint64_t n);     /* x += the code */
    void (*add_kept)(float *x, const float *kept, float times, uint64_t n); /* x += times * kept */
} code_set;

extern const code_set code_v2, code_v3, code_v4; /* the levels of reduce.h */

const code_set *code_pick(void); /* for this machine. [any] */

/* Bytes of the code of `count` elements. [any] */
uint64_t code_bytes(uint32_t form, uint64_t count);

/* Bytes that a step touches at place `nth`, its sources first: of elements, a code, or what is
 * kept. [any] */
uint64_t code_touched(const comm_request *r, const comm_step *s, uint32_t nth);

/* Runs a step of a compressed sum (schedule.h), its places resolved. What has been kept counts
 * `times` times. [progress] */
void code_run(const code_set *set, const comm_request *r, const comm_step *s, void *const *to,
              const void *const *from, float times);

#endif
