/* tests/schedule/levels_test.c: do the algorithms that know machines give what plain loops give,
 * however the ranks lie, and do they send between machines what their formulas say? */
#include "base/err.h"

#include <string.h>
#include <test.h>

#include "sim.h"

#define LIMIT 17

typedef struct lie {
    uint32_t ranks, machine[LIMIT], order[LIMIT]; /* order of all zeros: that of the ranks */
} lie;

static const lie lies[] = {
    {2, {0, 1}, {0}},
    {3, {0, 1, 1}, {0, 1, 0}},
    {4, {0, 0, 1, 1}, {1, 0, 0, 1}},
    {4, {0, 1, 0, 1}, {0, 0, 1, 1}},
    {4, {0, 0, 0, 0}, {0, 1, 2, 3}},
    {5, {0, 1, 2, 3, 4}, {0, 0, 0, 0, 0}},
    {6, {0, 0, 1, 1, 2, 2}, {1, 0, 1, 0, 0, 1}},
    {8, {0, 0, 0, 0, 1, 1, 1, 1}, {0, 1, 2, 3, 3, 2, 1, 0}},
    {8, {0, 0, 0, 1, 1, 1, 1, 1}, {0, 1, 2, 0, 1, 2, 3, 4}},
    {9, {0, 1, 2, 0, 1, 2, 0, 1, 2}, {0, 0, 0, 1, 1, 1, 2, 2, 2}},
    {16,
     {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3},
     {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}},
    {17,
     {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2},
     {0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0}},
};
#define LIES (sizeof lies / sizeof *lies)

static const uint32_t kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER, WEFT_ALL_GATHER,
                                 WEFT_BROADCAST, WEFT_REDUCE};
static const uint32_t types[] = {WEFT_I32, WEFT_F32, WEFT_BF16, WEFT_I64, WEFT_F16};

static sched_layout layout_of(const lie *l)
{
    sched_layout at = {.machine = l->machine, .order = l->order};
    for (uint32_t i = 0; i < l->ranks; i++)
        at.machines = l->machine[i] >= at.machines ? l->machine[i] + 1 : at.machines;
    return at;
}

TEST(as_plain_loops)
{
    static const uint64_t counts[] = {0, 1, 5, 64, 1000, 40000};
    for (uint32_t i = 0; i < LIES; i++)
        for (uint32_t k = 0; k < 5; k++)
            for (uint32_t c = 0; c < 6; c++)
                for (uint32_t in_place = 0; in_place < 2; in_place++) {
                    sched_layout at = layout_of(&lies[i]);
                    uint32_t n = lies[i].ranks;
                    sched_request r = {.kind = kinds[k],
                                       .redop = WEFT_SUM + c % 3,
                                       .dtype = types[(c + k + in_place) % 5],
                                       .count = counts[c] / (c == 5 && n > 9 ? 8 : 1),
                                       .ranks = n,
                                       .root = (c + k) % n,
                                       .in_place = in_place,
                                       .algorithm = "hierarchical",
                                       .chunk = c == 5 ? 4096 : 256,
                                       .layout = &at};
                    if (kinds[k] == WEFT_REDUCE_SCATTER || kinds[k] == WEFT_ALL_GATHER)
                        r.count = (r.count + n - 1) / n * n;
                    sim_run(&(sim_case){.all = r, .seed = i * 1000 + k * 100 + c});
                }
}

/* Nobody said where ranks are: one machine. */
TEST(without_layout)
{
    for (uint32_t k = 0; k < 5; k++)
        sim_run(&(sim_case){.all = {.kind = kinds[k],
                                    .redop = WEFT_SUM,
                                    .dtype = WEFT_I32,
                                    .count = 360,
                                    .ranks = 5,
                                    .root = 3,
                                    .algorithm = "hierarchical",
                                    .chunk = 64},
                            .seed = k});
}

