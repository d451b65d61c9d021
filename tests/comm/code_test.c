/* tests/comm/code_test.c: does each level of the kernels of code.h encode and decode as plain loops
 * over doubles do, to the bit, whatever the values and lengths? */

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <test.h>

#include "coded.h"
#include "comm/kernels/reduce.h"
#include "naive.h"

#if defined(__x86_64__)
static const comm_kernel_set *const sets[] = {&comm_kernels_v2, &comm_kernels_v3, &comm_kernels_v4};
#else
static const comm_kernel_set *const sets[] = {&comm_kernels_v2};
#endif
#define SETS (sizeof sets / sizeof *sets)
static uint64_t seed;

static double draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

/* A block of one of many kinds. */
static void fill(float *x, uint64_t n, uint32_t kind)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e38f, -3.4e38f, 0x1.fffffep127f};
    for (uint64_t i = 0; i < n; i++) {
        double v = 2 * draw() - 1;
        switch (kind) {
        case 0: x[i] = (float)v; break;
        case 1: x[i] = (float)ldexp(v, (int)(draw() * 250) - 125); break;
        case 2: x[i] = (float)(floor(v * 254) / 2); break; /* ties */
        case 3: x[i] = (float)ldexp(v, -140); break;
        case 4: x[i] = (float)ldexp(v, -112); break;
        case 5: x[i] = (float)ldexp(v, 127); break;
        case 6: x[i] = i % 2 ? -0.0f : 0; break;
        default: x[i] = (float)v * 70000;
        }
    }
    if (kind == 2)
        x[n / 2] = 127;
    if (kind >= 8)
        x[(uint64_t)(draw() * (double)n)] = odd[kind - 8];
}
#define KINDS 14u

static int same(float a, float b)
{
    return isnan(a) ? isnan(b) : memcmp(&a, &b, 4) == 0;
}

static void check_block(const comm_kernel_set *set, uint32_t form, const float *x, uint64_t n)
{
    float in[SCHED_CODE_BLOCK], said[SCHED_CODE_BLOCK], lost[SCHED_CODE_BLOCK],
        residual[SCHED_CODE_BLOCK + 1];
    float back[SCHED_CODE_BLOCK + 1], sum[SCHED_CODE_BLOCK];
    unsigned char code[SCHED_CODE_BLOCK * 2 + 8];
    const uint64_t bytes = sched_code_bytes(form, n);
    coded_block(form, x, n, said, lost);
    memcpy(in, x, n * 4);
    memset(code, 0x5a, sizeof code);
    residual[n] = back[n] = 77;
    set->code.encode(form, code, in, residual, n);
    set->code.decode(form, back, code, n);
    memcpy(sum, x, n * 4);
    set->code.add(form, sum, code, n);
    for (uint64_t i = 0; i < n; i++)
        if (!same(in[i], said[i]) || !same(back[i], said[i]) || !same(residual[i], lost[i]) ||
            !same(sum[i], x[i] + said[i]))
            fail_msg("%s, form %u, %g of %llu: encoded as %g, decoded %g, residual %g; not %g, %g",
                     set->name, form, (double)x[i], (unsigned long long)n, (double)in[i],
                     (double)back[i], (double)residual[i], (double)said[i], (double)lost[i]);
    assert_memory_equal(in, back, n * 4); /* NaN too: the same bits at every rank */
    assert_true(residual[n] == 77 && back[n] == 77 && code[bytes] == 0x5a);
    memcpy(in, x, n * 4);
    set->code.encode(form, code, in, NULL, n);
    assert_memory_equal(in, back, n * 4);
}

TEST(every_set)
{
    static const uint64_t lengths[] = {1, 2, 7, 64, 255, 256};
    for (uint32_t s = 0; s < SETS; s++) {
        seed = 1;
        if (!comm_kernels_usable(sets[s])) {
            print_message("%s is not on this machine\n", sets[s]->name);
            continue;
        }
        for (uint32_t form = SCHED_TO_FP16; form <= SCHED_TO_INT8; form++)
            for (uint32_t kind = 0; kind < KINDS; kind++)
                for (uint32_t i = 0; i < 60; i++) {
                    float x[SCHED_CODE_BLOCK];
                    fill(x, lengths[i % 6], kind);
                    check_block(sets[s], form, x, lengths[i % 6]);
                }
    }
}

/* Codes themselves are equal too: ranks on different processors send each other these bytes. */
TEST(the_same_codes)
{
    for (uint32_t s = 1; s < SETS; s++)
        for (uint32_t form = SCHED_TO_FP16; form <= SCHED_TO_INT8; form++)
            for (uint32_t kind = 0; kind < KINDS && comm_kernels_usable(sets[s]); kind++) {
                float x[SCHED_CODE_BLOCK], y[SCHED_CODE_BLOCK], residual[2][SCHED_CODE_BLOCK];
                unsigned char code[2][SCHED_CODE_BLOCK * 2 + 8] = {{0}};
                fill(x, SCHED_CODE_BLOCK, kind);
                memcpy(y, x, sizeof y);
                sets[0]->code.encode(form, code[0], x, residual[0], SCHED_CODE_BLOCK);
                sets[s]->code.encode(form, code[1], y, residual[1], SCHED_CODE_BLOCK);
                assert_memory_equal(code[0], code[1], sizeof code[0]);
                assert_memory_equal(residual[0], residual[1], sizeof residual[0]);
                assert_memory_equal(x, y, sizeof x);
            }
}

TEST(types)
{
    static const uint32_t dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    for (uint32_t s = 0; s < SETS; s++)
        for (uint32_t t = 0; t < SETS && comm_kernels_usable(sets[s]); t++)
            for (uint32_t kind = 0; kind < 8; kind++) {
                float x[SCHED_CODE_BLOCK], wide[SCHED_CODE_BLOCK], residual[SCHED_CODE_BLOCK];
                uint32_t narrow[SCHED_CODE_BLOCK], want[SCHED_CODE_BLOCK];
                fill(x, SCHED_CODE_BLOCK, kind);
                fill(residual, SCHED_CODE_BLOCK, 0);
                sets[s]->code.narrow(dtypes[t], narrow, x, 253);
                sets[s]->code.widen(dtypes[t], wide, narrow, 253);
                for (uint64_t i = 0; i < 253; i++) {
                    coded_put(dtypes[t], want, i, x[i]);
                    assert_true(same(wide[i], coded_value(dtypes[t], want, i)));
                }
                assert_memory_equal(narrow, want, 253 * weft_dtype_size(dtypes[t]));
                memcpy(wide, x, sizeof x);
                sets[s]->code.add_residual(wide, residual, 0.5f, 253);
                for (uint64_t i = 0; i < 253; i++)
                    assert_true(same(wide[i], x[i] + residual[i] * 0.5f));
            }
}

TEST(bytes)
{
    assert_int_equal(sched_code_bytes(SCHED_TO_INT8, 0), 0);
    assert_int_equal(sched_code_bytes(SCHED_TO_INT8, 1), 5);
    assert_int_equal(sched_code_bytes(SCHED_TO_INT8, 256), 260);
    assert_int_equal(sched_code_bytes(SCHED_TO_INT8, 257), 265);
    assert_int_equal(sched_code_bytes(SCHED_TO_INT8, 1ull << 40), (1ull << 40) / 256 * 260);
    assert_int_equal(sched_code_bytes(SCHED_TO_FP16, 257), 514);
    assert_int_equal(sched_code_bytes(SCHED_TO_BF16, 3), 6);
    assert_string_equal(sched_form_name(SCHED_TO_INT8), "int8");
}
