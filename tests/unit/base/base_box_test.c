/* Do rows of two boxes name each common element once, in order, by its number in either box? */

#include "base/number/box.h"
#include "base/number/rng.h"

#include <test.h>

static uint64_t drawn;

static int64_t draw(uint32_t n)
{
    return (int64_t)rng_below(5, drawn++, n);
}

/* Flat number in `b` of element `at` of `a`; false when it is not there. */
static bool place(const box *a, uint64_t at, const box *b, uint64_t *out)
{
    uint64_t stride = 1;
    *out = 0;
    for (uint32_t i = a->rank; i-- > 0;) {
        int64_t x = a->start[i] + (int64_t)(at % (uint64_t)a->size[i]) - b->start[i];
        at /= (uint64_t)a->size[i];
        if (x < 0 || x >= b->size[i])
            return false;
        *out += (uint64_t)x * stride;
        stride *= (uint64_t)b->size[i];
    }
    return true;
}

static void check_pair(const box *a, const box *b)
{
    box_rows r;
    uint64_t row = 0, within = 0, at[2], other;
    box_common(a, b, &r);
    for (uint64_t i = 0; i < box_elements(a); i++) {
        if (!place(a, i, b, &other)) {
            assert_true(within == 0); /* no row goes on over it */
            continue;
        }
        assert_true(row < r.n);
        box_row(&r, row, at);
        assert_int_equal(at[0] + within, i);
        assert_int_equal(at[1] + within, other);
        assert_int_equal(box_row_from(&r, 0, i), row);
        assert_int_equal(box_row_from(&r, 1, other), row);
        if (++within == r.length) {
            within = 0;
            row++;
        }
    }
    assert_int_equal(row, r.n);
    assert_int_equal(box_row_from(&r, 0, box_elements(a)), r.n);
}

TEST(rows_name_every_common_element)
{
    for (uint32_t turn = 0; turn < 20000; turn++) {
        box a = {.rank = (uint32_t)draw(5)}, b = {.rank = a.rank};
        for (uint32_t i = 0; i < a.rank; i++) {
            bool same = draw(3) == 0;
            a.start[i] = draw(3);
            a.size[i] = 1 + draw(4);
            b.start[i] = same ? a.start[i] : draw(3);
            b.size[i] = same ? a.size[i] : 1 + draw(4);
        }
        check_pair(&a, &b);
    }
}

TEST(whole_axes_are_joined)
{
    box a = {3, {0, 0, 0}, {4, 5, 6}}, rows = {3, {1, 0, 0}, {2, 5, 6}};
    box columns = {3, {0, 2, 0}, {4, 2, 6}};
    box_rows r;
    box_common(&a, &rows, &r);
    assert_true(r.n == 1 && r.length == 60);
    box_common(&a, &columns, &r);
    assert_true(r.n == 4 && r.length == 12);
}
