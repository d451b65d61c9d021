/* tests/comm/terms_test.c: do the formulas of each algorithm (comm_terms) say what its schedules
 * do? The steps of all ranks are made and walked: messages and bytes that each sends, bytes that it
 * reads to reduce, and the longest chain of messages of which each needs what the one before
 * brings. */
#include "base/err.h" /* before cmocka, whose fail() is a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "comm/schedule.h"
#include "naive.h"

#define MOST 17

typedef struct group {
    uint32_t n;
    int takes_part[MOST];
    comm_request r[MOST];
    comm_schedule *s[MOST];
    comm_program p[MOST];
    uint32_t *when[MOST];    /* [steps] messages on the longest chain up to the end of each */
    uint32_t at[MOST][MOST]; /* messages from rank to rank that have been matched */
} group;

static int make(group *g, const comm_request *all)
{
    memset(g, 0, sizeof *g);
    g->n = all->ranks;
    for (uint32_t i = 0; i < g->n; i++) {
        g->takes_part[i] = naive_role(all, i, &g->r[i]);
        if (!g->takes_part[i])
            continue;
        if (comm_schedule_make(&g->r[i], &g->s[i]) != WEFT_OK) {
            assert_true(i == 0 || all->kind == WEFT_SEND);
            return 0;
        }
        comm_program_make(g->s[i], &g->p[i]);
        g->when[i] = calloc(g->p[i].steps + 1, sizeof *g->when[i]);
    }
    return 1;
}

static void drop(group *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->s[i]) {
            comm_program_free(&g->p[i]);
            comm_schedule_free(g->s[i]);
            free(g->when[i]);
        }
}

static void raise_to(uint32_t *to, uint32_t value, int *changed)
{
    if (value > *to) {
        *to = value;
        *changed = 1;
    }
}

static const comm_lane *lane_to(const comm_program *p, uint32_t peer)
{
    for (uint32_t l = 0; l < p->lanes; l++)
        if (p->lane[l].peer == peer)
            return &p->lane[l];
    return NULL;
}

/* One pass over a rank's steps: what needs a step is no earlier, and a message arrives one later.
 * (That the messages of a lane are posted in order is left out: while there is room, each chunk of
 * a long message is under way before the one before it has arrived.) */
static void walk(group *g, uint32_t k, int *changed)
{
    const comm_program *p = &g->p[k];
    for (uint32_t i = 0; i < p->steps; i++)
        for (uint32_t e = 0; e < p->step[i].nexts; e++)
            raise_to(&g->when[k][p->next[p->step[i].next + e]], g->when[k][i], changed);
    for (uint32_t l = 0; l < p->lanes; l++) {
        const comm_lane *lane = &p->lane[l], *back = lane_to(&g->p[lane->peer], k);
        assert_non_null(back);
        assert_int_equal(back->recvs, lane->sends);
        for (uint32_t i = 0; i < lane->sends; i++) {
            uint32_t step = p->order[lane->send + i];
            uint32_t theirs = g->p[lane->peer].order[back->recv + i];
            raise_to(&g->when[lane->peer][theirs], g->when[k][step] + 1, changed);
        }
    }
}

