/* Does plan_extent_of() say of every rank what a count of single elements says? And does exactly
 * one rank write each element, evenly by bytes? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/rng.h"
#include "plan/plan.h"

#include <test.h>

enum { LIMIT = 4096 }; /* elements of a tensor */
#define NONE UINT64_MAX

static uint64_t drawn; /* numbers used so far */

static uint32_t dice(uint32_t n)
{
    return (uint32_t)rng_below(23, drawn++, n);
}

#include "extents.h"

/* --- one element at a time --- */

typedef struct found { /* of one element on one rank */
    uint64_t value, copy;
    bool owned;
} found;

/* Flat place of element `at` in the rank's padded block, or NONE. */
static uint64_t place_in_block(const graph_mesh *m, const plan_piece *x, uint32_t rank, uint64_t at)
{
    uint64_t flat = 0;
    int64_t index[WEFT_MAX_AXES], size[WEFT_MAX_AXES];
    for (uint32_t i = x->shape.rank; i-- > 0;) {
        size[i] = x->shape.axes[i].size;
        index[i] = (int64_t)at % size[i];
        at /= (uint64_t)size[i];
    }
    for (uint32_t k = 0; k < m->n; k++) {
        uint32_t a = m->n - 1 - k, i = x->split[a] - 1;
        if (x->only[a] && graph_mesh_coord(m, rank, a) + 1 != x->only[a])
            return NONE;
        if (!x->split[a])
            continue;
        while (size[i] % m->size[a]) /* padding */
            size[i]++;
        size[i] /= m->size[a];
        if (index[i] / size[i] != graph_mesh_coord(m, rank, a))
            return NONE;
        index[i] %= size[i];
    }
    for (uint32_t i = 0; i < x->shape.rank; i++)
        flat = flat * (uint64_t)size[i] + (uint64_t)index[i];
    return flat;
}

static found naive(const graph_mesh *m, const plan_piece *x, uint32_t rank, uint64_t at)
{
    found f = {NONE, NONE, false};
    uint64_t flat = place_in_block(m, x, rank, at), in_slice, size = weft_dtype_size(x->copy_dtype);
    if (flat == NONE)
        return f;
    flat += x->pos;
    in_slice = flat;
    f.owned = true;
    if (x->shard_axis) {
        f.owned = flat / x->slice == graph_mesh_coord(m, rank, x->shard_axis - 1);
        in_slice = flat % x->slice;
    }
    if (f.owned || !x->sliced)
        f.value = x->offset + 4 * (x->sliced ? in_slice : flat);
    if (x->copy != NONE && (f.owned || !x->copy_sliced))
        f.copy = x->copy + size * (x->copy_sliced ? in_slice : flat);
    return f;
}

/* --- what plan_extent_of() says, spread over the elements --- */

static void check_rank(const plan *p, const plan_piece *x, uint32_t rank, uint32_t *writes)
{
    static found said[3][LIMIT];
    uint64_t n = graph_shape_elements(&x->shape), size = weft_dtype_size(x->copy_dtype);
    for (uint32_t what = 0; what < 3; what++) {
        plan_extent e;
        plan_extent_of(p, x, rank, what, &e);
        for (uint64_t i = 0; i < n; i++)
            said[what][i] = (found){NONE, NONE, false};
        for (uint64_t i = 0; i < e.count; i++)
            said[what][extents_index(&x->shape, &e, e.first + i)] =
                (found){e.offset == NONE ? NONE : e.offset + 4 * i,
                        e.copy == NONE ? NONE : e.copy + size * i, true};
    }
    for (uint64_t i = 0; i < n; i++) {
        found f = naive(&p->spec->mesh, x, rank, i);
        const found *held = &said[PLAN_EXTENT_HELD][i], *copied = &said[PLAN_EXTENT_COPIED][i];
        const found *owned = &said[PLAN_EXTENT_OWNED][i];
        assert_int_equal(held->value, f.value);
        assert_int_equal(copied->copy, f.copy);
        assert_int_equal(owned->owned, f.owned);
        if (f.owned) {
            assert_int_equal(owned->value, f.value);
            assert_int_equal(owned->copy, f.copy);
            writes[i] += plan_writes(p, x, rank);
        }
        if (held->owned && held->copy != NONE)
            assert_int_equal(held->copy, f.copy);
    }
}

/* --- jobs --- */

static void make_mesh(graph_mesh *m, uint32_t n)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    m->n = n;
    for (uint32_t a = 0; a < n; a++) {
        m->name[a] = names[a];
        m->size[a] = 1 + dice(4);
    }
}

/* A tensor that the mesh may cut: axis 0 of any size, the others divided by all that may cut them.
 */
