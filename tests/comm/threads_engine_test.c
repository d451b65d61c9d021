/* tests/comm/threads_engine_test.c: does the engine do what it promises: right results whatever the
 * timing, many channels at once, no memory taken in a step, and failures that name who, where and
 * what? Ranks are threads over the link of loop_link.h. */
#include "base/err.h" /* before cmocka, whose fail() is a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loop_link.h"
#include "naive.h"

#define ARENA (8u << 20)
#define PATIENCE 60.0
#define MOST_OPS 40

/* No memory is taken in a step: armed, every allocation of ours is counted. */
static atomic_int armed, allocations;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static void count_allocation(void)
{
    if (atomic_load(&armed))
        atomic_fetch_add(&allocations, 1);
}

void *__wrap_malloc(size_t n)
{
    count_allocation();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    count_allocation();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    count_allocation();
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    count_allocation();
    return __real_aligned_alloc(align, n);
}

typedef struct rank {
    struct job_test *test;
    uint32_t me, link, link2;
    comm_world *w;
    comm_arena arena;
    uint64_t used;
    comm_schedule *made[MOST_OPS];
    uint32_t mades;
    char said[1024]; /* the record with which it ended */
    weft_status st;
    pthread_t thread;
} rank;

typedef struct job_test {
    loop_hub hub, hub2;
    job job;
    uint32_t n;
    void (*body)(rank *);
    rank rank[LOOP_MOST_RANKS];
    pthread_barrier_t barrier;
    uint64_t seed;
    const comm_request *request;
    const char *explain; /* what the job says once all are connected */
} job_test;

/* Threads cannot use cmocka's asserts: what fails there ends the program. */
#define must(cond) ((cond) ? (void)0 : must_failed(#cond, __LINE__))

static void must_failed(const char *what, int line)
{
    fprintf(stderr, "threads_engine_test.c:%d: %s; the record: %s\n", line, what, err_text());
    abort();
}

static void *take(rank *k, uint64_t bytes)
{
    char *p = (char *)k->arena.base + k->used;
    k->used += (bytes + 127) & ~(uint64_t)63;
    must(k->used <= k->arena.bytes);
    return p;
}

static void *rank_main(void *arg)
{
    rank *k = arg;
    job_test *t = k->test;
    job_identity who = {.rank = k->me, .ranks = t->n, .local_rank = k->me, .local_ranks = t->n};
    k->arena = (comm_arena){aligned_alloc(4096, ARENA), ARENA, 3, 0};
    must(comm_world_create(&t->job, &who, &k->w) == WEFT_OK);
    must(comm_add_link(k->w, &t->hub.component, NULL, &k->link) == WEFT_OK);
    must(comm_add_link(k->w, &t->hub2.component, NULL, &k->link2) == WEFT_OK);
    t->body(k);
    snprintf(k->said, sizeof k->said, "%s", err_text());
    pthread_barrier_wait(&t->barrier); /* nobody leaves while others are at work */
    comm_world_destroy(k->w);
    for (uint32_t i = 0; i < k->mades; i++)
        comm_schedule_free(k->made[i]);
    free(k->arena.base);
    return NULL;
}

static void begin_test(job_test *t, uint32_t n, uint64_t caps, uint32_t channels)
{
    memset(t, 0, sizeof *t);
    loop_begin(&t->hub, caps, channels);
    loop_begin(&t->hub2, caps, channels);
    t->hub2.component.name = "pool";
    fake_job_begin(&t->job);
    t->n = n;
}

static void run_ranks(job_test *t, void (*body)(rank *))
{
    t->body = body;
    pthread_barrier_init(&t->barrier, NULL, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        t->rank[i].test = t;
        t->rank[i].me = i;
        pthread_create(&t->rank[i].thread, NULL, rank_main, &t->rank[i]);
    }
    for (uint32_t i = 0; i < t->n; i++)
        pthread_join(t->rank[i].thread, NULL);
    fake_job_end(&t->job);
    loop_end(&t->hub);
    loop_end(&t->hub2);
}

static comm_channel *channel_of_all(rank *k, uint32_t link, const char *name)
{
    uint32_t all[LOOP_MOST_RANKS];
    comm_channel *c;
    for (uint32_t i = 0; i < k->test->n; i++)
        all[i] = i;
    must(comm_add_channel(k->w, link, name, all, k->test->n, &c) == WEFT_OK);
    return c;
}

