/* comm/kernels/reduce_v4.c: the kernels of reduce.h and code.h with AVX-512. */
#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")))
#define SET comm_kernels_v4
#define SET_NAME "x86-64-v4"
#define HAVE_HALF
#include <immintrin.h>
#include <stdint.h>

static WIDE void widen_f16(float *to, const uint16_t *from, uint64_t count)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
    for (; i < count; i++)
        to[i] = _cvtsh_ss(from[i]);
}

static WIDE void narrow_f16(uint16_t *to, const float *from, uint64_t count)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((void *)(to + i), _mm512_cvtps_ph(_mm512_loadu_ps(from + i), 0));
    for (; i < count; i++)
        to[i] = _cvtss_sh(from[i], 0);
}

#include "comm/kernels/code_kernel.h"
