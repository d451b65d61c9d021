/* Does a checkpoint that one layout wrote load on any other, bit for bit? Layouts are drawn: meshes
 * of up to three axes, which cut tensors into rows (evenly or not), columns and depths, and into
 * slices of a flat group. */
#define _GNU_SOURCE
#include "ckpt_model.h"
#include <test.h>

#include "extents.h"

#include "base/number/rng.h"
#include "plan/plan.h"

enum { TENSORS = 5, RANKS = 16, WIDEST = 40000 };

static const weft_shape shapes[TENSORS] = {
    {.rank = 2, .dtype = WEFT_F32, .axes = {{"a", 12}, {"b", 24}}},
    {.rank = 2, .dtype = WEFT_F32, .axes = {{"a", 50}, {"b", 12}}},
    {.rank = 1, .dtype = WEFT_F32, .axes = {{"a", 37}}},
    {.rank = 3, .dtype = WEFT_F32, .axes = {{"a", 5}, {"b", 12}, {"c", 6}}},
    {.rank = 2, .dtype = WEFT_F32, .axes = {{"a", 7}, {"b", 4800}}}, /* rows over a window long */
};
static const char *const names[TENSORS] = {"w", "embed", "bias", "cube", "wide"};

typedef struct layout {
    spec spec;
    plan plan;
} layout;

static void make_layout(layout *l)
{
    static const uint32_t sizes[][3] = {{1, 1, 1}, {2, 1, 1}, {3, 1, 1}, {4, 2, 1},
                                        {2, 2, 2}, {2, 3, 2}, {6, 2, 1}, {1, 4, 3}};
    *l = (layout){0};
    graph_mesh *m = &l->spec.mesh;
    memcpy(m->size, sizes[dice(8)], sizeof *sizes);
    m->n = 3;
    l->spec.ranks = graph_mesh_ranks(m);
    assert_true(l->spec.ranks <= RANKS);
    l->plan.spec = &l->spec;
    for (uint32_t i = 0; i < TENSORS; i++) {
        plan_piece x = {
            .name = names[i], .param = names[i], .shape = shapes[i], .copy = UINT64_MAX};
        extents_cut(m, &x, 3 * i);
        *vec_push(&l->plan.pieces) = x;
    }
    plan_choose_writers(&l->plan);
}

static float value_of(uint32_t number, uint64_t at)
{
    return (float)rng_normal(number, at);
}

static ckpt_piece piece_of(const plan_piece *x, const plan_extent *e)
{
    ckpt_piece out = {.name = x->name, .dtype = WEFT_F32, .rank = x->shape.rank};
    for (uint32_t i = 0; i < out.rank; i++)
        out.shape[i] = x->shape.axes[i].size;
    memcpy(out.start, e->start, sizeof out.start);
    memcpy(out.size, e->size, sizeof out.size);
    out.first = e->first;
    out.count = e->count;
    return out;
}

static void save_layout(const layout *l)
{
    static float wholes[TENSORS][WIDEST], values[TENSORS][WIDEST];
    ckpt_save s;
    ckpt_shard_sum sums[RANKS];
    for (uint32_t i = 0; i < TENSORS; i++)
        for (uint64_t k = 0; k < graph_shape_elements(&shapes[i]); k++)
            wholes[i][k] = value_of(i, k);
    assert_int_equal(ckpt_begin(-1, work, 1, &s), WEFT_OK);
    for (uint32_t r = 0; r < l->spec.ranks; r++) {
        ckpt_piece pieces[TENSORS];
        uint32_t n = 0;
        for (uint32_t i = 0; i < TENSORS; i++) {
            const plan_piece *x = &l->plan.pieces.at[i];
            plan_extent e;
            plan_extent_of(&l->plan, x, r, PLAN_EXTENT_OWNED, &e);
            if (!e.count || !plan_writes(&l->plan, x, r))
                continue;
            for (uint64_t k = 0; k < e.count; k++)
                values[i][k] = wholes[i][extents_index(&x->shape, &e, e.first + k)];
            pieces[n] = piece_of(x, &e);
            pieces[n++].data = values[i];
        }
        assert_int_equal(ckpt_write_shard(&s, r, l->spec.ranks, pieces, n, NULL, &sums[r]),
                         WEFT_OK);
    }
    if (ckpt_commit(&s, "", sums, l->spec.ranks, (ckpt_keep){0, 0}) != WEFT_OK)
        fail_msg("%s", err_text());
}

