/* check/device/ops_result.c: 81, 82, 83: results of ops and those of double loops. */
#include "check/device/ops.h"

static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};

/* Compute every case of these sizes that the device accepts; returns their number. */
static uint32_t compute(check_dev *b, const check_sizes *z, uint32_t dtype, uint32_t flags)
{
    static check_call c;
    uint32_t seen = 0;
    for (uint32_t i = 0; check_case(i, z, dtype, &c); i++) {
        c.flags = flags;
        if (check_bench_accepts(b, &c, NULL)) {
            check_image m = {0};
            check_bench_compute(b, &c, &m);
            check_image_right(b, &c, &m);
            check_image_end(&m);
            seen++;
        }
        check_call_end(&c);
    }
    return seen;
}

static void results(check_dev *b)
{
    static const check_sizes even = {.n = 4096, .rows = 32, .in = 64, .out = 48};
    uint32_t seen = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        seen += compute(b, &even, types[t], 0);
    if (!seen)
        check_not_applicable("query() of '%s' accepts none of the ops of this check", b->who);
}

void check_ops_results(check_run *r)
{
    check_bench_each(r, false, results);
}

static void odd_and_large(check_dev *b)
{
    static const check_sizes sizes[] = {{.n = 1, .rows = 1, .in = 1, .out = 1},
                                        {.n = 3, .rows = 1, .in = 7, .out = 1},
                                        {.n = 17, .rows = 3, .in = 1, .out = 5},
                                        {.n = 1001, .rows = 33, .in = 65, .out = 17},
                                        {.n = 65537, .rows = 131, .in = 257, .out = 63}};
    static const check_sizes large = {.n = 500009, .rows = 1025, .in = 129, .out = 67};
    uint32_t seen = compute(b, &large, WEFT_F32, 0);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            seen += compute(b, &sizes[i], types[t], 0);
    if (!seen)
        check_not_applicable("query() of '%s' accepts none of the ops of this check", b->who);
}

void check_ops_sizes(check_run *r)
{
    check_bench_each(r, false, odd_and_large);
}

static void accumulates(check_dev *b)
{
    static const check_sizes sizes = {.n = 2048, .rows = 32, .in = 24, .out = 16};
    uint32_t seen = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        seen += compute(b, &sizes, types[t], WEFT_SPEC_ACCUMULATE);
    if (!seen)
        check_not_applicable("query() of '%s' accepts no op with WEFT_SPEC_ACCUMULATE", b->who);
}

void check_ops_accumulate(check_run *r)
{
    check_bench_each(r, false, accumulates);
}
