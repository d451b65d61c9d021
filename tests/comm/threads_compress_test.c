/* tests/comm/threads_compress_test.c: do compressed sums through the engine, round after round and
 * several at once, have the bits of plain loops, what is kept included, without taking memory? */
#include "base/err.h"

#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "coded.h"
#include "threads.h"

#define ROUNDS 4u
#define OPS 3u
#define COUNT 2310u

static const float times[ROUNDS] = {1, 1, 0, 2};

static sched_request request_of(uint32_t op, uint32_t n)
{
    return (sched_request){.kind = op == 1 ? WEFT_REDUCE_SCATTER : WEFT_ALL_REDUCE,
                           .redop = WEFT_SUM,
                           .dtype = op == 2 ? WEFT_BF16 : WEFT_F32,
                           .count = COUNT * (1 + op) / n * n,
                           .ranks = n,
                           .in_place = op == 0,
                           .chunk = 4096,
                           .compress = op == 2 ? SCHED_TO_BF16 : SCHED_TO_INT8,
                           .feedback = 1};
}

/* What all ranks put in and get, and keep, round by round: by plain loops, before they begin. */
typedef struct expected {
    char *out[ROUNDS][OPS];
} expected;

static void expect(expected *e, uint32_t n)
{
    for (uint32_t op = 0; op < OPS; op++) {
        sched_request r = request_of(op, n);
        float *residual[8];
        void *in[8];
        for (uint32_t i = 0; i < n; i++) {
            in[i] = calloc(r.count, 4);
            residual[i] = calloc(r.count, 4);
            naive_fill(&r, i, in[i]);
        }
        for (uint32_t k = 0; k < ROUNDS; k++) {
            e->out[k][op] = calloc(r.count, 4);
            coded_sum(&r, in, e->out[k][op], residual, times[k]);
        }
        for (uint32_t i = 0; i < n; i++) {
            free(in[i]);
            free(residual[i]);
        }
    }
}

static void forget(expected *e)
{
    for (uint32_t k = 0; k < ROUNDS; k++)
        for (uint32_t op = 0; op < OPS; op++)
            free(e->out[k][op]);
}

static expected want;

static void compare(const rank *k, const piece *p, uint32_t round, uint32_t op)
{
    uint64_t size = weft_dtype_size(p->r.dtype), n = naive_out_count(&p->r, k->me) * size;
    must(memcmp(p->out, want.out[round][op] + (op == 1 ? k->me * n : 0), n) == 0);
}

static void rounds(rank *k)
{
    piece p[OPS] = {0};
    float *residual[OPS], by = 0;
    for (uint32_t op = 0; op < OPS; op++) {
        sched_request r = request_of(op, k->test->n);
        char name[8] = {'c', (char)('0' + op), 0};
        add_piece(k, channel_of_all(k, op == 1 ? k->link2 : k->link, name), &r, &p[op]);
        residual[op] = calloc(r.count, 4);
        must(k->made[op]->residual > 0);
    }
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    must(comm_start(p[0].op, p[0].in, p[0].out, p[0].scratch, 0) == WEFT_USAGE); /* keeps where? */
    must(strstr(err_text(), "feedback"));
    for (uint32_t op = 0; op < OPS; op++)
        comm_set_residual(p[op].op, residual[op], &by);
    pthread_barrier_wait(&k->test->barrier);
    atomic_store(&armed, 1);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        by = times[round];
        for (uint32_t op = 0; op < OPS; op++)
            start_piece(&p[(op + round + k->me) % OPS], (int)(round & 1));
        for (uint32_t op = 0; op < OPS; op++)
            must(comm_wait(p[op].op, PATIENCE) == WEFT_OK);
        for (uint32_t op = 0; op < OPS; op++)
            compare(k, &p[op], round, op);
    }
    pthread_barrier_wait(&k->test->barrier);
    atomic_store(&armed, 0);
    for (uint32_t op = 0; op < OPS; op++)
        free(residual[op]);
}

TEST(through_the_engine)
{
    job_test *t = malloc(sizeof *t);
    for (uint32_t n = 2; n <= 5; n++) {
        expect(&want, n);
        begin_test(t, n, WEFT_LINK_HOST, 0);
        t->hub.piece = n & 1 ? 300 : 7000;
        run_ranks(t, rounds);
        forget(&want);
    }
    assert_int_equal(atomic_load(&allocations), 0);
    free(t);
}
