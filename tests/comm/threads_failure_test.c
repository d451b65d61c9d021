/* tests/comm/threads_failure_test.c: when something goes wrong, does every rank end, with a record
 * that says who, where and what? And is wrong use refused without harm? */
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "threads.h"

/* --- failures --- */

static void failing_op(rank *k)
{
    piece p = {0};
    add_piece(k, channel_of_all(k, k->link, "dp.grads"), k->test->request, &p);
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    pthread_barrier_wait(&k->test->barrier);
    if (k->test->explain)
        fake_job_fail(&k->test->job, k->test->explain);
    naive_fill(&p.r, k->me, p.in);
    if (k->me == k->test->seed) /* this one never starts, if it is a rank at all */
        return;
    must(comm_start(p.op, p.in, p.out, p.scratch, 1) == WEFT_OK);
    char first[1024];
    k->st = comm_wait(p.op, k->test->seed < k->test->n ? 0.3 : PATIENCE);
    snprintf(first, sizeof first, "%s", err_text());
    must(comm_wait(p.op, PATIENCE) == k->st && strcmp(first, err_text()) == 0);
    must(comm_start(p.op, p.in, p.out, p.scratch, 0) == k->st && strcmp(first, err_text()) == 0);
}

static const sched_request sum_of_three = {.kind = WEFT_ALL_REDUCE,
                                           .redop = WEFT_SUM,
                                           .dtype = WEFT_F32,
                                           .count = 30000,
                                           .ranks = 3,
                                           .algorithm = "pairwise"};

TEST(deadline_names_the_rank)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 3, WEFT_LINK_HOST, 0);
    t->request = &sum_of_three;
    t->seed = 1;
    run_ranks(t, failing_op);
    uint32_t named = 0;
    for (uint32_t i = 0; i < 3; i += 2) {
        assert_int_equal(t->rank[i].st, WEFT_PEER);
        assert_non_null(strstr(t->rank[i].said, "piece on channel dp.grads over loop"));
        named += strstr(t->rank[i].said, "not finished after 0.3 s; waits for rank 1") ||
                 strstr(t->rank[i].said, "rank 0, 1") || strstr(t->rank[i].said, "rank 1, 2");
    }
    assert_true(named >= 1); /* the later of the two may have met the earlier's abort instead */
    free(t);
}

TEST(broken_link)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 3, WEFT_LINK_HOST, 0);
    t->request = &sum_of_three;
    t->seed = 99;
    t->hub.piece = 3000;
    t->hub.gone = 2;
    t->hub.gone_after = 50000;
    t->explain = "rank 2 was killed by signal 9";
    run_ranks(t, failing_op);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(t->rank[i].st, WEFT_PEER);
        assert_non_null(strstr(t->rank[i].said, "piece on channel dp.grads over loop: rank 2 was "
                                                "killed by signal 9"));
    }
    free(t);
}

TEST(broken_link_unexplained)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 2, WEFT_LINK_HOST, 0);
    sched_request r = sum_of_three;
    r.ranks = 2;
    t->request = &r;
    t->seed = 99;
    t->hub.piece = 3000;
    t->hub.gone = 1;
    t->hub.gone_after = 50000;
    run_ranks(t, failing_op);
    assert_int_equal(t->rank[0].st, WEFT_PEER);
    assert_non_null(strstr(t->rank[0].said, "with rank 1: the connection with rank 1 broke"));
    free(t);
}

TEST(lying_peer)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 2, WEFT_LINK_HOST | WEFT_LINK_MAP, 0);
    sched_request r = sum_of_three;
    r.ranks = 2;
    r.algorithm = "mapped";
    r.link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP;
    t->request = &r;
    t->seed = 99;
    t->hub.lie = 1;
    run_ranks(t, failing_op);
    assert_true(t->rank[0].st == WEFT_IO || t->rank[1].st == WEFT_IO);
    free(t);
}

static void connecting_op(rank *k)
{
    piece p = {0};
    add_piece(k, channel_of_all(k, k->link, "dp.grads"), k->test->request, &p);
    pthread_barrier_wait(&k->test->barrier);
    k->st = comm_connect(k->w, &k->arena, 1);
    must(!strcmp(err_name(ERR_PLUGIN), "loop"));
}

/* The record says which connection is missing and what the plugin says of it, and whose that is. */
TEST(no_connection)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 3, WEFT_LINK_HOST, 0);
    t->request = &sum_of_three;
    t->hub.down = 1;
    run_ranks(t, connecting_op);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(t->rank[i].st, WEFT_PEER);
        assert_non_null(strstr(t->rank[i].said, "link loop: 2 connections are not up in time"));
        assert_non_null(strstr(t->rank[i].said, ": plugin loop: no carrier"));
    }
    free(t);
}

/* --- refusals --- */

static void misuse_body(rank *k)
{
    piece mapped = {0}, plain = {0}, in_place = {0};
    comm_channel *c = channel_of_all(k, k->link, "c");
    sched_request r = sum_of_three;
    r.ranks = 2;
    add_piece(k, c, &r, &plain);
    r.in_place = 1;
    add_piece(k, c, &r, &in_place);
    r.in_place = 0;
    r.algorithm = "mapped";
    r.link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP;
    add_piece(k, c, &r, &mapped);
    must(comm_start(plain.op, plain.in, plain.out, plain.scratch, 0) == WEFT_USAGE);
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    char *outside = malloc(r.count * 4);
    must(comm_start(mapped.op, outside, mapped.out, NULL, 0) == WEFT_USAGE);
    must(strstr(err_text(), "not in the arena") != NULL);
    must(comm_start(in_place.op, in_place.in, in_place.in + 4, in_place.scratch, 0) == WEFT_USAGE);
    must(comm_start(plain.op, plain.in, plain.in + 4, plain.scratch, 0) == WEFT_USAGE);
    must(comm_start(plain.op, plain.in, plain.out, NULL, 0) == WEFT_USAGE);
    naive_fill(&plain.r, k->me, plain.in);
    must(comm_start(plain.op, plain.in, plain.out, plain.scratch, 0) == WEFT_OK);
    weft_status again = comm_start(plain.op, plain.in, plain.out, plain.scratch, 0);
    must(again == WEFT_USAGE);
    wait_piece(&plain, 1); /* none of it did any harm */
    uint32_t ranks[] = {0, 1};
    must(comm_add_channel(k->w, k->link, "late", ranks, 2, &c) == WEFT_USAGE);
    free(outside);
}

TEST(refusals)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 2, WEFT_LINK_HOST | WEFT_LINK_MAP, 0);
    run_ranks(t, misuse_body);
    free(t);
}

static void disagree(rank *k)
{
    sched_request r = sum_of_three;
    piece p = {0};
    comm_channel *c = channel_of_all(k, k->link, k->test->seed && k->me ? "other" : "c");
    r.ranks = 2;
    r.count += k->test->seed ? 0 : k->me;
    add_piece(k, c, &r, &p);
    k->st = comm_connect(k->w, &k->arena, PATIENCE);
}

TEST(ranks_disagree)
{
    job_test *t = malloc(sizeof *t);
    for (uint32_t i = 0; i < 2; i++) {
        begin_test(t, 2, WEFT_LINK_HOST, 0);
        t->seed = i;
        run_ranks(t, disagree);
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(t->rank[k].st, WEFT_PEER);
            assert_non_null(strstr(t->rank[k].said,
                                   i ? "no channel of this name" : "has other operations on it"));
        }
    }
    free(t);
}
