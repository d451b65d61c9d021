/* tests/schedule/compress_test.c: do compressed sums give every rank the bits that plain loops
 * give, within the bound of the form; does feedback make the mean of many sums exact; and does what
 * is not finite, or is to be forgotten, leave nothing behind? Schedules of 1 to 9 ranks, run
 * against each other in random order. */
#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "coded.h"
#include "sim.h"

#define LIMIT 9

typedef struct world { /* what all ranks have, and what plain loops say of it */
    sched_request r;
    void *in[LIMIT], *want;
    float *kept[LIMIT], *other[LIMIT]; /* kept by the ranks; by the loops */
    uint64_t residual_bytes;
    double *sum; /* of what came out, over rounds */
} world;

static void put_in(const sim_case *c, uint32_t rank, void *in)
{
    const world *w = c->user;
    memcpy(in, w->in[rank], w->r.count * weft_dtype_size(w->r.dtype));
}

static void compare(const sim_case *c, uint32_t rank, const void *out)
{
    world *w = c->user;
    uint64_t n = naive_out_count(&w->r, rank), size = weft_dtype_size(w->r.dtype);
    uint64_t from = w->r.kind == WEFT_REDUCE_SCATTER ? rank * n : 0;
    assert_memory_equal(out, (const char *)w->want + from * size, n * size);
    for (uint64_t i = 0; i < n && (from || rank == 0); i++)
        w->sum[from + i] += (double)coded_value(w->r.dtype, out, i);
}

static void set_up(world *w, const sched_request *r, double scale)
{
    uint64_t n = r->count + 1;
    sched_schedule *s;
    *w = (world){.r = *r};
    for (uint32_t i = 0; i < r->ranks; i++) {
        sched_request mine = *r;
        mine.me = i;
        assert_int_equal(sched_make(&mine, &s), WEFT_OK);
        w->residual_bytes = s->residual;
        assert_true(w->residual_bytes <= 4 * r->count);
        sched_free(s);
    }
    w->want = calloc(n, 4);
    w->sum = calloc(n, sizeof *w->sum);
    for (uint32_t i = 0; i < r->ranks; i++) {
        w->in[i] = calloc(n, 4);
        w->kept[i] = calloc(n, 4);
        w->other[i] = calloc(n, 4);
        for (uint64_t k = 0; k < r->count; k++) {
            sched_request f32 = *r;
            float x;
            f32.dtype = WEFT_F32;
            naive_input(&f32, i, k, &x);
            coded_put(r->dtype, w->in[i], k, x * (float)scale);
        }
    }
}

static void take_down(world *w)
{
    for (uint32_t i = 0; i < w->r.ranks; i++) {
        free(w->in[i]);
        free(w->kept[i]);
        free(w->other[i]);
    }
    free(w->want);
    free(w->sum);
}

static void round_of(world *w, uint64_t seed, float times)
{
    if (w->r.ranks > 1)
        coded_sum(&w->r, w->in, w->want, w->r.feedback ? w->other : NULL, times);
    else
        memcpy(w->want, w->in[0], w->r.count * weft_dtype_size(w->r.dtype));
    const char *name = sim_run(&(sim_case){.all = w->r,
                                           .seed = seed,
                                           .fill = put_in,
                                           .check = compare,
                                           .kept = w->kept,
                                           .times = times,
                                           .user = w});
    assert_string_equal(name, w->r.ranks > 1 ? "compressed" : "alone");
    for (uint32_t i = 0; i < w->r.ranks; i++)
        assert_memory_equal(w->kept[i], w->other[i], w->residual_bytes);
}

/* How far a sum may be from the exact one: every contribution but one is rounded, and then the sum:
 * each time by half a step of the form, of what may be as large as all inputs together. */
static double bound(const sched_request *r)
{
    double step = r->compress == SCHED_TO_INT8   ? 1.0 / 254
                  : r->compress == SCHED_TO_FP16 ? 0x1p-11
                                                 : 0x1p-8;
    double last = r->kind == WEFT_ALL_REDUCE ? r->ranks * step : 0;
    double type = r->dtype == WEFT_F32 ? 1e-6 : r->dtype == WEFT_F16 ? 0x1p-10 : 0x1p-7;
    return ((r->ranks - 1) * step + last) * (1 + 2 * step) + r->ranks * type;
}

