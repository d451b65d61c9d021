/* tests/comm/kernels_test.c: does each level of the reduction kernels give what one element at a
 * time gives, for every type, width, length and destination in place? */

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <test.h>

#include "comm/kernels/reduce.h"
#include "naive.h"

#define LIMIT 12
#define LONGEST 5000

#if defined(__x86_64__)
static const comm_kernel_set *const sets[] = {&comm_kernels_v2, &comm_kernels_v3, &comm_kernels_v4};
#else
static const comm_kernel_set *const sets[] = {&comm_kernels_v2};
#endif
#define SETS (sizeof sets / sizeof *sets)
static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I32, WEFT_I64};
static uint64_t source[LIMIT][LONGEST + 8], dest[2][LONGEST + 8];

static comm_reduce_kernel kernel_of(const comm_kernel_set *s, uint32_t dtype)
{
    switch (dtype) {
    case WEFT_F32: return s->f32;
    case WEFT_BF16: return s->bf16;
    case WEFT_F16: return s->f16;
    case WEFT_I32: return s->i32;
    default: return s->i64;
    }
}

static void fill(const sched_request *r)
{
    for (uint32_t k = 0; k < LIMIT; k++)
        naive_fill(r, k, source[k]);
}

static void check(comm_reduce_kernel kernel, const sched_request *r, uint32_t in_place)
{
    const void *from[LIMIT];
    uint64_t size = weft_dtype_size(r->dtype);
    for (uint32_t k = 0; k < r->ranks; k++)
        from[k] = source[k];
    void *to[2] = {in_place < r->ranks ? (void *)source[in_place] : dest[0], dest[1]};
    char *first = to[0], *second = to[1];
    memset(second, 0x5a, sizeof dest[1]);
    comm_reduce_run(
        &(comm_reduce_job){kernel, r->redop, (uint32_t)size, 2, r->ranks, to, from, r->count});
    assert_int_equal(naive_first_wrong(r, 0, first, 1, UINT64_MAX), UINT64_MAX);
    assert_memory_equal(first, second, r->count * size);
    for (uint64_t i = r->count * size; i < r->count * size + 8; i++)
        assert_int_equal(second[i], 0x5a);
}

TEST(every_kernel)
{
    static const uint64_t counts[] = {0, 1, 7, 16, 33, 2047, 2048, 2049, 4999};
    for (uint32_t s = 0; s < SETS; s++) {
        if (!comm_kernels_usable(sets[s])) {
            print_message("%s is not on this machine\n", sets[s]->name);
            continue;
        }
        for (uint32_t t = 0; t < 5; t++)
            for (uint32_t op = WEFT_SUM; op <= WEFT_MIN; op++)
                for (uint32_t n = 1; n <= LIMIT; n += n < 6 ? 1 : 6)
                    for (uint32_t c = 0; c < 9; c++) {
                        sched_request r = {.kind = WEFT_ALL_REDUCE,
                                           .redop = op,
                                           .dtype = types[t],
                                           .count = counts[c],
                                           .ranks = n};
                        fill(&(sched_request){.kind = WEFT_ALL_REDUCE,
                                              .dtype = types[t],
                                              .count = LONGEST,
                                              .ranks = LIMIT});
                        check(kernel_of(sets[s], types[t]), &r, (c + n) % (n + 2));
                    }
    }
}

static uint16_t through(comm_reduce_kernel k, float a, float b, uint32_t dtype)
{
    uint16_t x[2], y = 0;
    x[0] = dtype == WEFT_F16 ? half_nearest((double)a) : bf16_nearest((double)a);
    x[1] = dtype == WEFT_F16 ? half_nearest((double)b) : bf16_nearest((double)b);
    const void *from[2] = {&x[0], &x[1]};
    k(WEFT_SUM, &y, from, 2, 1);
    return y;
}

/* Every half there is, widened, and narrowed again; and sums that round in every way. */
TEST(every_half)
{
    static uint16_t all[65536], zero[65536], back[65536];
    for (uint32_t i = 0; i < 65536; i++) {
        all[i] = (uint16_t)i;
        zero[i] = 0x8000; /* -0 + x is x, for -0 as well */
    }
    for (uint32_t s = 0; s < SETS; s++) {
        if (!comm_kernels_usable(sets[s]))
            continue;
        for (uint32_t at = 0; at < 65536; at += REDUCE_BLOCK) {
            const void *from[2] = {all + at, zero + at};
            sets[s]->f16(WEFT_SUM, back + at, from, 2, REDUCE_BLOCK);
        }
        for (uint32_t i = 0; i < 65536; i++)
            if (isnan(half_value((uint16_t)i)))
                assert_true(isnan(half_value(back[i])));
            else
                assert_int_equal(back[i], i);
        for (uint32_t i = 0; i < 0x7c00; i += 13)
            for (uint32_t j = 0; j < 0x7c00; j += 997) {
                float a = (float)half_value((uint16_t)i), b = (float)half_value((uint16_t)j);
                assert_int_equal(through(sets[s]->f16, a, -b, WEFT_F16),
                                 half_nearest((double)(a - b)));
                assert_int_equal(through(sets[s]->f16, a, b, WEFT_F16),
                                 half_nearest((double)(a + b)));
            }
    }
}

TEST(special_values)
{
    static const float odd[] = {0.0f, 1.0f, -INFINITY, INFINITY, NAN};
    for (uint32_t s = 0; s < SETS; s++) {
        if (!comm_kernels_usable(sets[s]))
            continue;
        for (uint32_t op = WEFT_MAX; op <= WEFT_MIN; op++)
            for (uint32_t i = 0; i < 25; i++) {
                float a = odd[i / 5], b = odd[i % 5], out;
                const void *from[2] = {&a, &b};
                sets[s]->f32(op, &out, from, 2, 1);
                float want = op == WEFT_MAX ? fmaxf(a, b) : fminf(a, b);
                if (isnan(a) || isnan(b))
                    assert_true(isnan(out));
                else
                    assert_true(out == want);
            }
        uint16_t top = through(sets[s]->bf16, 3e38f, 3e38f, WEFT_BF16);
        assert_int_equal(top, 0x7f80);
        assert_true(isnan(bf16_value(through(sets[s]->bf16, NAN, 1, WEFT_BF16))));
    }
}
