/* schedule/form.h: gradient compression: the formats of compressed elements, and their sizes.
 *
 * A code is made of blocks of SCHED_CODE_BLOCK elements, the last one shorter. In fp16 and bf16 a
 * block is its elements, rounded to nearest even. In int8 it is an fp32 scale, the largest
 * magnitude of the block over 127, and one signed byte per element, element / scale rounded to
 * nearest even. A block with a non-finite element has the scale NaN, so all of it but zeros decodes
 * to NaN; a block whose largest magnitude is below 2^-110 has the scale 0.
 *
 * The encoding error can be kept as a residual and added the next time (error feedback; Seide et
 * al. 2014, Karimireddy et al. 2019): over many sums nothing is lost then. Where the element or its
 * decoded value is not finite, the residual is zero. */
#ifndef SCHEDULE_FORM_H
#define SCHEDULE_FORM_H

#include "schedule/program.h"

#define SCHED_CODE_BLOCK 256u

/* Bytes of the code of `count` elements. [any] */
uint64_t sched_code_bytes(uint32_t form, uint64_t count);

/* Bytes that a step accesses at place `nth`, sources first: of elements, a code, or a residual.
 * [any] */
uint64_t sched_code_touched(const sched_request *r, const sched_step *s, uint32_t nth);

#endif