static double furthest(const world *w, double rounds)
{
    double worst = 0;
    for (uint64_t k = 0; k < w->r.count; k++) {
        double exact = 0;
        for (uint32_t i = 0; i < w->r.ranks; i++)
            exact += (double)coded_value(w->r.dtype, w->in[i], k);
        worst = fmax(worst, fabs(w->sum[k] / rounds - exact));
    }
    return worst;
}

static void one(sched_request r, uint64_t seed)
{
    world w;
    r.redop = WEFT_SUM;
    r.count *= r.kind == WEFT_REDUCE_SCATTER ? r.ranks : 1;
    set_up(&w, &r, 1);
    round_of(&w, seed, 1);
    assert_true(furthest(&w, 1) <= bound(&r));
    round_of(&w, seed + 1, 1);
    round_of(&w, seed + 2, 0.5f);
    take_down(&w);
}

TEST(every_shape)
{
    static const uint64_t counts[] = {0, 1, 2, 7, 255, 257, 600, 2055};
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    uint32_t i = 0;
    for (uint32_t ranks = 1; ranks <= LIMIT; ranks++)
        for (uint32_t c = 0; c < 8; c++)
            for (uint32_t form = SCHED_TO_FP16; form <= SCHED_TO_INT8; form++)
                for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_REDUCE_SCATTER; kind++, i++)
                    one((sched_request){.kind = kind,
                                        .dtype = types[(i / 7) % 3],
                                        .count = counts[c],
                                        .ranks = ranks,
                                        .in_place = i / 3 & 1,
                                        .chunk = i % 5 < 2    ? 0
                                                 : i % 5 == 2 ? 128
                                                              : 1088,
                                        .compress = form,
                                        .feedback = i % 4 != 3},
                        i);
}

/* The same case in many orders of events: the same bits each time. */
TEST(any_order)
{
    for (uint64_t seed = 0; seed < 12; seed++)
        one((sched_request){.kind = WEFT_ALL_REDUCE,
                            .dtype = WEFT_F32,
                            .count = 3333,
                            .ranks = 4,
                            .in_place = seed & 1,
                            .chunk = 512,
                            .compress = SCHED_TO_INT8,
                            .feedback = 1},
            seed * 3);
}

/* Sums of the same inputs over and over: what is kept stays as small as one rounding takes away, so
 * the mean of T sums is off by a T-th of it. Without feedback the same error comes each time. */
TEST(mean_of_many)
{
    for (uint32_t form = SCHED_TO_FP16; form <= SCHED_TO_INT8; form++)
        for (uint32_t feedback = 0; feedback < 2; feedback++)
            for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_REDUCE_SCATTER; kind++) {
                sched_request r = {.kind = kind,
                                   .redop = WEFT_SUM,
                                   .dtype = WEFT_F32,
                                   .count = 600,
                                   .ranks = 3,
                                   .compress = form,
                                   .feedback = feedback};
                world w;
                set_up(&w, &r, 1);
                round_of(&w, 0, 1);
                double first = furthest(&w, 1), later;
                for (uint32_t t = 1; t < 64; t++)
                    round_of(&w, t, 1);
                later = furthest(&w, 64);
                if (feedback)
                    assert_true(later <= bound(&r) / 64 + 2e-6);
                else
                    assert_true(later >= first * 0.99);
                take_down(&w);
            }
}

/* A round with a NaN, an infinity or a number too large for the form in it: the sum says so, in its
 * block at least, at every rank; and the round after it is as good as any. */
