/* Do the elements of a box get where their strides say, whatever the order of its axes? */
#include <stdlib.h>

#include <test.h>

#include "formats/internal.h"

/* Strides of dense elements with the axes in `order`, the last one closest. */
static uint64_t strides(uint32_t rank, const uint64_t *size, const uint32_t *order, uint64_t *out)
{
    uint64_t stride = 1;
    for (uint32_t j = rank; j-- > 0; stride *= size[order[j]])
        out[order[j]] = stride;
    return stride;
}

/* Element n of the box, counted in the order of the axes: where it is. */
static uint64_t place(uint32_t rank, const uint64_t *size, const uint64_t *stride, uint64_t n)
{
    uint64_t at = 0;
    for (uint32_t i = rank; i-- > 0; n /= size[i])
        at += n % size[i] * stride[i];
    return at;
}

static void check(uint32_t rank, const uint64_t *size, const uint32_t *from, const uint32_t *to)
{
    formats_turning t = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        t.size[i] = size[i];
    const uint64_t n = strides(rank, size, from, t.in);
    strides(rank, size, to, t.out);
    float *in = mem_alloc(n * sizeof *in), *out = mem_alloc(n * sizeof *out);
    for (uint64_t i = 0; i < n; i++)
        in[i] = (float)(i + 1);
    formats_turn(&t, in, out);
    for (uint64_t i = 0; i < n; i++)
        assert_true(out[place(rank, size, t.out, i)] == in[place(rank, size, t.in, i)]);
    free(in);
    free(out);
}

TEST(test_orders)
{
    static const uint64_t sizes[][3] = {{1, 1, 1}, {7, 1, 1},   {1, 33, 5},  {65, 1, 31},
                                        {3, 4, 5}, {40, 2, 70}, {64, 32, 1}, {33, 34, 35}};
    static const uint32_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t a = 0; a < 6; a++)
            for (size_t b = 0; b < 6; b++)
                check(3, sizes[s], orders[a], orders[b]);
    static const uint64_t matrix[] = {100, 67};
    static const uint32_t rows[] = {0, 1}, columns[] = {1, 0};
    check(2, matrix, rows, columns);
    check(2, matrix, columns, rows);
    check(1, matrix, rows, rows);
}
