/* fp32 to 16 bits: every 16-bit number comes back, what lies between two goes to the nearer one,
 * half-way to the even one. The referee forms values from their bits with ldexp. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/narrow.h"

#include <cmocka.h>
#include <math.h>
#include <weft/base.h>

/* A finite number of `fraction` bits behind the point and exponents from `least`. */
static double value(uint32_t bits, int fraction, int least)
{
    uint32_t mantissa = bits & ((1u << fraction) - 1), exponent = (bits & 0x7fff) >> fraction;
    double v = exponent ? ldexp(mantissa + (double)(1u << fraction), least + (int)exponent - 1)
                        : ldexp(mantissa, least);
    return bits & 0x8000 ? -v : v;
}

static uint16_t one(double v, uint32_t dtype)
{
    uint16_t out;
    float f = (float)v;
    narrow(&out, &f, 1, dtype);
    return out;
}

static void every_number(uint32_t dtype, int fraction, int least)
{
    uint32_t infinite = 0x7fffu >> fraction << fraction;
    for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000)
        for (uint32_t i = 0; i < infinite; i++) {
            double v = value(i, fraction, least);
            double next = i + 1 < infinite ? value(i + 1, fraction, least)
                                           : 2 * v - value(i - 1, fraction, least);
            double s = sign ? -1 : 1, middle = (v + next) / 2, bit = (next - v) / 64;
            if (fabs(middle) > 3.4e38)
                continue; /* half-way to bf16's infinity is no fp32 number */
            assert_int_equal(one(s * v, dtype), sign | i);
            assert_int_equal(one(s * (middle - bit), dtype), sign | i);
            assert_int_equal(one(s * middle, dtype), sign | (i + (i & 1)));
            assert_int_equal(one(s * (middle + bit), dtype), sign | (i + 1));
        }
    assert_int_equal(one(INFINITY, dtype), infinite);
    assert_int_equal(one(-INFINITY, dtype), 0x8000 | infinite);
    assert_true((one(NAN, dtype) & 0x7fffu) > infinite);
}

static void fp16(void **state)
{
    (void)state;
    every_number(WEFT_F16, 10, -24);
    assert_int_equal(one(1e30, WEFT_F16), 0x7c00);
    assert_int_equal(one(1e-30, WEFT_F16), 0);
}

static void bf16(void **state)
{
    (void)state;
    every_number(WEFT_BF16, 7, -133);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fp16), cmocka_unit_test(bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