TEST(not_finite)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (uint32_t form = SCHED_TO_FP16; form <= SCHED_TO_INT8; form++)
        for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_REDUCE_SCATTER; kind++)
            for (uint32_t i = 0; i < 12; i++) {
                sched_request r = {.kind = kind,
                                   .redop = WEFT_SUM,
                                   .dtype = WEFT_F32,
                                   .count = 1200,
                                   .ranks = 3,
                                   .compress = form,
                                   .feedback = 1};
                const uint32_t at = i * 100 + 7, who = i % 3;
                world w;
                set_up(&w, &r, 1);
                for (uint32_t k = 0; k < 3; k++)
                    ((float *)w.in[k])[at + 1] = 0; /* as padding is: it stays so */
                round_of(&w, i, 1);
                float was = ((float *)w.in[who])[at];
                ((float *)w.in[who])[at] = odd[i / 3];
                if (odd[i / 3] < INFINITY && odd[i / 3] > 0)
                    ((float *)w.in[(who + 1) % 3])[at] = odd[i / 3]; /* their sum overflows */
                round_of(&w, i, 1);
                assert_false(isfinite(((float *)w.want)[at]));
                assert_true(((float *)w.want)[at + 1] == 0);
                ((float *)w.in[(who + 1) % 3])[at] = ((float *)w.in[who])[at] = was;
                for (uint64_t k = 0; k < r.count; k++)
                    w.sum[k] = 0;
                round_of(&w, i, 0); /* the gate was shut: all that was kept is forgotten */
                assert_true(furthest(&w, 1) <= bound(&r));
                take_down(&w);
            }
}

/* --- ranks of which some share a machine: encoded between machines alone --- */

typedef struct place {
    uint32_t ranks, machines, machine[LIMIT], order[LIMIT];
} place;
static const place places[] = {{4, 2, {0, 0, 1, 1}, {0, 1, 0, 1}},
                               {4, 2, {0, 1, 1, 0}, {1, 0, 1, 0}},
                               {3, 2, {0, 0, 1}, {0, 1, 0}},
                               {6, 3, {0, 0, 1, 1, 2, 2}, {0, 1, 1, 0, 0, 1}},
                               {7, 3, {0, 1, 1, 1, 2, 2, 0}, {0, 0, 1, 2, 0, 1, 1}},
                               {8, 2, {0, 0, 0, 0, 1, 1, 1, 1}, {3, 2, 1, 0, 0, 1, 2, 3}},
                               {9, 5, {0, 1, 2, 3, 4, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1, 2, 3, 4}}};
#define PLACES 7u

/* All ranks have the bits of rank 0, and those within the bound. */
static void alike(const sim_case *c, uint32_t rank, const void *out)
{
    world *w = c->user;
    uint64_t n = naive_out_count(&w->r, rank), size = weft_dtype_size(w->r.dtype);
    uint64_t from = w->r.kind == WEFT_REDUCE_SCATTER ? rank * n : 0;
    if (rank == 0 || from)
        memcpy((char *)w->want + from * size, out, n * size);
    assert_memory_equal(out, (const char *)w->want + from * size, n * size);
    for (uint64_t i = 0; i < n && (from || rank == 0); i++)
        w->sum[from + i] += (double)coded_value(w->r.dtype, out, i);
}

static void round_apart(world *w, uint64_t seed)
{
    const char *name = sim_run(&(sim_case){.all = w->r,
                                           .seed = seed,
                                           .fill = put_in,
                                           .check = alike,
                                           .kept = w->kept,
                                           .times = 1,
                                           .user = w});
    assert_string_equal(name, "hierarchical");
}

static uint64_t between_machines(const sched_request *r)
{
    uint64_t bytes = 0;
    for (uint32_t me = 0; me < r->ranks; me++) {
        sched_request mine = *r;
        sched_schedule *s;
        sched_program p;
        mine.me = me;
        assert_int_equal(sched_make(&mine, &s), WEFT_OK);
        sched_program_make(s, &p);
        for (uint32_t i = 0; i < p.steps; i++)
            if (p.step[i].what == SCHED_SEND &&
                r->layout->machine[me] != r->layout->machine[p.step[i].peer])
                bytes += p.step[i].bytes;
        sched_program_free(&p);
        sched_free(s);
    }
    return bytes;
}

