/* tests/schedule/terms_test.c: do the formulas of each algorithm (sched_terms) say what its
 * schedules do? The steps of all ranks are made and walked: messages and bytes that each sends,
 * bytes that it reads to reduce, and the longest chain of messages of which each needs what the one
 * before brings. */
#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "naive.h"
#include "schedule/algorithm.h"

#define LIMIT 17
#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct group {
    uint32_t n;
    int takes_part[LIMIT];
    sched_request r[LIMIT];
    sched_schedule *s[LIMIT];
    sched_program p[LIMIT];
    uint32_t *when[LIMIT];  /* [steps] messages on the longest chain up to the end of each */
    uint32_t *need[LIMIT];  /* [steps] 1 + how many it waits for */
    uint32_t *meets[LIMIT]; /* [steps] of a send: its receive */
    uint32_t ready;
} group;

static int make(group *g, const sched_request *all)
{
    memset(g, 0, sizeof *g);
    g->n = all->ranks;
    for (uint32_t i = 0; i < g->n; i++) {
        g->takes_part[i] = naive_role(all, i, &g->r[i]);
        if (!g->takes_part[i])
            continue;
        if (sched_make(&g->r[i], &g->s[i]) != WEFT_OK) {
            assert_true(i == 0 || all->kind == WEFT_SEND);
            return 0;
        }
        sched_program_make(g->s[i], &g->p[i]);
        uint32_t steps = g->p[i].steps;
        g->when[i] = calloc(steps + 1, sizeof *g->when[i]);
        g->need[i] = calloc(steps + 1, sizeof *g->need[i]);
        g->meets[i] = calloc(steps + 1, sizeof *g->meets[i]);
        for (uint32_t k = 0; k < steps; k++)
            g->need[i][k] = 1 + g->p[i].step[k].need;
    }
    return 1;
}

static void drop(group *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->s[i]) {
            sched_program_free(&g->p[i]);
            sched_free(g->s[i]);
            free(g->when[i]);
            free(g->need[i]);
            free(g->meets[i]);
        }
}

static const sched_lane *lane_to(const sched_program *p, uint32_t peer)
{
    for (uint32_t l = 0; l < p->lanes; l++)
        if (p->lane[l].peer == peer)
            return &p->lane[l];
    return NULL;
}

/* Each send knows its receive, which waits for one thing more. (That the messages of a lane are
 * posted in order is left out: while there is room, each chunk of a long message is under way
 * before the one before it has arrived.) */
static void match(group *g, uint32_t k)
{
    const sched_program *p = &g->p[k];
    for (uint32_t l = 0; l < p->lanes; l++) {
        const sched_lane *lane = &p->lane[l], *back = lane_to(&g->p[lane->peer], k);
        assert_non_null(back);
        assert_int_equal(back->recvs, lane->sends);
        for (uint32_t i = 0; i < lane->sends; i++) {
            uint32_t theirs = g->p[lane->peer].order[back->recv + i];
            g->meets[k][p->order[lane->send + i]] = theirs;
            g->need[lane->peer][theirs]++;
        }
    }
}

static void release(group *g, uint32_t k, uint32_t step, uint32_t when, uint32_t *ready)
{
    if (when > g->when[k][step])
        g->when[k][step] = when;
    if (--g->need[k][step] == 0) {
        ready[2 * g->ready] = k;
        ready[2 * g->ready++ + 1] = step;
    }
}

/* Steps in an order in which each comes after all that it waits for. */
static uint32_t longest_chain(group *g)
{
    uint32_t longest = 0, all = 0;
    for (uint32_t k = 0; k < g->n; k++)
        all += g->p[k].steps;
    uint32_t *ready = malloc((all + 1) * 2 * sizeof *ready);
    for (uint32_t k = 0; k < g->n; k++)
        match(g, k);
    for (uint32_t k = 0; k < g->n; k++)
        for (uint32_t i = 0; i < g->p[k].steps; i++)
            release(g, k, i, 0, ready);
    for (uint32_t at = 0; at < g->ready; at++) {
        uint32_t k = ready[2 * at], i = ready[2 * at + 1], when = g->when[k][i];
        const sched_step *s = &g->p[k].step[i];
        longest = when > longest ? when : longest;
        for (uint32_t e = 0; e < s->nexts; e++)
            release(g, k, g->p[k].next[s->next + e], when, ready);
        if (s->what == SCHED_SEND)
            release(g, s->peer, g->meets[k][i], when + 1, ready);
    }
    assert_int_equal(g->ready, all);
    free(ready);
    return longest;
}

