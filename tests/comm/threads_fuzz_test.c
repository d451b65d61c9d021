/* tests/comm/threads_fuzz_test.c: is the engine right whatever the link does? Operations drawn at
 * random, on several channels of two links that delay, move pieces, refuse posts, buffer or not,
 * say late what has finished, pause, and starve a rank; every other time with checksums. */
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "drawn.h"
#include "threads.h"

#define OPS 6

/* What all ranks do; the orders in which they start and wait are their own. */
static struct {
    drawn op[OPS];
    uint32_t channel[OPS], channels, limit;
} program;

static void draw_job(job_test *t, uint64_t seed)
{
    static const uint64_t caps[] = {WEFT_LINK_HOST, WEFT_LINK_HOST | WEFT_LINK_MAP,
                                    WEFT_LINK_HOST | WEFT_LINK_REGISTER};
    uint64_t random = seed * 0x9e3779b97f4a7c15u, can = caps[drawn_number(&random, 3)];
    uint32_t n = 2 + drawn_number(&random, LOOP_MAX_RANKS - 1);
    const bool checked = drawn_number(&random, 2);
    can &= checked ? ~(uint64_t)WEFT_LINK_MAP : UINT64_MAX;
    program.limit = drawn_number(&random, 3);
    program.channels = 1 + drawn_number(&random, 3);
    int at = snprintf(must_note, sizeof must_note,
                      "again with WEFT_COMM_SEED=%llu WEFT_COMM_RUNS=1: %u ranks, %u channels",
                      (unsigned long long)seed, n, program.channels);
    for (uint32_t i = 0; i < OPS; i++) {
        char text[256];
        drawn_request(&program.op[i], &random, n, can, 3000);
        program.channel[i] = drawn_number(&random, program.channels);
        if (at < (int)sizeof must_note)
            at += snprintf(must_note + at, sizeof must_note - (size_t)at, "\n  %s",
                           drawn_text(&program.op[i].r, text));
    }
    must_note[sizeof must_note - 2] = '\n';
    begin_test(t, n, can, program.limit);
    t->seed = seed;
    t->checked = checked ? UINT32_MAX : 0;
    loop_mischief(&t->hub, seed);
    loop_mischief(&t->hub2, seed + 1);
}

/* A permutation of the operations; those of one channel keep their order. */
static void own_order(uint64_t *random, uint32_t order[OPS])
{
    uint32_t n = 0, next[OPS] = {0};
    while (n < OPS) {
        uint32_t c = drawn_number(random, program.channels);
        for (; next[c] < OPS && program.channel[next[c]] != c; next[c]++)
            continue;
        if (next[c] < OPS)
            order[n++] = next[c]++;
    }
}

static void body(rank *k)
{
    piece p[OPS] = {0};
    comm_channel *c[3];
    uint64_t random = k->test->seed * 31 + k->me;
    for (uint32_t i = 0; i < program.channels; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%u", i);
        c[i] = channel_of_all(k, i & 1 ? k->link2 : k->link, name);
    }
    for (uint32_t i = 0; i < OPS; i++)
        add_piece(k, c[program.channel[i]], &program.op[i].r, &p[i]);
    must(comm_connect(k->w, &k->arena, PATIENCE) == WEFT_OK);
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t order[OPS], turn = drawn_number(&random, OPS);
        own_order(&random, order);
        for (uint32_t i = 0; i < OPS; i++)
            start_piece(&p[program.limit ? i : order[i]], (int)drawn_number(&random, 2));
        for (uint32_t i = 0; i < OPS; i++) {
            uint32_t which = program.limit ? i : (i * 5 + turn) % OPS;
            wait_piece(&p[which], p[which].takes_part && drawn_exact(&p[which].r));
        }
    }
}

TEST(whatever_the_link_does)
{
    job_test *t = malloc(sizeof *t);
    uint64_t runs = drawn_runs(60), first = drawn_seed();
    for (uint64_t seed = first; seed < first + runs; seed++) {
        draw_job(t, seed);
        run_ranks(t, body);
    }
    free(t);
}
