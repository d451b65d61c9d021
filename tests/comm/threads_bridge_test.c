/* tests/comm/threads_bridge_test.c: do two transports that are one link carry what plain loops
 * give, each only what is its own, whatever the algorithm knows of machines? */
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "threads.h"

static loop_hub near, far;
static const uint32_t machine[LOOP_MAX_RANKS] = {0, 1, 0, 1, 1, 2};
static const uint32_t order[LOOP_MAX_RANKS] = {1, 0, 0, 2, 1, 0};

static uint32_t add_pair(rank *k)
{
    uint32_t index;
    must(comm_add_link(k->w, (comm_part){&far.component, NULL}, (comm_part){&near.component, NULL},
                       machine, false, &index) == WEFT_OK);
    return index;
}

static void one_op(rank *k)
{
    piece p = {0};
    add_piece(k, channel_of_all(k, add_pair(k), "pair"), k->test->request, &p);
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) {
        start_piece(&p, (int)(i & 1));
        wait_piece(&p, 0);
    }
}

static void run(const sched_request *r, uint64_t caps, void (*body)(rank *))
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, r->ranks, WEFT_LINK_HOST, 0);
    loop_begin(&near, WEFT_LINK_HOST, 0);
    loop_begin(&far, caps, 0);
    near.component.name = "near";
    far.component.name = "far";
    t->request = r;
    run_ranks(t, body);
    loop_end(&near);
    loop_end(&far);
    free(t);
}

TEST(every_kind)
{
    sched_layout at = {.machines = 3, .machine = machine, .order = order};
    static const char *const names[] = {"hierarchical", "auto", "ring", "pairwise"};
    uint32_t ran = 0;
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SEND; kind++)
        for (uint32_t a = 0; a < 4; a++) {
            sched_request r = {.kind = kind,
                               .redop = WEFT_SUM,
                               .dtype = WEFT_F32,
                               .count = kind == WEFT_BARRIER ? 0 : 6 * 301,
                               .ranks = 6,
                               .root = 4,
                               .algorithm = names[a],
                               .chunk = 256,
                               .layout = &at};
            sched_schedule *s;
            sched_request mine;
            naive_role(&r, 5, &mine);
            if (sched_make(&mine, &s) != WEFT_OK)
                continue;
            sched_free(s);
            run(&r, a & 1 ? WEFT_LINK_HOST | WEFT_LINK_REGISTER : WEFT_LINK_HOST, one_op);
            assert_true(near.moved > 0 || kind == WEFT_BARRIER || kind == WEFT_SEND);
            ran++;
        }
    assert_true(ran > 20);
}

static const sched_layout layout = {.machines = 3, .machine = machine, .order = order};
static const sched_request over_machines = {.kind = WEFT_ALL_REDUCE,
                                            .redop = WEFT_SUM,
                                            .dtype = WEFT_I32,
                                            .count = 3000,
                                            .ranks = 6,
                                            .algorithm = "hierarchical",
                                            .layout = &layout};

/* Of an all-reduce of S bytes on 3 machines each sends 2 S 2/3 to the others, and nothing that is
 * for its own members. */
TEST(each_its_own)
{
    run(&over_machines, WEFT_LINK_HOST, one_op);
    assert_int_equal(far.moved, 3 /* starts */ * 3 * 2 * 3000 * 4 * 2 / 3);
    assert_int_equal(near.moved, 3 * 2 * (1 + 2) * 3000 * 4);
}

/* A peer that is gone is named through the bridge as well. */
static void one_is_gone(rank *k)
{
    piece p = {0};
    add_piece(k, channel_of_all(k, add_pair(k), "pair"), k->test->request, &p);
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < 50 && st == WEFT_OK; i++) {
        start_piece(&p, 0);
        st = comm_wait(p.op, PATIENCE);
    }
    must(st == WEFT_PEER);
    must(strstr(err_text(), "rank ") != NULL);
    must(strstr(err_text(), "near+far") != NULL);
}

TEST(gone)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, over_machines.ranks, WEFT_LINK_HOST, 0);
    loop_begin(&near, WEFT_LINK_HOST, 0);
    loop_begin(&far, WEFT_LINK_HOST, 0);
    near.component.name = "near";
    far.component.name = "far";
    far.gone = 5;
    far.gone_after = 100000;
    t->request = &over_machines;
    run_ranks(t, one_is_gone);
    loop_end(&near);
    loop_end(&far);
    free(t);
}