/* Bytes and messages that leave the machine `from`. */
static void leaving(const sched_request *all, uint32_t from, uint64_t *bytes, uint64_t *messages)
{
    *bytes = *messages = 0;
    for (uint32_t me = 0; me < all->ranks; me++) {
        sched_request r = *all;
        sched_schedule *s;
        sched_program p;
        r.me = me;
        if (r.layout->machine[me] != from)
            continue;
        assert_int_equal(sched_make(&r, &s), WEFT_OK);
        sched_program_make(s, &p);
        for (uint32_t i = 0; i < p.steps; i++)
            if (p.step[i].what == SCHED_SEND && r.layout->machine[p.step[i].peer] != from) {
                *bytes += p.step[i].bytes;
                ++*messages;
            }
        sched_program_free(&p);
        sched_free(s);
    }
}

TEST(bytes_between_machines)
{
    for (uint32_t i = 0; i < LIES; i++) {
        sched_layout at = layout_of(&lies[i]);
        uint64_t n = lies[i].ranks, m = at.machines, count = 27720 * n * m, bytes, messages;
        sched_request r = {.kind = WEFT_ALL_REDUCE,
                           .redop = WEFT_SUM,
                           .dtype = WEFT_F32,
                           .count = count,
                           .ranks = lies[i].ranks,
                           .algorithm = "hierarchical",
                           .layout = &at};
        for (uint32_t machine = 0; machine < m; machine++) {
            leaving(&r, machine, &bytes, &messages);
            uint64_t want = 2 * 4 * count * (m - 1) / m, slack = 64 * n * m * 64;
            assert_in_range(bytes, want - (want ? slack : 0), want + slack);
        }
        uint64_t part = count / n, size = 0;
        for (uint32_t k = 0; k < n; k++)
            size += lies[i].machine[k] == 0;
        r.kind = WEFT_REDUCE_SCATTER; /* one sum for each rank elsewhere */
        leaving(&r, 0, &bytes, &messages);
        assert_int_equal(bytes, 4 * part * (n - size));
        r.kind = WEFT_ALL_GATHER; /* each own part once to each other machine */
        leaving(&r, 0, &bytes, &messages);
        assert_int_equal(bytes, 4 * part * size * (m - 1));
        r.kind = WEFT_REDUCE;
        r.root = 0;
        leaving(&r, 0, &bytes, &messages);
        assert_int_equal(bytes, 0);
    }
}

/* Short sums have one leader a machine, the member that is nearest to the network. */
TEST(leader_near_the_network)
{
    static const lie l = {6, {0, 0, 0, 1, 1, 1}, {2, 0, 1, 1, 2, 0}};
    sched_layout at = layout_of(&l);
    sched_request r = {.kind = WEFT_ALL_REDUCE,
                       .redop = WEFT_SUM,
                       .dtype = WEFT_F32,
                       .count = 100,
                       .ranks = 6,
                       .algorithm = "hierarchical",
                       .layout = &at};
    for (r.me = 0; r.me < 6; r.me++) {
        sched_schedule *s;
        sched_program p;
        assert_int_equal(sched_make(&r, &s), WEFT_OK);
        sched_program_make(s, &p);
        uint32_t far = 0;
        for (uint32_t i = 0; i < p.steps; i++)
            far += p.step[i].what == SCHED_SEND && l.machine[p.step[i].peer] != l.machine[r.me];
        assert_int_equal(far, r.me == 1 || r.me == 5);
        sched_program_free(&p);
        sched_free(s);
    }
}

TEST(auto_takes_it)
{
    sched_layout at = layout_of(&lies[7]), apart = layout_of(&lies[5]);
    sched_request r = {.kind = WEFT_ALL_REDUCE,
                       .redop = WEFT_SUM,
                       .dtype = WEFT_F32,
                       .count = 100000,
                       .ranks = 8,
                       .layout = &at};
    static const char *const want[] = {"hierarchical", "pairwise", "pairwise"};
    for (uint32_t i = 0; i < 3; i++) {
        sched_schedule *s;
        r.dtype = i == 1 ? WEFT_BF16 : WEFT_F32; /* never rounded on its way */
        r.layout = i == 2 ? &apart : &at;        /* every rank on a machine of its own */
        r.ranks = i == 2 ? 5 : 8;
        assert_int_equal(sched_make(&r, &s), WEFT_OK);
        assert_string_equal(s->r.algorithm, want[i]);
        sched_free(s);
    }
}
