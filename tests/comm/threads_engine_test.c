/* tests/comm/threads_engine_test.c: does the engine give right results whatever the timing, with
 * many channels at once, and without taking memory in a step? */
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "schedule/algorithm.h"
#include "threads.h"

static void one_op(rank *k)
{
    piece p = {0};
    comm_channel *c = channel_of_all(k, k->link, "one");
    add_piece(k, c, k->test->request, &p);
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    for (uint32_t i = 0; i < 5; i++) {
        start_piece(&p, (int)(i & 1));
        wait_piece(&p, 0);
    }
    if (p.takes_part)
        must(comm_bytes_sent(k->w) == 5 * k->made[0]->sent);
}

TEST(every_kind)
{
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_I64};
    job_test *t = malloc(sizeof *t);
    uint32_t ran = 0;
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SEND; kind++)
        for (uint32_t n = 1; n <= 5; n++)
            for (uint32_t a = 0; !a || sched_algorithms[a - 1]; a++) {
                sched_request r = {.kind = kind,
                                   .redop = WEFT_SUM,
                                   .dtype = types[(n + a) % 3],
                                   .count = kind == WEFT_BARRIER ? 0 : 420 * (1 + a % 3),
                                   .ranks = n,
                                   .root = n - 1,
                                   .in_place = (a + n) & 1,
                                   .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP,
                                   .algorithm = a ? sched_algorithms[a - 1]->name : "auto",
                                   .chunk = 256};
                sched_schedule *s;
                sched_request mine;
                naive_role(&r, n - 1, &mine);
                if (sched_make(&mine, &s) != WEFT_OK)
                    continue;
                sched_free(s);
                begin_test(t, n, r.link_caps, 0);
                t->hub.piece = a & 1 ? 300 : 7000;
                t->request = &r;
                run_ranks(t, one_op);
                ran++;
            }
    assert_true(ran > 150);
    free(t);
}

TEST(registered)
{
    job_test *t = malloc(sizeof *t);
    sched_request r = {
        .kind = WEFT_ALL_REDUCE, .redop = WEFT_MAX, .dtype = WEFT_F16, .count = 5001, .ranks = 3};
    begin_test(t, 3, WEFT_LINK_HOST | WEFT_LINK_REGISTER, 0);
    t->request = &r;
    run_ranks(t, one_op);
    free(t);
}

/* Rank 0 maps the memory of rank 1, and has nothing of the kind with rank 2, which offers none. */
static void some_map(rank *k)
{
    piece p[2] = {0};
    comm_channel *c = channel_of_all(k, k->link, "some");
    sched_request r[2] = {
        {.kind = WEFT_SEND, .dtype = WEFT_F32, .count = 1000, .ranks = 3, .algorithm = "mapped"},
        {.kind = WEFT_ALL_GATHER, .dtype = WEFT_F32, .count = 9, .ranks = 3, .algorithm = "ring"}};
    for (uint32_t i = 0; i < 2; i++) {
        r[i].link_caps = k->test->hub.table.caps;
        add_piece(k, c, &r[i], &p[i]);
    }
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    for (uint32_t i = 0; i < 2; i++)
        start_piece(&p[i], 0);
    for (uint32_t i = 0; i < 2; i++)
        wait_piece(&p[i], 1);
}

TEST(mapped_with_some)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 3, WEFT_LINK_HOST | WEFT_LINK_MAP, 0);
    run_ranks(t, some_map);
    free(t);
}

/* --- many at once --- */

/* Every rank starts the operations of a channel in the same order, and channels among each other in
 * an order of its own (as long as there is room for all channels), and waits in any order. */
static void crowd(rank *k)
{
    piece p[12] = {0};
    comm_channel *c[6];
    uint32_t limit = k->test->hub.table.channels, seed = k->me * 7 + (uint32_t)k->test->seed;
    for (uint32_t i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%u", i);
        c[i] = channel_of_all(k, i & 1 ? k->link2 : k->link, name);
    }
    for (uint32_t i = 0; i < 12; i++) {
        sched_request r = {.kind = i % 3 ? WEFT_ALL_REDUCE : WEFT_ALL_GATHER,
                           .redop = WEFT_SUM,
                           .dtype = WEFT_F32,
                           .count = 400 * k->test->n * (1 + i % 4),
                           .ranks = k->test->n,
                           .in_place = i & 1,
                           .chunk = 1024};
        add_piece(k, c[i % 6], &r, &p[i]);
    }
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    pthread_barrier_wait(&k->test->barrier);
    atomic_store(&armed, 1);
    for (uint32_t round = 0; round < 4; round++) {
        uint32_t turn = limit ? 0 : seed + round;
        for (uint32_t i = 0; i < 12; i++)
            start_piece(&p[i < 6 ? (i + turn) % 6 : 6 + (i + turn) % 6], (int)((i + round) & 1));
        for (uint32_t i = 0; i < 12; i++)
            wait_piece(&p[limit ? i : (i * 5 + seed) % 12], 0);
    }
    pthread_barrier_wait(&k->test->barrier);
    atomic_store(&armed, 0);
}

TEST(many_channels)
{
    static const uint32_t limits[] = {0, 1, 2};
    job_test *t = malloc(sizeof *t);
    for (uint32_t i = 0; i < 9; i++) {
        begin_test(t, 2 + i % 3, WEFT_LINK_HOST | (i & 1 ? WEFT_LINK_MAP : 0u), limits[i / 3]);
        t->hub.piece = t->hub2.piece = 2000;
        t->seed = i;
        run_ranks(t, crowd);
    }
    assert_int_equal(atomic_load(&allocations), 0);
    free(t);
}

/* Two links, no overlap, and ranks that wait for them in opposite order: each wait has to let the
 * other link move too. */
static void crosswise(rank *k)
{
    piece p[2] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        sched_request r = {.kind = WEFT_ALL_REDUCE,
                           .redop = WEFT_SUM,
                           .dtype = WEFT_F32,
                           .count = 1000,
                           .ranks = 2};
        add_piece(k, channel_of_all(k, i ? k->link2 : k->link, i ? "b" : "a"), &r, &p[i]);
    }
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    for (uint32_t i = 0; i < 20; i++) {
        start_piece(&p[0], 0);
        start_piece(&p[1], 0);
        wait_piece(&p[k->me], 1);
        wait_piece(&p[!k->me], 1);
    }
}

TEST(two_links)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 2, WEFT_LINK_HOST, 0);
    run_ranks(t, crosswise);
    free(t);
}