static double max(double a, double b)
{
    return a > b ? a : b;
}

/* What the steps say: messages, near and far, of each; bytes far of each machine together. */
static void count(const group *g, const sched_layout *at, sched_terms *out)
{
    double machine[LIMIT] = {0};
    *out = (sched_terms){0};
    for (uint32_t k = 0; k < g->n; k++) {
        sched_way near = {0}, far = {0};
        double reduced = 0;
        for (uint32_t i = 0; g->s[k] && i < g->p[k].steps; i++) {
            const sched_step *s = &g->p[k].step[i];
            if (s->what == SCHED_REDUCE)
                reduced += (double)s->bytes * s->nfrom;
            if (s->what != SCHED_SEND)
                continue;
            int crosses = at && at->machine[k] != at->machine[s->peer];
            sched_way *w = crosses ? &far : &near;
            w->messages++;
            if (s->bytes && g->p[k].place[s->place].buffer != SCHED_OFFSETS)
                w->bytes += (double)s->bytes;
        }
        if (g->s[k] && !at) { /* with what is stored and lent */
            assert_true(near.bytes <= (double)g->s[k]->sent);
            near.bytes = (double)g->s[k]->sent;
        }
        if (at)
            machine[at->machine[k]] += far.bytes;
        out->intra.messages = max(out->intra.messages, near.messages);
        out->intra.bytes = max(out->intra.bytes, near.bytes);
        out->inter.messages = max(out->inter.messages, far.messages);
        out->reduced = max(out->reduced, reduced);
    }
    for (uint32_t m = 0; m < LIMIT; m++)
        out->inter.bytes = max(out->inter.bytes, machine[m]);
}

static void expect(const sched_request *r, const char *what, double formula, double steps)
{
    if (formula != steps)
        fail_msg("%s by %s, %u ranks, count %llu, root %u, chunk %llu%s: %s: formula %g, steps %g",
                 sched_kind_name(r->kind), r->algorithm, r->ranks, (unsigned long long)r->count,
                 r->root, (unsigned long long)r->chunk, r->layout ? ", several machines" : "", what,
                 formula, steps);
}

/* False: the algorithm has no such collective. */
static int check(const sched_algorithm *a, sched_request r)
{
    group g;
    sched_terms want, got;
    r.algorithm = a->name;
    if (!a->terms || !sched_able(a, &r) || !make(&g, &r))
        return 0;
    r.me = r.kind == WEFT_SEND ? (r.root + 1) % r.ranks : 0;
    sched_terms_of(a, &r, &got);
    count(&g, r.layout, &want);
    expect(&r, "messages", got.intra.messages, want.intra.messages);
    expect(&r, "bytes", got.intra.bytes, want.intra.bytes);
    expect(&r, "messages between machines", got.inter.messages, want.inter.messages);
    expect(&r, "bytes between machines", got.inter.bytes, want.inter.bytes);
    expect(&r, "bytes reduced", got.reduced, want.reduced);
    double rounds = got.intra.rounds + got.inter.rounds, chain = longest_chain(&g);
    if (rounds < chain || (r.count >= r.ranks && rounds > chain)) /* no part is empty */
        expect(&r, "latencies", rounds, chain);
    drop(&g);
    return 1;
}

static const uint64_t counts[] = {0, 1, 3, 16, 61, 1000, 4099, 9001};

static sched_request request(uint32_t kind, uint32_t n, uint32_t c)
{
    int parts = kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER ||
                (kind >= WEFT_GATHER && kind <= WEFT_ALL_TO_ALL);
    uint64_t one = kind == WEFT_BARRIER ? 0 : counts[c];
    return (sched_request){.kind = kind,
                           .redop = WEFT_SUM,
                           .dtype = c & 1 ? WEFT_F32 : WEFT_BF16,
                           .count = one * (parts ? n : 1),
                           .ranks = n,
                           .root = kind == WEFT_SHIFT ? 1 % n : n * c / 8,
                           .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP,
                           .chunk = c % 3 == 2 ? 0 : 256};
}

