/* Hand-written lists of two ranks: those that would hang are errors that name the place. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "plan/plan.h"

#include <test.h>

/* Two ranks, two channels over one transport, a collective on each. */
typedef struct hand {
    spec spec;
    plan plan;
    plan_set set;
    weft_link_table link;
    host_component wire;
    plan_channel channels[2];
    plan_collective collectives[2];
    plan_entry entries[8];
} hand;

static void begin(hand *h, uint32_t at_once)
{
    memset(h, 0, sizeof *h);
    h->link = (weft_link_table){.struct_size = sizeof h->link, .channels = at_once};
    h->wire = (host_component){.name = "wire", .table = &h->link};
    h->spec.ranks = 2;
    h->spec.mesh = (graph_mesh){1, {"row"}, {2}};
    h->spec.links[0].c = &h->wire;
    h->channels[0] = (plan_channel){.name = "row.left"};
    h->channels[1] = (plan_channel){.name = "row.right"};
    for (uint32_t i = 0; i < 2; i++)
        h->collectives[i] = (plan_collective){.name = i ? "right" : "left",
                                              .channel = i,
                                              .kind = WEFT_ALL_REDUCE,
                                              .redop = WEFT_SUM,
                                              .dtype = WEFT_F32,
                                              .count = 10};
    h->plan = (plan){.spec = &h->spec, .step.name = "step", .eval.name = "eval"};
    h->plan.channels.at = h->channels;
    h->plan.collectives.at = h->collectives;
    h->plan.channels.n = h->plan.collectives.n = 2;
    h->plan.step.entries.at = h->entries;
}

/* "S0 W0": start and wait for collectives, one after another. */
static weft_status check(hand *h, const char *words)
{
    uint32_t *n = &h->plan.step.entries.n;
    for (*n = 0; *words; words += words[2] ? 3 : 2, ++*n) {
        uint32_t what = (uint32_t)(words[1] - '0');
        h->entries[*n] = (plan_entry){.kind = words[0] == 'S' ? ENTRY_START : ENTRY_WAIT,
                                      .what = what,
                                      .name = h->collectives[what].name};
    }
    h->set = (plan_set){.spec = &h->spec, .stage_axis = -1, .n = 1, .at = &h->plan};
    return plan_check(&h->set);
}

TEST(lawful)
{
    static const char *const lists[] = {"S0 W0",       "S0 W0 S1 W1", "S0 S1 W0 W1",
                                        "S0 S1 W1 W0", "S0 S1 W1",    "S0 S0 W0"};
    hand h;
    for (uint32_t at_once = 0; at_once < 3; at_once++)
        for (uint32_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            begin(&h, at_once);
            if (check(&h, lists[i]) != WEFT_OK)
                fail_msg("'%s' with %u channels at once: %s", lists[i], at_once, err_text());
        }
}

TEST(hanging)
{
    static const char *const lists[] = {"W0", "W0 S0", "S1 W0", "S0 W1 S1"};
    hand h;
    for (uint32_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        begin(&h, 0);
        if (check(&h, lists[i]) != WEFT_USAGE)
            fail_msg("'%s' was let through", lists[i]);
        assert_non_null(strstr(err_text(), "list step would hang"));
        assert_non_null(strstr(err_text(), "rank 0 is at entry "));
        assert_non_null(strstr(err_text(), "and so is the 1 other with the same list"));
    }
}

/* Two groups over the same ranks, started in opposite order: each group's own order is valid. */
TEST(opposite_orders)
{
    hand h;
    begin(&h, 0);
    plan two[2];
    plan_entry entries[2][4];
    for (uint32_t r = 0; r < 2; r++) {
        two[r] = h.plan;
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t what = i < 2 ? r : 1 - r;
            entries[r][i] = (plan_entry){.kind = i % 2 ? ENTRY_WAIT : ENTRY_START,
                                         .what = what,
                                         .name = h.collectives[what].name};
        }
        two[r].step.entries.at = entries[r];
        two[r].step.entries.n = 4;
    }
    plan_set set = {.spec = &h.spec, .n = 2, .at = two};
    assert_int_equal(plan_check(&set), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "rank 0 is at entry 1, left; rank 1 is at entry 1, "
                                       "right"));
}