/* All that a rank holds, in one read, and then a part of it. */
static void check_layout(const layout *l, const ckpt *c)
{
    static float values[WIDEST + 1];
    for (uint32_t r = 0; r < l->spec.ranks; r++)
        for (uint32_t i = 0; i < 2 * TENSORS; i++) {
            const plan_piece *x = &l->plan.pieces.at[i % TENSORS];
            plan_extent e;
            plan_extent_of(&l->plan, x, r, PLAN_EXTENT_HELD, &e);
            if (!e.count)
                continue;
            if (i >= TENSORS) {
                uint32_t skip = dice((uint32_t)e.count);
                e.first += skip;
                e.count = dice((uint32_t)(e.count - skip)) + 1;
            }
            values[e.count] = -7;
            ckpt_piece want = piece_of(x, &e);
            if (ckpt_read(c, &want, values) != WEFT_OK)
                fail_msg("%s", err_text());
            for (uint64_t k = 0; k < e.count; k++) {
                float v = value_of(i % TENSORS, extents_index(&x->shape, &e, e.first + k));
                assert_memory_equal(&values[k], &v, sizeof v);
            }
            assert_true(values[e.count] == -7);
        }
}

TEST(any_layout_loads_any_other)
{
    for (uint32_t turn = 0; turn < 40; turn++) {
        layout from, to;
        ckpt *c;
        dice_state = turn * 977 + 1;
        empty_work();
        make_layout(&from);
        save_layout(&from);
        if (ckpt_open(file_of(1, ""), &c) != WEFT_OK)
            fail_msg("turn %u: %s", turn, err_text());
        const ckpt_piece *all;
        assert_int_equal(ckpt_tensors(c, &all), TENSORS);
        for (uint32_t i = 0; i < TENSORS; i++) {
            uint64_t n = 1;
            for (uint32_t k = 0; k < all[i].rank; k++)
                n *= (uint64_t)all[i].shape[k];
            assert_int_equal(all[i].count, n);
            assert_true(ckpt_has(c, all[i].name));
        }
        assert_false(ckpt_has(c, ""));
        assert_false(ckpt_has(c, "t"));
        for (uint32_t i = 0; i < 4; i++) {
            make_layout(&to);
            check_layout(&to, c);
            free(to.plan.pieces.at);
        }
        ckpt_close(c);
        free(from.plan.pieces.at);
    }
}

/* A block of a tensor is stored as a tensor of the block's shape, which any reader can use. */
TEST(blocks_are_plain_tensors)
{
    ckpt_save s;
    char head[2048] = "";
    float data[24] = {0};
    ckpt_shard_sum sum;
    ckpt_piece pieces[3] = {
        {"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, 3}, 0, 12, data},
        {"w", WEFT_F32, 2, {4, 6}, {0, 3}, {4, 3}, 0, 5, data},
        {"w", WEFT_F32, 2, {4, 6}, {0, 3}, {4, 3}, 5, 7, data},
    };
    empty_work();
    assert_int_equal(ckpt_begin(-1, work, 1, &s), WEFT_OK);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, pieces, 3, NULL, &sum), WEFT_OK);
    assert_int_equal(ckpt_commit(&s, "", &sum, 1, (ckpt_keep){0, 0}), WEFT_OK);
    size_t n = get_file(shard_of(1, 0, 1), (unsigned char *)head, sizeof head - 1);
    for (size_t i = 0; i < n; i++)
        head[i] = head[i] ? head[i] : ' ';
    assert_non_null(strstr(head, "\"w@0:4,0:3\":{\"dtype\":\"F32\",\"shape\":[4,3]"));
    assert_non_null(strstr(head, "\"w@0:4,3:6@0\":{\"dtype\":\"F32\",\"shape\":[5]"));
    assert_non_null(strstr(head, "\"w@0:4,3:6@5\":{\"dtype\":\"F32\",\"shape\":[7]"));
    assert_non_null(strstr(head, "\"shape:w\":\"[4, 6]\""));
}

/* --- what does not cover a tensor exactly once --- */

static weft_status save_blocks(const ckpt_piece *pieces, uint32_t n)
{
    ckpt_save s;
    ckpt_shard_sum sums[8];
    empty_work();
    err_clear();
    assert_int_equal(ckpt_begin(-1, work, 1, &s), WEFT_OK);
    for (uint32_t i = 0; i < n; i++) {
        weft_status st = ckpt_write_shard(&s, i, n, &pieces[i], 1, NULL, &sums[i]);
        if (st != WEFT_OK) {
            ckpt_abandon(&s);
            return st;
        }
    }
    return ckpt_commit(&s, "", sums, n, (ckpt_keep){0, 0});
}