static plan_piece make_piece(const graph_mesh *m)
{
    plan_piece x = {
        .name = "x", .param = "x", .offset = 1 << 20, .copy = NONE, .copy_dtype = WEFT_BF16};
    x.shape = (weft_shape){.rank = dice(4), .dtype = WEFT_F32};
    for (uint32_t i = 0; i < x.shape.rank; i++)
        x.shape.axes[i].size = 1 + dice(i ? 3 : 9);
    for (uint32_t a = 0; a < m->n; a++) {
        uint32_t kind = dice(6);
        if (kind < 3 && x.shape.rank) {
            uint32_t axis = dice(x.shape.rank);
            x.split[a] = 1 + axis;
            if (axis)
                x.shape.axes[axis].size *= m->size[a];
        } else if (kind == 3) {
            x.shard_axis = 1 + a;
        } else if (kind == 4 && dice(3) == 0) {
            x.only[a] = 1 + dice(m->size[a]);
        }
    }
    if (dice(2))
        x.copy = 1 << 24;
    uint64_t n = graph_shape_elements(&x.shape);
    if (x.shard_axis) {
        uint32_t size = m->size[x.shard_axis - 1];
        x.pos = dice(50);
        x.slice = (x.pos + n + dice(40)) / size + 1;
        x.sliced = dice(2);
        x.copy_sliced = dice(2);
    }
    return x;
}

TEST(an_extent_is_what_single_elements_say)
{
    static uint32_t writes[LIMIT];
    for (uint32_t turn = 0; turn < 1500; turn++) {
        spec s = {0};
        plan p = {.spec = &s};
        make_mesh(&s.mesh, dice(5));
        s.ranks = graph_mesh_ranks(&s.mesh);
        *vec_push(&p.pieces) = make_piece(&s.mesh);
        plan_piece *x = p.pieces.at;
        uint64_t n = graph_shape_elements(&x->shape);
        if (n <= LIMIT) {
            plan_choose_writers(&p);
            memset(writes, 0, sizeof writes);
            for (uint32_t r = 0; r < s.ranks; r++)
                check_rank(&p, x, r, writes);
            for (uint64_t i = 0; i < n; i++)
                assert_int_equal(writes[i], 1);
        }
        free(p.pieces.at);
    }
}

/* Rows 0..9 over 4: 3, 3, 3 and 1. Seven over 4: 2, 2, 2, 1; five over 4: 2, 2, 1, 0. */
TEST(padding_is_at_the_end)
{
    static const struct {
        int64_t rows, start[4], size[4];
    } cases[] = {
        {10, {0, 3, 6, 9}, {3, 3, 3, 1}},
        {7, {0, 2, 4, 6}, {2, 2, 2, 1}},
        {5, {0, 2, 4, 5}, {2, 2, 1, 0}},
        {8, {0, 2, 4, 6}, {2, 2, 2, 2}},
    };
    spec s = {.ranks = 4, .mesh = {.n = 1, .size = {4}}};
    plan p = {.spec = &s};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t r = 0; r < 4; r++) {
            plan_piece x = {.split = {1}, .copy = NONE};
            x.shape = (weft_shape){.rank = 2, .dtype = WEFT_F32};
            x.shape.axes[0].size = cases[i].rows;
            x.shape.axes[1].size = 5;
            plan_extent e;
            plan_extent_of(&p, &x, r, PLAN_EXTENT_HELD, &e);
            assert_int_equal(e.count, cases[i].size[r] * 5);
            if (e.count) {
                assert_int_equal(e.start[0], cases[i].start[r]);
                assert_int_equal(e.size[0], cases[i].size[r]);
                assert_int_equal(e.offset, 0);
            }
        }
}

/* Alike pieces over a mesh of 3 replicas and 2 columns: every rank gets the same number. */
TEST(writers_share_the_work)
{
    spec s = {.ranks = 6, .mesh = {.n = 2, .size = {2, 3}}};
    plan p = {.spec = &s};
    uint64_t bytes[6] = {0}, all = 0;
    for (uint32_t i = 0; i < 90; i++) {
        plan_piece x = {.split = {i % 3 ? 2 : 0}, .copy = NONE};
        x.shape = (weft_shape){.rank = 2, .dtype = WEFT_F32};
        x.shape.axes[0].size = i % 3 ? 64 : 1;
        x.shape.axes[1].size = 64;
        *vec_push(&p.pieces) = x;
    }
    plan_choose_writers(&p);
    for (uint32_t i = 0; i < p.pieces.n; i++)
        for (uint32_t r = 0; r < s.ranks; r++)
            if (plan_writes(&p, &p.pieces.at[i], r)) {
                plan_extent e;
                plan_extent_of(&p, &p.pieces.at[i], r, PLAN_EXTENT_OWNED, &e);
                bytes[r] += e.count * 4;
                all += e.count * 4;
            }
    for (uint32_t r = 0; r < s.ranks; r++)
        assert_in_range(bytes[r], all / 6 - 64 * 64 * 4, all / 6 + 64 * 64 * 4);
    p.pieces.at[0].writer = PLAN_WRITER_ELSEWHERE;
    plan_choose_writers(&p);
    for (uint32_t r = 0; r < s.ranks; r++)
        assert_false(plan_writes(&p, &p.pieces.at[0], r));
    free(p.pieces.at);
}