TEST(on_one_machine)
{
    for (uint32_t i = 0; sched_algorithms[i]; i++) {
        uint32_t ran = 0;
        for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SHIFT; kind++)
            for (uint32_t n = 2; n <= LIMIT && kind != WEFT_RECV; n++)
                for (uint32_t c = n > 5 ? n % 3 : 0; c<8; c += n> 5 ? 3 : 1)
                    ran += (uint32_t)check(sched_algorithms[i], request(kind, n, c));
        print_message("%s: %u requests\n", sched_algorithms[i]->name, ran);
        assert_true(ran >= 60 || !sched_algorithms[i]->terms);
    }
}

/* Machines of equal and unequal size, full and in turns. */
TEST(on_several_machines)
{
    uint32_t machine[LIMIT], order[LIMIT], ran = 0;
    sched_layout at = {0, machine, order, WEFT_LINK_HOST};
    for (uint32_t form = 0; form < 4; form++)
        for (uint32_t n = 2; n <= LIMIT; n += 1 + n / 5) {
            uint32_t size = form ? (n + form) / 2 : 1, machines = (n + size - 1) / size;
            at.machines = form == 3 ? 2 : machines;
            for (uint32_t i = 0; i < n; i++) {
                machine[i] = form == 3 ? i % 2 : i / size;
                order[i] = form == 3 ? i / 2 : i % size;
            }
            for (uint32_t i = 0; sched_algorithms[i]; i++)
                for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SHIFT; kind++)
                    for (uint32_t c = 1 + n % 2; c < 8 && kind != WEFT_RECV; c += 3) {
                        sched_request r = request(kind, n, c);
                        r.layout = at.machines > 1 ? &at : NULL;
                        r.link_caps = WEFT_LINK_HOST;
                        ran += (uint32_t)check(sched_algorithms[i], r);
                    }
        }
    assert_true(ran > 800);
}

/* --- the formulas as they stand in the top comments, for sizes that divide evenly --- */

static double none(double n)
{
    return 0 * n;
}

static double one(double n)
{
    return none(n) + 1;
}

static double two(double n)
{
    return none(n) + 2;
}

static double four(double n)
{
    return none(n) + 4;
}

static double others(double n)
{
    return n - 1;
}

static double others_twice(double n)
{
    return 2 * (n - 1);
}

static double part(double n)
{
    return 1 / n;
}

static double rest(double n)
{
    return (n - 1) / n;
}

static double rest_twice(double n)
{
    return 2 * rest(n);
}

static double log_down(double n)
{
    return floor(log2(n));
}

static double log_up(double n)
{
    return ceil(log2(n));
}

static double log_twice(double n)
{
    return 2 * log_up(n);
}

static double log_half(double n)
{
    return log_up(n) / 2;
}

typedef double (*formula)(double n);

/* Of n ranks and S bytes: latencies; messages; bytes, and bytes reduced, of S. */
static const struct claim {
    const char *name;
    uint32_t kind, powers; /* powers of two only */
    formula latencies, messages, bytes, reduced;
} claims[] = {
    {"ring", WEFT_ALL_REDUCE, 0, others_twice, others_twice, rest_twice, rest_twice},
    {"ring", WEFT_REDUCE_SCATTER, 0, others, others, rest, rest_twice},
    {"ring", WEFT_ALL_GATHER, 0, others, others, rest, none},
    {"halving", WEFT_ALL_REDUCE, 1, log_twice, log_twice, rest_twice, rest_twice},
    {"halving", WEFT_REDUCE_SCATTER, 1, log_up, log_up, rest, rest_twice},
    {"halving", WEFT_ALL_GATHER, 1, log_up, log_up, rest, none},
    {"pairwise", WEFT_ALL_REDUCE, 0, two, others_twice, rest_twice, one},
    {"pairwise", WEFT_REDUCE_SCATTER, 0, one, others, rest, one},
    {"pairwise", WEFT_ALL_GATHER, 0, one, others, rest, none},
    {"pairwise", WEFT_ALL_TO_ALL, 0, one, others, rest, none},
    {"pairwise", WEFT_GATHER, 0, one, one, part, none},
    {"pairwise", WEFT_SCATTER, 0, one, others, rest, none},
    {"pairwise", WEFT_SHIFT, 0, one, one, one, none},
    {"one_shot", WEFT_ALL_REDUCE, 0, one, others, others, NULL},
    {"one_shot", WEFT_REDUCE, 0, one, one, one, NULL},
    {"mapped", WEFT_ALL_REDUCE, 0, two, others_twice, rest_twice, one},
    {"mapped", WEFT_REDUCE_SCATTER, 0, two, others_twice, rest, one},
    {"mapped", WEFT_ALL_GATHER, 0, two, others_twice, rest, none},
    {"mapped", WEFT_BROADCAST, 0, two, others, others, none},
    {"tree", WEFT_BROADCAST, 0, log_down, log_up, log_up, none},
    {"tree", WEFT_REDUCE, 0, log_down, one, one, log_twice},
    {"tree", WEFT_SCATTER, 0, log_down, log_up, rest, none},
    {"chain", WEFT_BROADCAST, 0, others, one, one, none},
    {"dissemination", WEFT_BARRIER, 0, log_up, log_up, none, none},
    {"doubling", WEFT_ALL_REDUCE, 1, log_up, log_up, log_up, log_twice},
    {"double_tree", WEFT_ALL_REDUCE, 0, log_twice, four, two, two},
    {"double_tree", WEFT_BROADCAST, 0, log_up, two, one, none},
    {"double_tree", WEFT_REDUCE, 0, log_up, two, one, two},
    {"bruck", WEFT_ALL_GATHER, 1, log_up, log_up, rest, none},
    {"bruck", WEFT_ALL_TO_ALL, 1, log_up, log_up, log_half, none},
};