typedef struct piece {
    comm_request r;
    comm_op *op;
    char *in, *out, *scratch;
    int takes_part, started;
} piece;

static void add_piece(rank *k, comm_channel *c, const comm_request *all, piece *p)
{
    p->takes_part = naive_role(all, k->me, &p->r);
    if (!p->takes_part)
        return;
    p->r.link_caps = k->test->hub.table.caps;
    comm_schedule *s;
    must(comm_schedule_make(&p->r, &s) == WEFT_OK);
    k->made[k->mades++] = s;
    must(comm_add_op(c, s, "piece", &p->op) == WEFT_OK);
    uint64_t size = weft_dtype_size(p->r.dtype), part = p->r.count / p->r.ranks * size * k->me;
    uint64_t in = naive_in_count(&p->r, k->me) * size, out = naive_out_count(&p->r, k->me) * size;
    p->in = take(k, in);
    p->out = take(k, out);
    if (p->r.in_place && in && out) {
        p->out = in > out ? p->in + part : p->out;
        p->in = in > out ? p->in : p->out + (in < out ? part : 0);
    }
    p->scratch = take(k, comm_schedule_scratch(s));
}

static void start_piece(piece *p, int overlap)
{
    if (!p->takes_part)
        return;
    naive_fill(&p->r, p->r.me, p->in);
    must(comm_start(p->op, p->in, p->out, p->scratch, overlap) == WEFT_OK);
}

static void wait_piece(piece *p, int exact)
{
    if (!p->takes_part)
        return;
    must(comm_wait(p->op, PATIENCE) == WEFT_OK);
    must(comm_test(p->op) == WEFT_OK);
    must(naive_first_wrong(&p->r, p->r.me, p->out, exact, UINT64_MAX) == UINT64_MAX);
    uint64_t began, ended;
    comm_times(p->op, &began, &ended);
    must(began && ended >= began);
}

/* --- right results --- */

static void one_op(rank *k)
{
    piece p = {0};
    comm_channel *c = channel_of_all(k, k->link, "one");
    add_piece(k, c, k->test->request, &p);
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    for (uint32_t i = 0; i < 5; i++) {
        start_piece(&p, (int)(i & 1));
        for (uint32_t look = 0; p.takes_part && i == 2 && look < 20; look++)
            must(comm_test(p.op) <= WEFT_BUSY);
        wait_piece(&p, 0);
    }
    if (p.takes_part)
        must(comm_bytes_sent(k->w) == 5 * comm_schedule_sent(k->made[0]));
}

static void every_kind(void **state)
{
    (void)state;
    static const char *const names[] = {"auto",     "direct", "ring", "halving",
                                        "exchange", "mapped", "tree", "chain"};
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_I64};
    job_test *t = malloc(sizeof *t);
    uint32_t ran = 0;
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SEND; kind++)
        for (uint32_t n = 1; n <= 5; n++)
            for (uint32_t a = 0; a < 8; a++) {
                comm_request r = {.kind = kind,
                                  .redop = WEFT_SUM,
                                  .dtype = types[(n + a) % 3],
                                  .count = kind == WEFT_BARRIER ? 0 : 420 * (1 + a % 3),
                                  .ranks = n,
                                  .root = n - 1,
                                  .in_place = (a + n) & 1,
                                  .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP,
                                  .algorithm = names[a],
                                  .chunk = 256};
                comm_schedule *s;
                comm_request mine;
                naive_role(&r, n - 1, &mine);
                if (comm_schedule_make(&mine, &s) != WEFT_OK)
                    continue;
                comm_schedule_free(s);
                begin_test(t, n, r.link_caps, 0);
                t->hub.piece = a & 1 ? 300 : 7000;
                t->request = &r;
                run_ranks(t, one_op);
                ran++;
            }
    assert_true(ran > 150);
    free(t);
}