/* Periodic lists of stages: the same ones, in the same steps. */
TEST(periods)
{
    hand h;
    begin(&h, 0);
    plan two[2] = {h.plan, h.plan};
    plan_periodic_list lists[2] = {{.l.name = "a", .every = 10}, {.l.name = "a", .every = 10}};
    for (uint32_t i = 0; i < 2; i++) {
        two[i].extra.at = &lists[i];
        two[i].extra.n = 1;
    }
    plan_set set = {.spec = &h.spec, .n = 2, .at = two};
    assert_int_equal(plan_check(&set), WEFT_OK);
    lists[1].every = 20;
    assert_int_equal(plan_check(&set), WEFT_USAGE);
    lists[1] = (plan_periodic_list){.l.name = "b", .every = 10};
    assert_int_equal(plan_check(&set), WEFT_USAGE);
    two[1].extra.n = 0;
    assert_int_equal(plan_check(&set), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "different periodic lists"));
}

/* --- the referee: every rank by itself --- */

#define STAGES 3u
#define RANKS 6u /* rank = 2 * stage + column */
#define CHANNELS 4u
#define OPS 4u /* of a channel */
#define WORDS 10u

typedef struct drawn {
    hand h;
    plan plans[STAGES];
    plan_channel channels[CHANNELS];
    plan_collective collectives[STAGES][CHANNELS * OPS];
    plan_entry entries[STAGES][WORDS];
} drawn;

static const uint32_t pair[] = {0, 2};

/* The members of the rank's group on a channel; none: it is alone. */
static uint32_t members_of(const plan_channel *c, uint32_t rank, uint32_t out[RANKS])
{
    uint32_t n = 0;
    bool has = false;
    for (uint32_t r = 0; r < RANKS; r++) {
        const bool along = c->mesh_axis ? r / 2 == rank / 2 : r % 2 == rank % 2;
        const uint32_t coord = c->mesh_axis ? r % 2 : r / 2;
        bool in = along && !c->coords;
        for (uint32_t i = 0; along && i < c->ncoords; i++)
            in |= c->coords[i] == coord;
        has |= in && r == rank;
        if (in)
            out[n++] = r;
    }
    out[0] = has ? out[0] : rank;
    return has ? n : 1;
}

typedef struct state {
    uint32_t at[RANKS], started[RANKS][CHANNELS];
    const plan_collective *op[RANKS][CHANNELS][WORDS];
} state;

static uint32_t done_of(const drawn *d, const state *s, uint32_t rank, uint32_t channel)
{
    uint32_t members[RANKS], done = UINT32_MAX;
    const uint32_t n = members_of(&d->channels[channel], rank, members);
    for (uint32_t i = 0; i < n; i++)
        done = s->started[members[i]][channel] < done ? s->started[members[i]][channel] : done;
    return done;
}

static bool match(const plan_collective *a, const plan_collective *b)
{
    if (a->kind == WEFT_SEND || a->kind == WEFT_RECV)
        return a->kind + b->kind == WEFT_SEND + WEFT_RECV && a->root != b->root &&
               a->count == b->count && a->tag == b->tag;
    return a->kind == b->kind && a->count == b->count;
}

/* Can the rank take its next entry? Takes it. */
static bool step(const drawn *d, state *s, uint32_t rank, bool *wrong)
{
    const plan *p = &d->plans[rank / 2];
    if (s->at[rank] == p->step.entries.n)
        return false;
    const plan_entry *e = &p->step.entries.at[s->at[rank]];
    const plan_collective *c = &p->collectives.at[e->what];
    if (e->kind == ENTRY_WAIT) {
        uint32_t nth = 0;
        for (uint32_t i = 0; &p->step.entries.at[i] != e; i++) {
            const plan_entry *x = &p->step.entries.at[i];
            nth += x->kind == ENTRY_START && p->collectives.at[x->what].channel == c->channel &&
                   x->what < e->what; /* operations of a channel are drawn in order */
        }
        if (done_of(d, s, rank, c->channel) <= nth)
            return false;
    } else {
        uint32_t busy = 0, members[RANKS];
        for (uint32_t k = 0; k < CHANNELS; k++)
            busy += k != c->channel && s->started[rank][k] > done_of(d, s, rank, k);
        if (d->h.link.channels && s->started[rank][c->channel] == done_of(d, s, rank, c->channel) &&
            busy >= d->h.link.channels)
            return false;
        const uint32_t nth = s->started[rank][c->channel]++;
        const uint32_t n = members_of(&d->channels[c->channel], rank, members);
        s->op[rank][c->channel][nth] = c;
        for (uint32_t i = 0; i < n; i++)
            *wrong |= members[i] != rank && s->started[members[i]][c->channel] > nth &&
                      !match(c, s->op[members[i]][c->channel][nth]);
    }
    s->at[rank]++;
    return true;
}

