/* comm/kernels/reduce_v3.c: the kernels of reduce.h and code.h with AVX2 and F16C. */
#define WIDE __attribute__((target("avx2,f16c")))
#define SET comm_kernels_v3
#define SET_NAME "x86-64-v3"
#define HAVE_HALF
#include <immintrin.h>
#include <stdint.h>

static WIDE void widen_f16(float *to, const uint16_t *from, uint64_t count)
{
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
    for (; i < count; i++)
        to[i] = _cvtsh_ss(from[i]);
}

static WIDE void narrow_f16(uint16_t *to, const float *from, uint64_t count)
{
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
    for (; i < count; i++)
        to[i] = _cvtss_sh(from[i], 0);
}

#include "comm/kernels/code_kernel.h"
