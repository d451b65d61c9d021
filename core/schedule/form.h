/* schedule/form.h: gradient compression: the forms in which elements travel, and their sizes.
 *
 * A code is made of blocks of SCHED_CODE_BLOCK elements, the last one shorter. In fp16 and bf16 a
 * block is its elements, rounded to nearest even. In int8 it is an fp32 scale, which is the largest
 * magnitude of the block over 127, and a signed byte an element, element / scale rounded to nearest
 * even. A block with an element that is not finite has the scale NaN, so that all of it but what is
 * 0 decodes to NaN; one whose largest magnitude is below 2^-110 has the scale 0.
 *
 * What encoding takes away can be kept and added the next time (error feedback; Seide et al. 2014,
 * Karimireddy et al. 2019): over many sums nothing is lost then. Where the element or what it
 * decodes to is not finite, nothing is kept. */
#ifndef SCHEDULE_FORM_H
#define SCHEDULE_FORM_H

#include "schedule/program.h"

#define SCHED_CODE_BLOCK 256u

/* Bytes of the code of `count` elements. [any] */
uint64_t sched_code_bytes(uint32_t form, uint64_t count);

/* Bytes that a step touches at place `nth`, its sources first: of elements, a code, or what is
 * kept. [any] */
uint64_t sched_code_touched(const sched_request *r, const sched_step *s, uint32_t nth);

#endif