static weft_status every_rank(const drawn *d)
{
    state s = {0};
    bool wrong = false;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < RANKS; r++)
            while (step(d, &s, r, &wrong))
                moved = true;
    }
    for (uint32_t r = 0; r < RANKS; r++)
        wrong |= s.at[r] < d->plans[r / 2].step.entries.n;
    return wrong ? WEFT_USAGE : WEFT_OK;
}

/* Stages start the same operations, now and then in another order or of another kind. */
static void draw(drawn *d, unsigned *seed)
{
    begin(&d->h, (uint32_t)rand_r(seed) % 3);
    d->h.spec.ranks = RANKS;
    d->h.spec.mesh = (graph_mesh){2, {"stage", "column"}, {STAGES, RANKS / STAGES}};
    for (uint32_t c = 0; c < CHANNELS; c++)
        d->channels[c] = (plan_channel){.name = "drawn", .mesh_axis = c == 3};
    d->channels[2].coords = pair;
    d->channels[2].ncoords = 2;
    uint32_t words[WORDS], n = 2 + (uint32_t)rand_r(seed) % (WORDS / 2 - 1);
    for (uint32_t i = 0; i < n; i++)
        words[i] = (uint32_t)rand_r(seed) % CHANNELS;
    for (uint32_t g = 0; g < STAGES; g++) {
        plan *p = &d->plans[g];
        uint32_t used[CHANNELS] = {0}, count = 0, open = UINT32_MAX;
        *p = d->h.plan;
        for (uint32_t i = 0; i < n; i++) {
            const bool swaps = i + 1 < n && rand_r(seed) % 12 == 0;
            const uint32_t c = words[swaps ? i + 1 : i];
            if (used[c] == OPS || count + 2 > WORDS)
                continue;
            const uint32_t what = c * OPS + used[c]++;
            d->collectives[g][what] = (plan_collective){.name = "drawn",
                                                        .channel = c,
                                                        .kind = WEFT_ALL_REDUCE,
                                                        .dtype = WEFT_F32,
                                                        .count = rand_r(seed) % 60 ? 10 : 11};
            if (c == 2 && rand_r(seed) % 20) {
                d->collectives[g][what].kind = g ? WEFT_RECV : WEFT_SEND;
                d->collectives[g][what].root = g ? 0 : 1;
            }
            if (c == 3 && rand_r(seed) % 50 == 0)
                d->collectives[g][what].kind = WEFT_SEND;
            d->entries[g][count++] = (plan_entry){.kind = ENTRY_START, .what = what, .name = "s"};
            if (open != UINT32_MAX && count < WORDS)
                d->entries[g][count++] =
                    (plan_entry){.kind = ENTRY_WAIT, .what = open, .name = "w"};
            open = rand_r(seed) % 2 ? what : UINT32_MAX;
        }
        p->channels.at = d->channels;
        p->channels.n = CHANNELS;
        p->collectives.at = d->collectives[g];
        p->collectives.n = CHANNELS * OPS;
        p->step.entries.at = d->entries[g];
        p->step.entries.n = count;
    }
    d->h.set = (plan_set){.spec = &d->h.spec, .stage_axis = 0, .n = STAGES, .at = d->plans};
}

/* One rank of each stage is walked; the verdict is that of walking each rank. */
TEST(as_every_rank)
{
    unsigned seed = 5;
    uint32_t seen[2] = {0};
    drawn d = {0};
    for (uint32_t i = 0; i < 20000; i++) {
        const unsigned was = seed;
        draw(&d, &seed);
        const weft_status want = every_rank(&d), have = plan_check(&d.h.set);
        seen[want == WEFT_OK]++;
        if (want != have)
            fail_msg("seed %u: %d, and of every rank %d: %s", was, have, want, err_text());
    }
    assert_true(seen[0] > 2000 && seen[1] > 2000);
}