static void hold(const struct claim *c, uint32_t n, const char *what, double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("%s by %s, %u ranks: %s: %g, but its comment says %g", sched_kind_name(c->kind),
                 c->name, n, what, got, want);
}

static void check_claim(const struct claim *c, uint32_t n)
{
    const sched_algorithm *a = NULL;
    for (uint32_t i = 0; sched_algorithms[i]; i++)
        a = strcmp(sched_algorithms[i]->name, c->name) ? a : sched_algorithms[i];
    assert_non_null(a);
    sched_request r = {.kind = c->kind,
                       .redop = WEFT_SUM,
                       .dtype = WEFT_F32,
                       .count = c->kind == WEFT_BARRIER ? 0 : 720720 * 1024ull,
                       .ranks = n,
                       .root = c->kind == WEFT_SHIFT,
                       .link_caps = WEFT_LINK_HOST | WEFT_LINK_MAP,
                       .chunk = 1ull << 40,
                       .algorithm = c->name};
    double bytes = 4.0 * (double)r.count;
    sched_terms t;
    sched_terms_of(a, &r, &t);
    hold(c, n, "latencies", t.intra.rounds, c->latencies(n));
    hold(c, n, "messages", t.intra.messages, c->messages(n));
    hold(c, n, "bytes", t.intra.bytes, c->bytes(n) * bytes);
    hold(c, n, "bytes reduced", t.reduced, (c->reduced ? c->reduced(n) : n) * bytes);
}

TEST(as_commented)
{
    for (uint32_t i = 0; i < COUNT(claims); i++)
        for (uint32_t n = 4; n <= 16; n++)
            if (!claims[i].powers || (n & (n - 1)) == 0)
                check_claim(&claims[i], n);
}

static const char *help_of(const char *section, const char *key)
{
    for (const config_section *s = config_core_sections(); s->name; s++)
        for (uint32_t i = 0; !strcmp(s->name, section) && s->options[i]; i++)
            if (!strcmp(s->options[i]->key, key))
                return s->options[i]->help;
    return NULL;
}

/* Every algorithm that a job can name is in `claims` and in the help of comm.algorithm. An
 * algorithm without one formula for a size (hierarchical) has no claim. */
TEST(every_algorithm_is_documented)
{
    const char *help = help_of("comm", "algorithm");
    assert_non_null(help);
    for (uint32_t i = 0; sched_algorithms[i]; i++) {
        const char *name = sched_algorithms[i]->name, *in = help;
        const size_t length = strlen(name);
        uint32_t claim = 0;
        while ((in = strstr(in, name)) && (in[-1] != ' ' || !strchr(",;", in[length])))
            in += length;
        if (!in)
            fail_msg("the help of comm.algorithm (config/options.c) does not list %s", name);
        while (claim < COUNT(claims) && strcmp(claims[claim].name, name))
            claim++;
        if (claim == COUNT(claims) && sched_algorithms[i] != &sched_hierarchical)
            fail_msg("`claims` has no row for %s", name);
    }
}
