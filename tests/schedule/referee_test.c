/* tests/schedule/referee_test.c: do the schedules of all ranks, run against each other with no
 * buffering and in random order, end, and give what plain loops give? Every kind, algorithm, type,
 * reduction, awkward counts, in place and out of place, 1 to 17 ranks. */
#include "base/err.h"

#include <string.h>
#include <test.h>

#include "drawn.h"
#include "sim.h"

#define LIMIT 17
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const uint64_t counts[] = {0, 1, 2, 3, 7, 16, 61, 257, 1000, 4099};
static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I32, WEFT_I64};

static int parts(uint32_t kind)
{
    return kind >= WEFT_REDUCE_SCATTER && kind <= WEFT_ALL_TO_ALL && kind != WEFT_BROADCAST &&
           kind != WEFT_REDUCE;
}

static int possible(const sched_request *r)
{
    sched_schedule *s;
    sched_request mine;
    uint32_t who = r->kind == WEFT_SEND ? r->root : 0;
    if (!naive_role(r, who, &mine) || sched_make(&mine, &s) != WEFT_OK)
        return 0;
    sched_free(s);
    return 1;
}

/* One case; how many ran is counted so that none is refused in silence. */
static uint32_t one(sched_request r, uint64_t seed)
{
    if (r.kind == WEFT_BARRIER)
        r.count = 0;
    else if (parts(r.kind))
        r.count *= r.ranks;
    if (!possible(&r))
        return 0;
    const int is_auto = !strcmp(r.algorithm, "auto"), exact = drawn_exact(&r);
    if (is_auto && sched_sum_rounds(&r))
        assert_true(exact); /* never rounded on the way */
    sim_run(&(sim_case){.all = r, .exact = is_auto || exact, .seed = seed});
    return 1;
}

/* Few ranks with every count, many with some of them. */
static uint32_t shapes(sched_request r)
{
    uint32_t ran = 0;
    for (r.ranks = 1; r.ranks <= LIMIT; r.ranks++)
        for (uint32_t c = r.ranks > 5 ? r.ranks % 4 : 0; c<10; c += r.ranks> 5 ? 4 : 1) {
            r.count = counts[c];
            r.in_place = (c + c / 4 + r.ranks + (r.chunk > 0)) & 1;
            r.root = (c + r.ranks) % r.ranks;
            r.dtype = types[(c + r.ranks) % 5];
            r.redop = WEFT_SUM + (c + r.ranks) / 2 % 3;
            ran += one(r, c * 131 + r.ranks);
            r.in_place = !r.in_place;
            ran += r.ranks > 5 ? 0 : one(r, c * 137 + r.ranks);
        }
    return ran;
}

static const char *name_of(uint32_t a)
{
    return a ? sched_algorithms[a - 1]->name : "auto";
}

TEST(every_algorithm)
{
    static const uint64_t caps[] = {WEFT_LINK_HOST | WEFT_LINK_MAP, WEFT_LINK_HOST};
    for (uint32_t a = 0; !a || sched_algorithms[a - 1]; a++) {
        uint32_t ran = 0;
        for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SHIFT; kind += kind == WEFT_SEND ? 2 : 1)
            for (uint32_t m = 0; m < (a ? 1 : 2); m++)
                for (uint64_t chunk = 0; chunk <= 128; chunk += 128)
                    ran += shapes((sched_request){.kind = kind,
                                                  .link_caps = caps[m],
                                                  .algorithm = name_of(a),
                                                  .chunk = chunk});
        print_message("%s: %u runs\n", name_of(a), ran);
        assert_true(ran >= 150);
    }
}

/* Types and reductions crossed fully, where sums are formed. */
TEST(every_type)
{
    for (uint32_t a = 0; !a || sched_algorithms[a - 1]; a++)
        for (uint32_t t = 0; t < 5; t++)
            for (uint32_t op = WEFT_SUM; op <= WEFT_MIN; op++)
                for (uint32_t n = 2; n <= 8; n += 3)
                    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_REDUCE; kind++)
                        one((sched_request){.kind = kind,
                                            .redop = op,
                                            .dtype = types[t],
                                            .count = 1001,
                                            .ranks = n,
                                            .root = n - 1,
                                            .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP,
                                            .in_place = op % 2,
                                            .algorithm = name_of(a),
                                            .chunk = 256},
                            a * 7 + t);
}

/* The same case in many orders of events: the same bits each time. */
TEST(any_order)
{
    static const char *const names[] = {"ring",     "halving",  "pairwise",
                                        "one_shot", "doubling", "double_tree"};
    for (uint64_t seed = 0; seed < 300; seed++)
        one((sched_request){.kind = WEFT_ALL_REDUCE,
                            .redop = WEFT_SUM,
                            .dtype = WEFT_F32,
                            .count = 333,
                            .ranks = 5,
                            .in_place = seed & 1,
                            .algorithm = names[seed % COUNT(names)],
                            .chunk = 64},
            seed);
}

