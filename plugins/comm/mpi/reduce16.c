/* reduce16.c: MPI has no 16-bit floats to add, so these are operators of ours over 16-bit integers.
 * Each combination of two is computed in fp32 and rounded to nearest even. The loops have no
 * branches, so that compilers vectorize them. */
#include "parts.h"

#include <string.h>

static inline float as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint32_t as_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static inline float widen_bf16(uint16_t h)
{
    return as_float((uint32_t)h << 16);
}

static inline uint16_t narrow_bf16(float f)
{
    const uint32_t bits = as_bits(f), rounded = bits + 0x7fff + (bits >> 16 & 1);
    const uint32_t nan = bits | 0x400000;
    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16);
}

/* The exponent of fp16 moves up by 112. Multiplying does that, for subnormal numbers too. */
static inline float widen_f16(uint16_t h)
{
    const uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    const uint32_t finite = as_bits(as_float(bits) * 0x1p112f), special = bits | 0x7f800000;
    return as_float((uint32_t)(h & 0x8000) << 16 | ((h & 0x7c00) == 0x7c00 ? special : finite));
}

/* Numbers below 2^-14 are subnormal in fp16: adding 0.5 aligns them so that the addition rounds. */
static inline uint16_t narrow_f16(float f)
{
    const uint32_t sign = as_bits(f) >> 16 & 0x8000, bits = as_bits(f) & 0x7fffffff;
    const uint32_t normal = (bits + 0xfff + (bits >> 13 & 1) - (112u << 23)) >> 13;
    const uint32_t small = as_bits(as_float(bits) + 0.5f) - as_bits(0.5f);
    const uint32_t large = bits > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (uint16_t)(sign | (bits >= 0x477ff000 ? large : bits < 0x38800000 ? small : normal));
}

#define OPERATOR(name, format, expression)                                                         \
    static void format##_##name(void *in, void *inout, int *len, MPI_Datatype *type)               \
    {                                                                                              \
        const uint16_t *restrict x = in;                                                           \
        uint16_t *restrict y = inout;                                                              \
        const int n = *len;                                                                        \
        (void)type;                                                                                \
        for (int i = 0; i < n; i++) {                                                              \
            const float a = widen_##format(x[i]), b = widen_##format(y[i]);                        \
            y[i] = narrow_##format(expression);                                                    \
        }                                                                                          \
    }

OPERATOR(sum, bf16, a + b)
OPERATOR(max, bf16, a > b ? a : b)
OPERATOR(min, bf16, a < b ? a : b)
OPERATOR(sum, f16, a + b)
OPERATOR(max, f16, a > b ? a : b)
OPERATOR(min, f16, a < b ? a : b)

static MPI_User_function *const functions[2][3] = {{bf16_sum, bf16_max, bf16_min},
                                                   {f16_sum, f16_max, f16_min}};

int mpi_make_op16(const mpi_api *mpi, bool is_f16, uint32_t redop, MPI_Op *out)
{
    return mpi->Op_create(functions[is_f16][redop - WEFT_SUM], 1, out);
}
