/* What `auto` takes where costs are known: the winners that hand-made costs must have, the same one
 * on every rank, and never one that would change what comes out. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "schedule/algorithm.h"

#include <test.h>

#define MAPS WEFT_LINK_MAP

static sched_cost costs(double latency, double message, double per_byte, double reduce)
{
    sched_speed s = {latency, message, per_byte};
    return (sched_cost){.intra = s, .inter = s, .reduce = reduce, .mapped = per_byte};
}

static sched_request request(uint32_t kind, uint64_t bytes, uint32_t ranks, const sched_cost *c)
{
    return (sched_request){.kind = kind,
                           .redop = WEFT_SUM,
                           .dtype = WEFT_F32,
                           .count = bytes / 4 / ranks * ranks,
                           .ranks = ranks,
                           .in_place = kind != WEFT_SHIFT,
                           .cost = c};
}

static void takes(const sched_request *r, const char *name)
{
    assert_string_equal(sched_select(r)->name, name);
}

TEST(each_cost_alone_decides)
{
    sched_cost c = costs(1e-6, 0, 0, 0); /* latencies alone: fewest rounds */
    sched_request r = request(WEFT_ALL_REDUCE, 1 << 20, 8, &c);
    takes(&r, "one_shot");
    r.kind = WEFT_ALL_GATHER;
    takes(&r, "pairwise");
    r.kind = WEFT_BROADCAST;
    takes(&r, "tree");

    c = costs(1e-9, 1e-6, 0, 0); /* a message more is dear: what has few wins, where it fits */
    r = request(WEFT_ALL_REDUCE, 4096, 8, &c);
    takes(&r, "doubling");
    r.kind = WEFT_REDUCE_SCATTER;
    takes(&r, "halving");

    c = costs(0, 0, 1e-9, 0); /* bytes alone: the root of a tree sends them several times */
    r = request(WEFT_BROADCAST, 64 << 20, 8, &c);
    assert_string_not_equal(sched_select(&r)->name, "tree");
    c = costs(0, 0, 0, 1e-9); /* summing alone: exchange has everybody sum everything */
    r = request(WEFT_ALL_REDUCE, 1 << 20, 2, &c);
    assert_string_not_equal(sched_select(&r)->name, "one_shot");
}

/* By the formulas of the top comments, S bytes on 4 ranks: latencies, further messages, bytes are
 * 1, 2, 3 S for exchange, 2, 0, 2 S for doubling, 4, 0, 1.5 S for halving, 2, 4, 1.5 S for direct
 * and 6, 0, 1.5 S for the ring. */
TEST(winners_change_where_the_formulas_cross)
{
    sched_cost c = costs(10e-6, 4e-6, 1e-9, 0);
    sched_request r = request(WEFT_ALL_REDUCE, 64, 4, &c);
    takes(&r, "one_shot"); /* 18.2 us; doubling 20.1, pairwise 36 */
    c = costs(10e-6, 25e-6, 1e-9, 0);
    takes(&r, "doubling"); /* 20.1 us; exchange 60, halving 40 */
    c = costs(10e-6, 6e-6, 1e-9, 0);
    r = request(WEFT_ALL_REDUCE, 64 << 10, 4, &c);
    takes(&r, "halving"); /* 138 us; direct 142, doubling 151, exchange 219 */
    c = costs(10e-6, 1e-6, 1e-9, 0);
    takes(&r, "pairwise"); /* 122 us; halving 138 */
}

TEST(equals_are_told_apart_by_the_table)
{
    sched_cost c = costs(0, 0, 0, 0);
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_ALL_TO_ALL; kind++) {
        sched_request r = request(kind, 1 << 20, 8, &c);
        uint32_t first = 0;
        while (!sched_able(sched_algorithms[first], &r))
            first++;
        takes(&r, sched_algorithms[first]->name);
    }
}

TEST(without_costs_thresholds_decide)
{
    sched_request r = request(WEFT_ALL_REDUCE, 1 << 20, 8, NULL);
    assert_null(sched_cheapest(&r));
    takes(&r, "pairwise");
    assert_true(sched_predict(&sched_ring, &r) < 0);
}

