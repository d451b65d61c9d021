/* Are 16-bit floats the nearest ones, ties to even, for every kind of fp32 number? */
#include <math.h>
#include <string.h>

#include "base/number/half.h"
#include "base/number/rng.h"

#include <test.h>

/* What a 16-bit float stands for, from the definition of the format. */
static double value_of(uint16_t h, int exponent_bits)
{
    int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = h >> fraction_bits & ((1 << exponent_bits) - 1);
    double fraction = (double)(h & ((1 << fraction_bits) - 1)), sign = h & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/* As if the numbers went on above the largest, which is how overflow is rounded. */
static double finite_of(uint16_t h, int exponent_bits)
{
    double v = value_of(h, exponent_bits);
    return isinf(v) ? copysign(ldexp(1, 1 << (exponent_bits - 1)), v) : v;
}

static void check(float v, uint16_t got, int bits)
{
    double x = (double)v, have = finite_of(got, bits);
    if (isnan(v)) {
        assert_true(isnan(value_of(got, bits)));
        return;
    }
    assert_int_equal(got >> 15, signbit(v) ? 1 : 0);
    if (isinf(v)) {
        assert_true(isinf(value_of(got, bits)));
        return;
    }
    uint16_t mag = got & 0x7fff, sign = got & 0x8000;
    for (int side = -1; side <= 1; side += 2) {
        if ((mag == 0 && side < 0) || (isinf(value_of(got, bits)) && side > 0))
            continue;
        double other = finite_of((uint16_t)(sign | (mag + side)), bits);
        double near = fabs(x - have), far = fabs(x - other);
        if (isinf(value_of(got, bits)) && fabs(x) > fabs(have))
            near = 0;
        assert_true(near < far || (near == far && mag % 2 == 0));
    }
}

static void check_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, 4);
    check(v, f16_from(v), 5);
    check(v, bf16_from(v), 8);
}

TEST(the_nearest_is_taken)
{
    for (uint64_t i = 0; i < 400000; i++) {
        uint32_t bits = (uint32_t)rng_below(3, i, (uint64_t)1 << 32);
        check_bits(bits);
        check_bits((bits & 0x8fffffffu) | 0x30000000u); /* where fp16 has its numbers */
        check_bits(bits & 0xffffe000u);                 /* in the middle between two, or on one */
        check_bits((bits & 0x8fffe000u) | 0x30001000u);
    }
    static const uint32_t edges[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0x7f800001, 0xffffffff, 0x477fefff, 0x477ff000, 0x477fe000,
                                     0x38800000, 0x387fffff, 0x387fe000, 0x33800000, 0x33000000,
                                     0x33000001, 0x32ffffff, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff,
                                     1,          0x007fffff, 0x00008000, 0x00008001};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        check_bits(edges[i]);
}

TEST(each_comes_back)
{
    for (uint32_t h = 0; h < 65536; h++) {
        double half = value_of((uint16_t)h, 5), brain = value_of((uint16_t)h, 8);
        if (!isnan(half)) {
            assert_true((double)f16_value((uint16_t)h) == half);
            assert_int_equal(f16_from(f16_value((uint16_t)h)), h);
        } else {
            assert_true(isnan(f16_value((uint16_t)h)));
        }
        if (!isnan(brain)) {
            assert_true((double)bf16_value((uint16_t)h) == brain);
            assert_int_equal(bf16_from(bf16_value((uint16_t)h)), h);
        } else {
            assert_true(isnan(bf16_value((uint16_t)h)));
        }
    }
}
