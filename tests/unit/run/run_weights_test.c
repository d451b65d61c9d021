/* Does every rank of any layout start from the values that the whole tensors have, and load them
 * back from a checkpoint of one rank, and write nothing else? The device is memory. */
#define _GNU_SOURCE
#include "ckpt_model.h"
#include <test.h>

#include "extents.h"

#include "base/number/half.h"
#include "base/number/rng.h"
#include "run/save/saver.h"
#include "run/state/weights.h"

enum { TENSORS = 5, REGION = 1 << 21, LIMIT = 300000 };
enum { ARENA = TENSORS * 3 * REGION + 4096 };

static const weft_shape shapes[TENSORS] = {
    {.rank = 2, .dtype = WEFT_F32, .axes = {{"a", 300}, {"b", 1000}}}, /* over one chunk */
    {.rank = 2, .dtype = WEFT_F32, .axes = {{"a", 50}, {"b", 12}}},
    {.rank = 1, .dtype = WEFT_F32, .axes = {{"a", 37}}},
    {.rank = 3, .dtype = WEFT_F32, .axes = {{"a", 5}, {"b", 12}, {"c", 6}}},
    {.rank = 1, .dtype = WEFT_F32, .axes = {{"a", 64}}},
};
static const char *const names[TENSORS] = {"w", "embed", "bias", "cube", "gain"};
static const char *const states[TENSORS] = {"w.m", "embed.m", "bias.m", "cube.m", "gain.m"};
static const char *const inits[TENSORS] = {"normal:0.02", "normal:1", "zeros", "normal:3", "ones"};

static float values[TENSORS][LIMIT];

static float state_value(uint32_t i, uint64_t at)
{
    return (float)at * 0.25f + (float)i;
}

static void make_values(uint64_t seed)
{
    static const double deviation[TENSORS] = {0.02, 1, 0, 3, 0};
    for (uint32_t i = 0; i < TENSORS; i++)
        for (uint64_t k = 0; k < graph_shape_elements(&shapes[i]); k++) {
            double v = rng_normal(rng_key(seed, names[i]), k);
            values[i][k] = (float)(v * (double)(float)deviation[i]) + (i == 4 ? 1 : 0);
        }
}

/* --- a device that is memory --- */

static weft_status copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t n,
                        uint32_t flags)
{
    (void)flags;
    (void)d;
    (void)s;
    memcpy(to, from, n);
    return WEFT_OK;
}

static weft_status record(weft_event *e, weft_stream *s, uint32_t flags)
{
    (void)flags;
    (void)e;
    (void)s;
    return WEFT_OK;
}

static weft_status query(weft_event *e, uint32_t flags)
{
    (void)flags;
    (void)e;
    return WEFT_OK;
}

typedef struct layout {
    spec spec;
    plan plan;
    plan_set set;
    weft_device_table table;
    run_executor e;
    char *arena, *expected; /* [ARENA] */
} layout;

static void make_layout(layout *l, bool one_rank)
{
    static const uint32_t sizes[][3] = {{2, 1, 1}, {3, 1, 1}, {4, 2, 1}, {2, 2, 2},
                                        {2, 3, 2}, {6, 2, 1}, {1, 4, 3}};
    *l = (layout){.arena = malloc(ARENA), .expected = malloc(ARENA)};
    assert_true(l->arena && l->expected);
    graph_mesh *m = &l->spec.mesh;
    if (!one_rank) {
        m->n = 3;
        memcpy(m->size, sizes[dice(7)], sizeof *sizes);
    }
    l->spec.ranks = graph_mesh_ranks(m);
    l->spec.want = SPEC_TRAIN;
    l->plan.spec = &l->spec;
    for (uint32_t i = 0; i < 2 * TENSORS; i++) {
        uint32_t t = i % TENSORS;
        plan_piece x = {.param = names[t], .shape = shapes[t], .copy = UINT64_MAX};
        x.name = i < TENSORS ? names[t] : states[t];
        x.init = i < TENSORS ? inits[t] : NULL;
        x.offset = (uint64_t)i * REGION;
        if (i < TENSORS && dice(3)) {
            x.copy = (uint64_t)(2 * TENSORS + i) * REGION;
            x.copy_dtype = dice(2) ? WEFT_BF16 : WEFT_F16;
        }
        extents_cut(m, &x, 0);
        *vec_push(&l->plan.pieces) = x;
    }
    plan_choose_writers(&l->plan);
    for (uint32_t i = 0; i < 2 * TENSORS; i++)
        *vec_push(&l->plan.save.entries) = (plan_entry){.kind = ENTRY_WRITE, .what = i};
    *vec_push(&l->plan.scalars) =
        (plan_scalar_slot){.name = "count", .offset = ARENA - 64, .saved = SCALAR_SAVED};
    *vec_push(&l->plan.scalars) =
        (plan_scalar_slot){.name = "skipped", .offset = ARENA - 60, .saved = SCALAR_SAVED};
    l->set = (plan_set){.spec = &l->spec, .stage_axis = -1, .n = 1, .at = &l->plan};
    l->table = (weft_device_table){.copy = copy, .record = record, .event_query = query};
    l->table.caps = dice(2) ? WEFT_DEV_HOST_MEMORY : 0;
    l->e = (run_executor){.plan = &l->plan, .table = &l->table, .base = l->arena, .deadline = 120};
}

