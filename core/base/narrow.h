/* base/narrow.h: fp32 to the 16-bit types, to the nearest, ties to even. */
#ifndef BASE_NARROW_H
#define BASE_NARROW_H

#include <stdint.h>

/* n values; dtype is WEFT_BF16 or WEFT_F16. What is too large for fp16 becomes infinite. */
void narrow(uint16_t *to, const float *from, uint64_t n, uint32_t dtype);

#endif