static void registered(void **state)
{
    (void)state;
    job_test *t = malloc(sizeof *t);
    comm_request r = {
        .kind = WEFT_ALL_REDUCE, .redop = WEFT_MAX, .dtype = WEFT_F16, .count = 5001, .ranks = 3};
    begin_test(t, 3, WEFT_LINK_HOST | WEFT_LINK_REGISTER, 0);
    t->request = &r;
    run_ranks(t, one_op);
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
        comm_request r = {.kind = i % 3 ? WEFT_ALL_REDUCE : WEFT_ALL_GATHER,
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

static void many_channels(void **state)
{
    (void)state;
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
        comm_request r = {.kind = WEFT_ALL_REDUCE,
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

static void two_links(void **state)
{
    (void)state;
    job_test *t = malloc(sizeof *t);
    begin_test(t, 2, WEFT_LINK_HOST, 0);
    run_ranks(t, crosswise);
    free(t);
}

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
    k->st = comm_wait(p.op, 0.3);
    snprintf(first, sizeof first, "%s", err_text());
    must(comm_wait(p.op, PATIENCE) == k->st && strcmp(first, err_text()) == 0);
    must(comm_test(p.op) == k->st && strcmp(first, err_text()) == 0);
    must(comm_start(p.op, p.in, p.out, p.scratch, 0) == k->st && strcmp(first, err_text()) == 0);
}

static const comm_request sum_of_three = {.kind = WEFT_ALL_REDUCE,
                                          .redop = WEFT_SUM,
                                          .dtype = WEFT_F32,
                                          .count = 30000,
                                          .ranks = 3,
                                          .algorithm = "direct"};

static void deadline_names_the_rank(void **state)
{
    (void)state;
    job_test *t = malloc(sizeof *t);
    begin_test(t, 3, WEFT_LINK_HOST, 0);
    t->request = &sum_of_three;
    t->seed = 1;
    run_ranks(t, failing_op);
    uint32_t named = 0;
    for (uint32_t i = 0; i < 3; i += 2) {
        assert_int_equal(t->rank[i].st, WEFT_PEER);
        assert_non_null(strstr(t->rank[i].said, "piece on channel dp.grads over loop"));
        named += strstr(t->rank[i].said, "not finished after 0.3 s; waits for rank 1") != NULL ||
                 strstr(t->rank[i].said, "rank 0, 1") || strstr(t->rank[i].said, "rank 1, 2");
    }
    assert_true(named >= 1); /* the later of the two may have met the earlier's abort instead */
    free(t);
}

static void broken_link(void **state)
{
    (void)state;
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

static void broken_link_unexplained(void **state)
{
    (void)state;
    job_test *t = malloc(sizeof *t);
    begin_test(t, 2, WEFT_LINK_HOST, 0);
    comm_request r = sum_of_three;
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

static void lying_peer(void **state)
{
    (void)state;
    job_test *t = malloc(sizeof *t);
    begin_test(t, 2, WEFT_LINK_HOST | WEFT_LINK_MAP, 0);
    comm_request r = sum_of_three;
    r.ranks = 2;
    r.algorithm = "mapped";
    r.link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP;
    t->request = &r;
    t->seed = 99;
    t->hub.lie = 1;
    run_ranks(t, failing_op);
    assert_true(t->rank[0].st == WEFT_DATA || t->rank[1].st == WEFT_DATA);
    free(t);
}

/* --- refusals --- */

static void misuse_body(rank *k)
{
    piece mapped = {0}, plain = {0}, in_place = {0};
    comm_channel *c = channel_of_all(k, k->link, "c");
    comm_request r = sum_of_three;
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

static void refusals(void **state)
{
    (void)state;
    job_test *t = malloc(sizeof *t);
    begin_test(t, 2, WEFT_LINK_HOST | WEFT_LINK_MAP, 0);
    run_ranks(t, misuse_body);
    free(t);
}

static void disagree(rank *k)
{
    comm_request r = sum_of_three;
    piece p = {0};
    comm_channel *c = channel_of_all(k, k->link, k->test->seed && k->me ? "other" : "c");
    r.ranks = 2;
    r.count += k->test->seed ? 0 : k->me;
    add_piece(k, c, &r, &p);
    k->st = comm_connect(k->w, &k->arena, 5);
}

static void ranks_disagree(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind),
        cmocka_unit_test(registered),
        cmocka_unit_test(many_channels),
        cmocka_unit_test(two_links),
        cmocka_unit_test(deadline_names_the_rank),
        cmocka_unit_test(broken_link),
        cmocka_unit_test(broken_link_unexplained),
        cmocka_unit_test(lying_peer),
        cmocka_unit_test(refusals),
        cmocka_unit_test(ranks_disagree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
