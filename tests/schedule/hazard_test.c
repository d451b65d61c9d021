/* tests/schedule/hazard_test.c: is any byte touched by two steps, one of them writing, without an
 * order between them that holds whatever the timing?
 *
 * Random runs find an error with luck; this finds it by what happens before what. Each step of each
 * rank has a beginning and an end. An end comes before the beginnings of the steps that wait for
 * it; a send's beginning comes before its receive's end (and nothing else between ranks, for a link
 * may buffer); a rank's first moment comes before all its beginnings and its last after all its
 * ends, and only between them may others touch its memory. */
#include "base/err.h"

#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "naive.h"
#include "schedule/algorithm.h"
#include "schedule/form.h"

#define LIMIT 8

typedef struct touch {
    uint32_t rank, buffer, step; /* whose memory; which step of all touches it */
    uint64_t at, end;
    int write;
} touch;

/* Nodes: 2 * step and 2 * step + 1 are a step's beginning and end; steps of all ranks are numbered
 * through; each rank has one step more, its first and last moment. */
typedef struct graph {
    sched_request r[LIMIT];
    sched_schedule *s[LIMIT];
    sched_program p[LIMIT];
    uint32_t first[LIMIT + 1], nodes, words, n;
    uint64_t *before; /* [nodes][words]: the nodes that come before */
    touch *touch;
    uint32_t touches;
} graph;

static void order(graph *g, uint32_t earlier, uint32_t later)
{
    g->before[(uint64_t)later * g->words + earlier / 64] |= 1ull << earlier % 64;
}

static int comes_before(const graph *g, uint32_t earlier, uint32_t later)
{
    return (int)(g->before[(uint64_t)later * g->words + earlier / 64] >> earlier % 64 & 1);
}

static void close_order(graph *g)
{
    for (uint32_t k = 0; k < g->nodes; k++)
        for (uint32_t i = 0; i < g->nodes; i++)
            if (comes_before(g, k, i))
                for (uint32_t w = 0; w < g->words; w++)
                    g->before[(uint64_t)i * g->words + w] |= g->before[(uint64_t)k * g->words + w];
}

static void order_rank(graph *g, uint32_t k)
{
    const sched_program *p = &g->p[k];
    uint32_t base = g->first[k], life = base + p->steps;
    for (uint32_t i = 0; i < p->steps; i++) {
        uint32_t step = base + i;
        order(g, 2 * step, 2 * step + 1);
        order(g, 2 * life, 2 * step);
        order(g, 2 * step + 1, 2 * life + 1);
        for (uint32_t e = 0; e < p->step[i].nexts; e++)
            order(g, 2 * step + 1, 2 * (base + p->next[p->step[i].next + e]));
    }
    for (uint32_t l = 0; l < p->lanes; l++)
        for (uint32_t i = 1; i < p->lane[l].sends; i++)
            order(g, 2 * (base + p->order[p->lane[l].send + i - 1]),
                  2 * (base + p->order[p->lane[l].send + i]));
}

static void order_messages(graph *g, uint32_t a, uint32_t b)
{
    const sched_lane *to = NULL, *from = NULL;
    for (uint32_t l = 0; l < g->p[a].lanes; l++)
        to = g->p[a].lane[l].peer == b ? &g->p[a].lane[l] : to;
    for (uint32_t l = 0; l < g->p[b].lanes; l++)
        from = g->p[b].lane[l].peer == a ? &g->p[b].lane[l] : from;
    uint32_t sends = to ? to->sends : 0, recvs = from ? from->recvs : 0;
    assert_int_equal(sends, recvs);
    for (uint32_t i = 0; i < sends; i++)
        order(g, 2 * (g->first[a] + g->p[a].order[to->send + i]),
              2 * (g->first[b] + g->p[b].order[from->recv + i]) + 1);
}

/* In place the smaller side lies in the larger: give both one name. */
static void note(graph *g, uint32_t k, uint32_t step, sched_place p, uint64_t bytes, int write)
{
    uint32_t owner = p.buffer >= SCHED_PEER_IN ? p.rank : k;
    uint32_t buffer = p.buffer == SCHED_PEER_IN    ? SCHED_IN
                      : p.buffer == SCHED_PEER_OUT ? SCHED_OUT
                                                   : p.buffer;
    const sched_request *r = &g->r[owner];
    uint64_t in = naive_in_count(r, owner), out = naive_out_count(r, owner);
    uint64_t part = owner * (r->count / r->ranks) * weft_dtype_size(r->dtype), at = p.at;
    if (r->in_place && in && out && buffer <= SCHED_OUT) {
        if ((in < out && buffer == SCHED_IN) || (out < in && buffer == SCHED_OUT))
            at += part;
        buffer = SCHED_OUT;
    }
    g->touch = realloc(g->touch, (g->touches + 1) * sizeof *g->touch);
    g->touch[g->touches++] = (touch){owner, buffer, g->first[k] + step, at, at + bytes, write};
}

static void note_steps(graph *g, uint32_t k)
{
    const sched_program *p = &g->p[k];
    for (uint32_t i = 0; i < p->steps; i++)
        for (uint32_t w = 0; w < p->step[i].nfrom + p->step[i].nto; w++)
            note(g, k, i, p->place[p->step[i].place + w],
                 sched_code_touched(&g->r[k], &p->step[i], w), w >= p->step[i].nfrom);
}