/* A request and costs of any kind, from a seed. */
static sched_request any(uint64_t seed, sched_cost *c)
{
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I32};
    uint64_t key = rng_key(seed, "request");
    uint32_t ranks = 2 + (uint32_t)rng_below(key, 0, 16);
    uint32_t kind = WEFT_ALL_REDUCE + (uint32_t)rng_below(key, 1, WEFT_SHIFT - WEFT_ALL_REDUCE + 1);
    uint64_t bytes = (uint64_t)1 << rng_below(key, 2, 27);
    *c = costs(1e-4 * rng_uniform(key, 3), 1e-5 * rng_uniform(key, 4), 1e-8 * rng_uniform(key, 5),
               1e-9 * rng_uniform(key, 6));
    c->mapped = 1e-10 * rng_uniform(key, 7);
    sched_request r = request(kind, kind == WEFT_BARRIER ? 0 : bytes, ranks, c);
    r.dtype = types[rng_below(key, 8, 4)];
    r.redop = WEFT_SUM + (uint32_t)rng_below(key, 9, 3);
    r.root = (uint32_t)rng_below(key, 10, ranks);
    r.link_caps = rng_below(key, 11, 2) ? MAPS : 0;
    r.in_place = kind != WEFT_SHIFT && rng_below(key, 12, 2);
    return r;
}

TEST(all_ranks_choose_alike)
{
    for (uint64_t seed = 0; seed < 2000; seed++) {
        sched_cost c;
        sched_request r = any(seed, &c);
        const sched_algorithm *first = NULL;
        int between_two = r.kind == WEFT_SEND || r.kind == WEFT_RECV;
        for (r.me = 0; r.me < r.ranks; r.me++) {
            sched_request mine = r;
            if (between_two && r.me == r.root)
                continue;
            const sched_algorithm *a = sched_select(&mine);
            first = first && !between_two ? first : a;
            assert_ptr_equal(a, first);
            assert_true(sched_able(a, &mine));
            if (!between_two)
                continue;
            mine.kind = r.kind == WEFT_SEND ? WEFT_RECV : WEFT_SEND; /* the other end */
            mine.me = r.root;
            mine.root = r.me;
            mine.in_place = !r.in_place;
            assert_ptr_equal(sched_select(&mine), a);
        }
    }
}

TEST(no_choice_changes_what_comes_out)
{
    uint32_t rounded = 0, mapped = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        sched_cost c;
        sched_request r = any(seed, &c);
        if ((r.kind == WEFT_SEND || r.kind == WEFT_RECV) && r.root == 0)
            continue;
        const sched_algorithm *a = sched_select(&r);
        int sums =
            r.kind == WEFT_ALL_REDUCE || r.kind == WEFT_REDUCE_SCATTER || r.kind == WEFT_REDUCE;
        int sixteen = r.dtype == WEFT_BF16 || r.dtype == WEFT_F16;
        if (sums && sixteen && r.redop == WEFT_SUM) {
            assert_true(a->once);
            rounded++;
        }
        if (a->maps) {
            assert_true(sched_link_maps(r.link_caps));
            mapped++;
        }
    }
    assert_true(rounded > 100 && mapped > 100);
}

static config *read_ini(const char *text)
{
    config *c = NULL;
    assert_int_equal(config_load_text(text, "job.ini", &c), WEFT_OK);
    assert_int_equal(config_add(c, "comm.net", "the core", config_link_options()), WEFT_OK);
    assert_int_equal(config_check(c), WEFT_OK);
    return c;
}

static void is_near(double got, double want)
{
    if (!(got > 0.999999 * want && got < 1.000001 * want))
        fail_msg("%.9g instead of %.9g", got, want);
}

TEST(keys_become_costs)
{
    sched_cost cost;
    int known;
    config *c = read_ini("[comm]\nreduce = 20\n[comm.net]\nlatency = 12.5\nmessage = 1.5\n"
                         "bandwidth = 2.5\nmapped = 10\n");
    assert_int_equal(sched_cost_read(c, "net", &cost, &known), WEFT_OK);
    assert_true(known);
    is_near(cost.intra.latency, 12.5e-6);
    is_near(cost.inter.message, 1.5e-6);
    is_near(cost.intra.per_byte, 0.4e-9);
    is_near(cost.inter.per_byte, 0.4e-9);
    is_near(cost.reduce, 0.05e-9);
    is_near(cost.mapped, 0.1e-9);
    config_destroy(c);

    c = read_ini("[comm.net]\nbandwidth = 2.5\n");
    assert_int_equal(sched_cost_read(c, "net", &cost, &known), WEFT_OK);
    assert_true(known && cost.intra.latency == 0 && cost.reduce == 0);
    is_near(cost.mapped, 0.4e-9);
    config_destroy(c);

    c = read_ini("[comm]\nreduce = 20\n");
    assert_int_equal(sched_cost_read(c, "net", &cost, &known), WEFT_OK);
    assert_false(known);
    config_destroy(c);

    c = read_ini("[comm.net]\n\nmessage = 3\n");
    assert_int_equal(sched_cost_read(c, "net", &cost, &known), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "job.ini:3: comm.net.message: net has no bandwidth"));
    config_destroy(c);
}
