/* tests/comm/threads_checked_test.c: does a message that changes on its way end the job, with a
 * record of where? A thousand single bits are inverted, each in an operation of its own: bits of
 * the payload and of the trailers, drawn from all that a run without any moves; all are found, and
 * a run without any ends well. */
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "drawn.h"
#include "threads.h"

#define FLIPS 1000u

static void one_op(rank *k)
{
    piece p = {0};
    add_piece(k, channel_of_all(k, k->link, "dp.grads"), k->test->request, &p);
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    pthread_barrier_wait(&k->test->barrier);
    start_piece(&p, 0);
    k->st = comm_wait(p.op, PATIENCE);
    if (k->st == WEFT_IO) /* or the others would wait for the cause */
        fake_job_fail(&k->test->job, "another rank has found it");
    if (k->st == WEFT_OK)
        must(naive_first_wrong(&p.r, k->me, p.out, 0, UINT64_MAX) == UINT64_MAX);
}

/* The bytes that moved. */
static uint64_t run_once(job_test *t, const sched_request *r, uint64_t caps, uint64_t flip_at,
                         uint8_t flip)
{
    begin_test(t, r->ranks, caps, 0);
    t->request = r;
    t->checked = UINT32_MAX;
    t->hub.piece = 5000;
    t->hub.flip_at = flip_at;
    t->hub.flip = flip;
    run_ranks(t, one_op);
    return t->hub.moved;
}

static void check_found(const job_test *t, uint64_t flip_at)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->rank[i].st == WEFT_IO) {
            char expect[64];
            snprintf(expect, sizeof expect, "to rank %u (host ", i);
            found += strstr(t->rank[i].said, "a message changed on its way from rank ") &&
                     strstr(t->rank[i].said, expect) && strstr(t->rank[i].said, ": bytes ") &&
                     strstr(t->rank[i].said, "piece on channel dp.grads over loop");
        }
    if (found != 1)
        print_error("byte %llu: %u ranks found it; rank 0: %s; rank 1: %s\n",
                    (unsigned long long)flip_at, found, t->rank[0].said, t->rank[1].said);
    assert_int_equal(found, 1);
}

static const sched_request requests[] = {
    {.kind = WEFT_ALL_REDUCE,
     .redop = WEFT_SUM,
     .dtype = WEFT_F32,
     .count = 5000,
     .ranks = 3,
     .algorithm = "pairwise"},
    {.kind = WEFT_ALL_REDUCE,
     .redop = WEFT_MAX,
     .dtype = WEFT_I32,
     .count = 3001,
     .ranks = 4,
     .algorithm = "ring"},
    {.kind = WEFT_ALL_GATHER, .dtype = WEFT_BF16, .count = 8000, .ranks = 2, .algorithm = "auto"},
    {.kind = WEFT_BROADCAST,
     .dtype = WEFT_F32,
     .count = 300000, /* several pieces of a message */
     .ranks = 2,
     .algorithm = "tree",
     .chunk = 1 << 30},
};
#define REQUESTS (sizeof requests / sizeof *requests)

TEST(each_flipped_bit_is_found)
{
    job_test *t = malloc(sizeof *t);
    uint64_t random = drawn_seed(), moved[REQUESTS];
    const uint64_t caps = WEFT_LINK_HOST;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        moved[i] = run_once(t, &requests[i], caps | (i & 1 ? WEFT_LINK_REGISTER : 0), 0, 0);
        for (uint32_t r = 0; r < t->n; r++)
            assert_int_equal(t->rank[r].st, WEFT_OK);
    }
    uint32_t found = 0;
    for (uint32_t n = 0; n < FLIPS; n++) {
        /* every tenth one has several pieces, which take their time */
        const uint32_t i = n % 10 ? n % 3 : 3;
        const uint64_t at = 1 + drawn_number(&random, (uint32_t)moved[i]);
        const uint8_t bit = (uint8_t)(1u << drawn_number(&random, 8));
        (void)run_once(t, &requests[i], caps, at, bit);
        check_found(t, at);
        found++;
    }
    print_message("%u of %u flipped bits were found\n", found, FLIPS);
    assert_int_equal(found, FLIPS);
    free(t);
}

/* Ranks of which one has no checksums would wait for messages that never come. */
static void connecting(rank *k)
{
    piece p = {0};
    add_piece(k, channel_of_all(k, k->link, "dp.grads"), k->test->request, &p);
    k->st = comm_connect(k->w, &k->arena, PATIENCE);
}

TEST(all_or_none)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 3, WEFT_LINK_HOST, 0);
    t->request = &requests[0];
    t->checked = 5;
    run_ranks(t, connecting);
    assert_int_equal(t->rank[1].st, WEFT_USAGE);
    assert_non_null(strstr(t->rank[1].said, "sends with checksums and this rank without"));
    assert_int_equal(t->rank[0].st, WEFT_USAGE);
    assert_non_null(strstr(t->rank[0].said, "rank 1 sends without checksums and this rank with"));
    free(t);
}

static void nothing_goes_past(rank *k)
{
    sched_request r = requests[0];
    sched_schedule *s;
    comm_op *op;
    r.me = k->me;
    r.algorithm = "mapped";
    r.link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP;
    must(sched_make(&r, &s) == WEFT_OK);
    k->made[k->mades++] = s;
    k->st = comm_add_op(channel_of_all(k, k->link, "dp.grads"), s, "piece", &op);
}

TEST(mapped_memory_is_refused)
{
    job_test *t = malloc(sizeof *t);
    begin_test(t, 3, WEFT_LINK_HOST | WEFT_LINK_MAP, 0);
    t->checked = UINT32_MAX;
    run_ranks(t, nothing_goes_past);
    assert_int_equal(t->rank[2].st, WEFT_USAGE);
    assert_non_null(strstr(t->rank[2].said, "'mapped' maps peers' memory, where no message has a"));
    free(t);
}