static void free_layout(layout *l)
{
    free(l->plan.pieces.at);
    free(l->plan.scalars.at);
    free(l->plan.save.entries.at);
    free(l->arena);
    free(l->expected);
}

static void expect_piece(layout *l, uint32_t i)
{
    const plan_piece *x = &l->plan.pieces.at[i];
    plan_extent held, copied;
    plan_extent_of(&l->plan, x, l->e.rank, PLAN_EXTENT_HELD, &held);
    plan_extent_of(&l->plan, x, l->e.rank, PLAN_EXTENT_COPIED, &copied);
    for (uint64_t k = 0; k < held.count; k++) {
        uint64_t at = extents_index(&x->shape, &held, held.first + k);
        float v = i < TENSORS ? values[i][at] : state_value(i - TENSORS, at);
        memcpy(l->expected + held.offset + 4 * k, &v, 4);
    }
    for (uint64_t k = 0; k < copied.count; k++) {
        float v = values[i][extents_index(&x->shape, &copied, copied.first + k)];
        uint16_t half = x->copy_dtype == WEFT_F16 ? f16_from(v) : bf16_from(v);
        memcpy(l->expected + copied.copy + 2 * k, &half, 2);
    }
}

/* The arena of `rank` after initialisation, or after loading too. */
static void expect(layout *l, uint32_t rank, bool loaded)
{
    const float count = 17, skipped = 3;
    l->e.rank = rank;
    memset(l->arena, 0, ARENA);
    memset(l->expected, 0, ARENA);
    for (uint32_t i = 0; i < (loaded ? 2 : 1) * TENSORS; i++)
        expect_piece(l, i);
    if (loaded) {
        memcpy(l->expected + ARENA - 64, &count, 4);
        memcpy(l->expected + ARENA - 60, &skipped, 4);
    }
}

/* A checkpoint of one rank with all values, made by the program. */
static void save_one(void)
{
    layout l;
    make_layout(&l, true);
    expect(&l, 0, true);
    memcpy(l.arena, l.expected, ARENA);
    config *cfg;
    assert_int_equal(config_load_text("", "test", &cfg), WEFT_OK);
    run_settings set;
    assert_int_equal(run_settings_read(cfg, &set), WEFT_OK);
    set.out = work;
    l.e.set = &set;
    run_saver *saver = NULL;
    if (run_saver_open(&l.e, cfg, NULL, false, 1, &saver) != WEFT_OK ||
        run_saver_begin(saver, 1, 0) != WEFT_OK)
        fail_msg("%s", err_text());
    run_saver_close(saver);
    config_destroy(cfg);
    free_layout(&l);
}

TEST(any_rank_gets_its_part)
{
    char dir[4096];
    ckpt *c;
    make_values(99);
    for (uint32_t turn = 0; turn < 6; turn++) {
        dice_state = turn * 31 + 5;
        empty_work();
        save_one();
        snprintf(dir, sizeof dir, "%s", file_of(1, ""));
        if (ckpt_open(dir, &c) != WEFT_OK)
            fail_msg("%s", err_text());
        layout l;
        make_layout(&l, turn == 0);
        for (uint32_t r = 0; r < l.spec.ranks; r++) {
            expect(&l, r, false);
            assert_int_equal(run_weights_init(&l.e, 99), WEFT_OK);
            assert_int_equal(memcmp(l.arena, l.expected, ARENA), 0);
            expect(&l, r, true);
            if (run_weights_load(&l.e, &l.set, c) != WEFT_OK)
                fail_msg("%s", err_text());
            assert_int_equal(memcmp(l.arena, l.expected, ARENA), 0);
        }
        free_layout(&l);
        ckpt_close(c);
    }
}

TEST(what_does_not_fit_is_named)
{
    char dir[4096];
    ckpt *c;
    layout l;
    empty_work();
    dice_state = 3;
    save_one();
    snprintf(dir, sizeof dir, "%s", file_of(1, ""));
    assert_int_equal(ckpt_open(dir, &c), WEFT_OK);
    make_layout(&l, false);
    l.plan.pieces.n--; /* of gain.m the job knows nothing */
    assert_int_equal(run_weights_load(&l.e, &l.set, c), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "gain.m"));
    l.spec.want = SPEC_FORWARD; /* sampling leaves states where they are */
    assert_int_equal(run_weights_load(&l.e, &l.set, c), WEFT_OK);
    l.plan.pieces.at[0].init = "normal:x";
    assert_int_equal(run_weights_init(&l.e, 1), WEFT_USAGE);
    l.plan.pieces.at[0].init = "normal:1";
    l.plan.pieces.at[0].name = "other";
    assert_int_equal(run_weights_load(&l.e, &l.set, c), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "no tensor other"));
    free_layout(&l);
    ckpt_close(c);
}

int main(void)
{
    return test_run(make_work, remove_work);
}