/* Inside a machine sums may be rounded to their own type; the bound is that of all ranks apart. */
TEST(several_machines)
{
    static const uint64_t counts[] = {0, 1, 7, 300, 20011};
    for (uint32_t i = 0; i < PLACES * 5 * 6; i++) {
        const place *at = &places[i % PLACES];
        sched_layout layout = {at->machines, at->machine, at->order, WEFT_LINK_HOST};
        sched_request r = {.kind = i / PLACES % 2 ? WEFT_REDUCE_SCATTER : WEFT_ALL_REDUCE,
                           .redop = WEFT_SUM,
                           .dtype = i % 4 ? WEFT_F32 : WEFT_BF16,
                           .count = counts[i / PLACES % 5],
                           .ranks = at->ranks,
                           .in_place = i / 3 & 1,
                           .chunk = i % 3 ? 0 : 4096,
                           .compress = 1 + i % 3,
                           .feedback = 1,
                           .layout = &layout};
        world w;
        if (r.kind == WEFT_REDUCE_SCATTER)
            r.count = r.count / r.ranks * r.ranks;
        set_up(&w, &r, 1);
        for (uint32_t t = 0; t < 16; t++) {
            round_apart(&w, i + t);
            if (t == 0)
                assert_true(furthest(&w, 1) <= bound(&r));
            if (r.count > 1000)
                break;
        }
        if (r.count <= 1000 && r.dtype == WEFT_F32)
            assert_true(furthest(&w, 16) <= bound(&r) / 16 + 3e-6);
        take_down(&w);
    }
}

/* Two machines of four: a quarter of what the uncompressed one sends between them. */
TEST(bytes_between)
{
    sched_layout layout = {2, places[5].machine, places[5].order, WEFT_LINK_HOST};
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_REDUCE_SCATTER; kind++) {
        sched_request r = {.kind = kind,
                           .redop = WEFT_SUM,
                           .dtype = WEFT_F32,
                           .count = 1 << 20,
                           .ranks = 8,
                           .algorithm = "hierarchical",
                           .layout = &layout};
        double plain = (double)between_machines(&r);
        r.compress = SCHED_TO_INT8;
        double share = (double)between_machines(&r) / plain;
        assert_true(share > 0.253 && share < 0.256);
    }
}

TEST(refused)
{
    const sched_request good = {.kind = WEFT_ALL_REDUCE,
                                .redop = WEFT_SUM,
                                .dtype = WEFT_F32,
                                .count = 8,
                                .ranks = 4,
                                .compress = SCHED_TO_INT8};
    sched_request bad[5];
    sched_schedule *s;
    for (uint32_t i = 0; i < 5; i++)
        bad[i] = good;
    bad[0].dtype = WEFT_I32;
    bad[1].redop = WEFT_MAX;
    bad[2].kind = WEFT_ALL_GATHER;
    bad[3].compress = SCHED_TO_INT8 + 1;
    bad[4].algorithm = "ring";
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(sched_make(&bad[i], &s), WEFT_USAGE);
        assert_non_null(strstr(err_text(), "compress"));
    }
    assert_int_equal(sched_make(&good, &s), WEFT_OK);
    sched_free(s);
}

/* 65/256 of what plain sums send, or half; and an fp32 number an element is kept. */
TEST(bytes)
{
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_REDUCE_SCATTER; kind++)
        for (uint32_t n = 2; n <= 8; n *= 2) {
            sched_request r = {.kind = kind,
                               .redop = WEFT_SUM,
                               .dtype = WEFT_F32,
                               .count = 1ull << 33,
                               .ranks = n,
                               .me = 1,
                               .compress = SCHED_TO_INT8,
                               .feedback = 1};
            const uint64_t phases = kind == WEFT_ALL_REDUCE ? 2 : 1, own = r.count / n;
            sched_schedule *s;
            assert_int_equal(sched_make(&r, &s), WEFT_OK);
            assert_int_equal(s->sent, phases * (r.count - own) / 256 * 260);
            assert_int_equal(s->residual, 4 * (r.count - (phases == 2 ? 0 : own)));
            sched_free(s);
            r.compress = SCHED_TO_BF16;
            r.feedback = 0;
            assert_int_equal(sched_make(&r, &s), WEFT_OK);
            assert_int_equal(s->sent, phases * (r.count - own) * 2);
            assert_int_equal(s->residual, 0);
            sched_free(s);
        }
}