static void check_touches(const graph *g)
{
    for (uint32_t i = 0; i < g->touches; i++) {
        const touch *a = &g->touch[i];
        uint32_t life = g->first[a->rank + 1] - 1;
        assert_true(comes_before(g, 2 * life, 2 * a->step));
        assert_true(comes_before(g, 2 * a->step + 1, 2 * life + 1));
        for (uint32_t j = 0; j < i; j++) {
            const touch *b = &g->touch[j];
            if (a->rank != b->rank || a->buffer != b->buffer || a->step == b->step ||
                !(a->write | b->write) || a->end <= b->at || b->end <= a->at)
                continue;
            if (!comes_before(g, 2 * a->step + 1, 2 * b->step) &&
                !comes_before(g, 2 * b->step + 1, 2 * a->step))
                fail_msg("%s: steps %u and %u touch buffer %u of rank %u in no order",
                         g->s[0]->r.algorithm, a->step, b->step, a->buffer, a->rank);
        }
    }
}

static void check_case(sched_request all)
{
    graph g = {.n = all.ranks};
    for (uint32_t k = 0; k < g.n; k++) {
        assert_true(naive_role(&all, k, &g.r[k]));
        if (sched_make(&g.r[k], &g.s[k]) != WEFT_OK)
            fail_msg("%s", err_text());
        sched_program_make(g.s[k], &g.p[k]);
        g.first[k + 1] = g.first[k] + g.p[k].steps + 1;
    }
    g.nodes = 2 * g.first[g.n];
    g.words = (g.nodes + 63) / 64;
    g.before = calloc((uint64_t)g.nodes * g.words, 8);
    for (uint32_t k = 0; k < g.n; k++) {
        order_rank(&g, k);
        note_steps(&g, k);
        for (uint32_t q = 0; q < g.n; q++)
            if (q != k)
                order_messages(&g, k, q);
    }
    close_order(&g);
    check_touches(&g);
    for (uint32_t k = 0; k < g.n; k++) {
        sched_program_free(&g.p[k]);
        sched_free(g.s[k]);
    }
    free(g.before);
    free(g.touch);
}

static int possible(const sched_request *r)
{
    sched_schedule *s;
    if (sched_make(r, &s) != WEFT_OK)
        return 0;
    sched_free(s);
    return 1;
}

TEST(no_hazard)
{
    uint32_t ran = 0;
    for (uint32_t a = 0; sched_algorithms[a]; a++)
        for (uint32_t n = 2; n <= 7; n++)
            for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_ALL_TO_ALL; kind++)
                for (uint32_t m = 0; m < 4; m++) {
                    sched_request r = {.kind = kind,
                                       .redop = WEFT_SUM,
                                       .dtype = WEFT_F32,
                                       .count = (m & 2 ? 61 : 3) * n,
                                       .ranks = n,
                                       .root = n / 2,
                                       .in_place = m & 1,
                                       .algorithm = sched_algorithms[a]->name,
                                       .chunk = 64,
                                       .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP};
                    if (!possible(&r))
                        continue;
                    check_case(r);
                    ran++;
                }
    assert_true(ran > 300);
}

TEST(no_hazard_compressed)
{
    for (uint32_t n = 2; n <= 6; n++)
        for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_REDUCE_SCATTER; kind++)
            for (uint32_t m = 0; m < 8; m++)
                check_case((sched_request){.kind = kind,
                                           .redop = WEFT_SUM,
                                           .dtype = m & 4 ? WEFT_BF16 : WEFT_F32,
                                           .count = (m & 2 ? 161 : 3) * n,
                                           .ranks = n,
                                           .in_place = m & 1,
                                           .chunk = 128,
                                           .compress = SCHED_TO_INT8,
                                           .feedback = 1});
}

/* Two and three machines, of several ranks each, or of one. */
TEST(no_hazard_compressed_apart)
{
    static const uint32_t machine[2][6] = {{0, 0, 1, 1, 1, 0}, {0, 1, 1, 2, 0, 2}};
    static const uint32_t order[2][6] = {{0, 1, 2, 0, 1, 2}, {0, 0, 1, 1, 1, 0}};
    for (uint32_t n = 3; n <= 6; n++)
        for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_REDUCE_SCATTER; kind++)
            for (uint32_t m = 0; m < 8; m++) {
                sched_layout at = {n < 4 ? 2 : 2 + m % 2, machine[n < 4 ? 0 : m % 2], NULL, 0};
                at.order = n == 6 ? order[m % 2] : NULL;
                check_case((sched_request){.kind = kind,
                                           .redop = WEFT_SUM,
                                           .dtype = WEFT_F32,
                                           .count = (m & 2 ? 161 : 3) * n,
                                           .ranks = n,
                                           .in_place = m >> 2,
                                           .chunk = 128,
                                           .compress = SCHED_TO_INT8,
                                           .feedback = 1,
                                           .layout = &at});
            }
}

TEST(no_hazard_between_two)
{
    for (uint32_t m = 0; m < 2; m++)
        check_case((sched_request){.kind = WEFT_SEND,
                                   .dtype = WEFT_I64,
                                   .count = 100,
                                   .ranks = 2,
                                   .algorithm = m ? "mapped" : "pairwise",
                                   .chunk = 64,
                                   .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP});
}