#define BLOCK(row, column, rows, columns)                                                          \
    {                                                                                              \
        "w", WEFT_F32, 2, {4, 6}, {row, column}, {rows, columns}, 0, (rows) * (columns), data      \
    }

TEST(other_coverings_are_refused)
{
    static const float data[24];
    const struct {
        ckpt_piece pieces[6];
        uint32_t n;
        const char *word; /* NULL: accepted */
    } cases[] = {
        {{BLOCK(0, 0, 4, 3), BLOCK(0, 3, 4, 3)}, 2, NULL},
        {{BLOCK(0, 0, 1, 2), BLOCK(1, 0, 3, 2), BLOCK(0, 2, 1, 4), BLOCK(1, 2, 3, 4)}, 4, NULL},
        {{BLOCK(0, 0, 4, 3)}, 1, "no shard has"},
        {{BLOCK(0, 0, 1, 2), BLOCK(1, 0, 3, 2), BLOCK(1, 2, 3, 4)}, 3, "no shard has 1 of its 4"},
        {{BLOCK(0, 0, 4, 3), BLOCK(0, 0, 4, 3)}, 2, "stored twice"},
        {{BLOCK(0, 0, 4, 3), BLOCK(0, 2, 4, 4)}, 2, "stored twice"},
        {{BLOCK(0, 0, 4, 6), BLOCK(0, 2, 4, 4)}, 2, "stored twice"},
        {{BLOCK(0, 0, 4, 3), BLOCK(0, 4, 4, 2)}, 2, "no shard has"},
        {{BLOCK(0, 0, 4, 3), BLOCK(0, 3, 2, 3), BLOCK(2, 3, 2, 3)}, 3, "do not form a grid"},
        {{BLOCK(0, 0, 1, 4), BLOCK(0, 4, 3, 2), BLOCK(3, 2, 1, 4), BLOCK(1, 0, 3, 2),
          BLOCK(1, 2, 2, 2)},
         5,
         "do not form a grid"}, /* a pinwheel: it covers the tensor once, and nobody writes it */
        {{BLOCK(0, 0, 5, 6)}, 1, "is invalid"},
        {{BLOCK(0, 3, 4, 4)}, 1, "is invalid"},
        {{BLOCK(-1, 0, 4, 3)}, 1, "is invalid"},
        {{BLOCK(INT64_MAX, 0, 4, 3)}, 1, "is invalid"},
        {{{"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, 3}, 6, 7, data}}, 1, "is invalid"},
        {{{"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, 0}, 0, 0, data}}, 1, "is invalid"},
        {{{"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, 3}, 0, 6, data}, BLOCK(0, 3, 4, 3)},
         2,
         "block 0:4,0:3: no shard has the elements from 6 on"},
        {{{"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, 3}, 0, 6, data},
          {"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, 3}, 5, 7, data},
          BLOCK(0, 3, 4, 3)},
         3,
         "elements from 5 on are stored twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_status st = save_blocks(cases[i].pieces, cases[i].n);
        if (!cases[i].word)
            assert_int_equal(st, WEFT_OK);
        else if (st != WEFT_INTERNAL || !strstr(err_text(), cases[i].word))
            fail_msg("case %zu: status %d, '%s'", i, st, err_text());
    }
}

TEST(unlawful_wishes_are_refused)
{
    static const float data[24];
    char final[4096];
    float out[24];
    ckpt *c;
    ckpt_piece whole = BLOCK(0, 0, 4, 6);
    assert_int_equal(save_blocks(&whole, 1), WEFT_OK);
    snprintf(final, sizeof final, "%s", file_of(1, ""));
    assert_int_equal(ckpt_open(final, &c), WEFT_OK);
    const ckpt_piece bad[] = {
        BLOCK(0, 0, 5, 6),
        BLOCK(1, 0, 4, 6),
        BLOCK(0, -1, 4, 6),
        BLOCK(0, INT64_MAX, 4, 2),
        {"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, -3}, 0, 1, NULL},
        {"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, 3}, 12, 1, NULL},
        {"w", WEFT_F32, 2, {4, 6}, {0, 0}, {4, 3}, UINT64_MAX, 2, NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ckpt_read(c, &bad[i], out), WEFT_INTERNAL);
    ckpt_close(c);
}

int main(void)
{
    return test_run(make_work, remove_work);
}