static uint32_t longest_chain(group *g)
{
    uint32_t longest = 0;
    for (int changed = 1; changed;) {
        changed = 0;
        for (uint32_t k = 0; k < g->n; k++)
            if (g->s[k])
                walk(g, k, &changed);
    }
    for (uint32_t k = 0; k < g->n; k++)
        for (uint32_t i = 0; g->s[k] && i < g->p[k].steps; i++)
            longest = g->when[k][i] > longest ? g->when[k][i] : longest;
    return longest;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* What the steps say: messages, near and far, of each; bytes far of each machine together. */
static void count(const group *g, const comm_layout *at, comm_terms *out)
{
    double machine[MOST] = {0};
    *out = (comm_terms){0};
    for (uint32_t k = 0; k < g->n; k++) {
        comm_way near = {0}, far = {0};
        double reduced = 0;
        for (uint32_t i = 0; g->s[k] && i < g->p[k].steps; i++) {
            const comm_step *s = &g->p[k].step[i];
            if (s->what == COMM_REDUCE)
                reduced += (double)s->bytes * s->nfrom;
            if (s->what != COMM_SEND)
                continue;
            int crosses = at && at->machine[k] != at->machine[s->peer];
            comm_way *w = crosses ? &far : &near;
            w->messages++;
            if (s->bytes && g->p[k].place[s->place].buffer != COMM_PLACES)
                w->bytes += (double)s->bytes;
        }
        if (g->s[k] && !at) { /* with what is stored and lent */
            assert_int_equal(near.messages, comm_schedule_messages(g->s[k]));
            assert_true(near.bytes <= (double)comm_schedule_sent(g->s[k]));
            near.bytes = (double)comm_schedule_sent(g->s[k]);
        }
        if (at)
            machine[at->machine[k]] += far.bytes;
        out->near.messages = most(out->near.messages, near.messages);
        out->near.bytes = most(out->near.bytes, near.bytes);
        out->far.messages = most(out->far.messages, far.messages);
        out->reduced = most(out->reduced, reduced);
    }
    for (uint32_t m = 0; m < MOST; m++)
        out->far.bytes = most(out->far.bytes, machine[m]);
}

static void expect(const comm_request *r, const char *what, double formula, double steps)
{
    if (formula != steps)
        fail_msg("%s by %s, %u ranks, count %llu, root %u, chunk %llu%s: %s: formula %g, steps %g",
                 comm_kind_name(r->kind), r->algorithm, r->ranks, (unsigned long long)r->count,
                 r->root, (unsigned long long)r->chunk, r->layout ? ", several machines" : "", what,
                 formula, steps);
}

/* False: the algorithm has no such collective. */
static int check(const comm_algorithm *a, comm_request r)
{
    group g;
    comm_terms want, got;
    r.algorithm = a->name;
    if (!a->terms || !comm_able(a, &r) || !make(&g, &r))
        return 0;
    r.me = r.kind == WEFT_SEND ? (r.root + 1) % r.ranks : 0;
    a->terms(&r, &got);
    count(&g, r.layout, &want);
    expect(&r, "messages", got.near.messages, want.near.messages);
    expect(&r, "bytes", got.near.bytes, want.near.bytes);
    expect(&r, "messages between machines", got.far.messages, want.far.messages);
    expect(&r, "bytes between machines", got.far.bytes, want.far.bytes);
    expect(&r, "bytes reduced", got.reduced, want.reduced);
    double rounds = got.near.rounds + got.far.rounds, chain = longest_chain(&g);
    if (rounds < chain || (r.count >= r.ranks && rounds > chain)) /* no part is empty */
        expect(&r, "latencies", rounds, chain);
    drop(&g);
    return 1;
}

static const uint64_t counts[] = {0, 1, 3, 16, 61, 1000, 4099, 30011};

static comm_request request(uint32_t kind, uint32_t n, uint32_t c)
{
    int parts = kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER ||
                (kind >= WEFT_GATHER && kind <= WEFT_ALL_TO_ALL);
    uint64_t one = kind == WEFT_BARRIER ? 0 : counts[c];
    return (comm_request){.kind = kind,
                          .redop = WEFT_SUM,
                          .dtype = c & 1 ? WEFT_F32 : WEFT_BF16,
                          .count = one * (parts ? n : 1),
                          .ranks = n,
                          .root = kind == WEFT_SHIFT ? 1 % n : n * c / 8,
                          .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP,
                          .chunk = c % 3 == 2 ? 0 : 256};
}

static void on_one_machine(void **state)
{
    (void)state;
    for (uint32_t i = 0; comm_algorithms[i]; i++) {
        uint32_t ran = 0;
        for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SHIFT; kind++)
            for (uint32_t n = 2; n <= MOST && kind != WEFT_RECV; n++)
                for (uint32_t c = 0; c < 8; c++)
                    ran += (uint32_t)check(comm_algorithms[i], request(kind, n, c));
        print_message("%s: %u requests\n", comm_algorithms[i]->name, ran);
        assert_true(ran >= 100 || !comm_algorithms[i]->terms);
    }
}

/* Machines of equal and unequal size, full and in turns. */
static void on_several_machines(void **state)
{
    (void)state;
    uint32_t machine[MOST], order[MOST], ran = 0;
    comm_layout at = {0, machine, order, WEFT_LINK_HOST};
    for (uint32_t form = 0; form < 4; form++)
        for (uint32_t n = 2; n <= MOST; n += 1 + n / 5) {
            uint32_t size = form ? (n + form) / 2 : 1, machines = (n + size - 1) / size;
            at.machines = form == 3 ? 2 : machines;
            for (uint32_t i = 0; i < n; i++) {
                machine[i] = form == 3 ? i % 2 : i / size;
                order[i] = form == 3 ? i / 2 : i % size;
            }
            for (uint32_t i = 0; comm_algorithms[i]; i++)
                for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SHIFT; kind++)
                    for (uint32_t c = 1; c < 8 && kind != WEFT_RECV; c += 2) {
                        comm_request r = request(kind, n, c);
                        r.layout = at.machines > 1 ? &at : NULL;
                        r.link_caps = WEFT_LINK_HOST;
                        ran += (uint32_t)check(comm_algorithms[i], r);
                    }
        }
    assert_true(ran > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_machine),
        cmocka_unit_test(on_several_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