/* What `auto` takes at each size, whole, with the chunks of the real thing. */
TEST(auto_at_length)
{
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SHIFT; kind += kind == WEFT_SEND ? 2 : 1)
        for (uint32_t m = 0; m < 2; m++)
            for (uint32_t t = 0; t < 2; t++)
                one((sched_request){.kind = kind,
                                    .redop = WEFT_SUM,
                                    .dtype = types[t],
                                    .count = kind == WEFT_ALL_REDUCE ? 1000003 : 250007,
                                    .ranks = 4,
                                    .root = 2,
                                    .in_place = m,
                                    .algorithm = "auto",
                                    .link_caps = WEFT_LINK_HOST | (m ? WEFT_LINK_MAP : 0u)},
                    kind);
}

TEST(auto_many_ranks)
{
    static const char *const expect[] = {"doubling", "halving", "ring"};
    static const uint64_t count[] = {1, 20000, 200000};
    for (uint32_t i = 0; i < COUNT(expect); i++) {
        sched_request r = {.kind = WEFT_ALL_REDUCE,
                           .redop = WEFT_SUM,
                           .dtype = WEFT_F32,
                           .count = count[i],
                           .ranks = 64,
                           .me = 5};
        sched_schedule *s;
        assert_int_equal(sched_make(&r, &s), WEFT_OK);
        assert_string_equal(s->r.algorithm, expect[i]);
        sched_free(s);
        r.dtype = WEFT_BF16; /* never rounded on the way */
        assert_int_equal(sched_make(&r, &s), WEFT_OK);
        assert_true(drawn_exact(&r));
        sched_free(s);
    }
}

/* One round less is worth more bytes where each message is a system call. */
TEST(auto_doubles_where_messages_are_calls)
{
    static const uint64_t caps[] = {WEFT_LINK_HOST, WEFT_LINK_HOST | WEFT_LINK_REGISTER,
                                    WEFT_LINK_HOST | WEFT_LINK_MAP};
    for (uint32_t i = 0; i < COUNT(caps); i++) {
        const sched_request r = {.kind = WEFT_ALL_REDUCE,
                                 .redop = WEFT_SUM,
                                 .dtype = WEFT_F32,
                                 .count = 1500,
                                 .ranks = 4,
                                 .link_caps = caps[i]};
        sched_schedule *s;
        assert_int_equal(sched_make(&r, &s), WEFT_OK);
        if (!strcmp(s->r.algorithm, "doubling") != (i == 0))
            fail_msg("caps %llu: %s", (unsigned long long)caps[i], s->r.algorithm);
        sched_free(s);
    }
}

/* Bytes are what the books say: the least possible for the large ones, and 64 bits wide. */
TEST(bytes_sent)
{
    static const char *const best[] = {"ring", "halving", "pairwise", "mapped"};
    for (uint32_t i = 0; i < COUNT(best); i++)
        for (uint32_t n = 2; n <= 8; n *= 2) {
            sched_request r = {.kind = WEFT_ALL_REDUCE,
                               .redop = WEFT_SUM,
                               .dtype = WEFT_F32,
                               .count = 5ull << 30,
                               .ranks = n,
                               .me = 1,
                               .algorithm = best[i],
                               .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP};
            sched_schedule *s;
            assert_int_equal(sched_make(&r, &s), WEFT_OK);
            assert_int_equal(s->sent, 2 * (r.count * 4 / n * (n - 1)));
            sched_free(s);
        }
}

TEST(refused)
{
    sched_schedule *s;
    const sched_request good = {.kind = WEFT_ALL_GATHER, .dtype = WEFT_F32, .count = 8, .ranks = 4};
    sched_request bad[12];
    for (uint32_t i = 0; i < 12; i++)
        bad[i] = good;
    bad[0].count = 9;
    bad[1].dtype = 99;
    bad[2].kind = 13;
    bad[3].kind = 0;
    bad[4].me = 4;
    bad[5].ranks = 0;
    bad[6].algorithm = "mapped"; /* this link does not map */
    bad[7].algorithm = "rign";
    bad[8] = (sched_request){.kind = WEFT_BROADCAST, .dtype = WEFT_F32, .ranks = 2, .root = 2};
    bad[9] = (sched_request){.kind = WEFT_SEND, .dtype = WEFT_F32, .ranks = 2, .root = 0};
    bad[10] = (sched_request){.kind = WEFT_ALL_REDUCE, .dtype = WEFT_U8, .redop = 1, .ranks = 2};
    bad[11].count = UINT64_MAX / 4 & ~(uint64_t)3;
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(sched_make(&bad[i], &s), WEFT_USAGE);
        assert_true(strlen(err_text()) > 10);
    }
    assert_int_equal(sched_make(&bad[6], &s), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "auto, ring, halving, pairwise"));
}
