/* Does the tree of heartbeats have the right edges, and do its decisions name the right rank in
 * time? A simulated job with a clock of its own: no thread, no socket. */

#include <string.h>
#include <test.h>

#include "job/beats/frame.h"
#include "job/decide/tree.h"

#define SILENCE 2500u
#define BEAT 250u
#define RANKS_MAX 1100u

TEST(each_rank_has_one_parent)
{
    static const job_tree trees[] = {{1, 32}, {33, 32}, {34, 32}, {12, 2}, {1000, 32}, {4000, 32}};
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        const job_tree *t = &trees[i];
        uint32_t sum = 0;
        for (uint32_t r = 0; r < t->ranks; r++) {
            uint32_t first, n = job_tree_children(t, r, &first);
            assert_true(n <= t->fanout);
            sum += n;
            for (uint32_t c = first; c < first + n; c++) {
                assert_int_equal(job_tree_parent(t, c), r);
                assert_true(job_tree_is_below(t, r, c));
                assert_true(job_tree_is_below(t, 0, c));
                assert_false(job_tree_is_below(t, c, r));
            }
        }
        assert_int_equal(sum, t->ranks - 1);
        assert_false(job_tree_is_below(t, 0, t->ranks));
        assert_false(job_tree_is_below(t, 0, 0));
    }
}

/* With at most fanout + 1 ranks only rank 0 has children. */
TEST(few_ranks_are_a_star)
{
    uint32_t first;
    for (uint32_t n = 1; n <= JOB_TREE_FANOUT + 1; n++)
        for (uint32_t r = 1; r < n; r++)
            assert_int_equal(job_tree_children(&(job_tree){n, JOB_TREE_FANOUT}, r, &first), 0);
    const job_tree more = {JOB_TREE_FANOUT + 2, JOB_TREE_FANOUT};
    assert_int_equal(job_tree_children(&more, 1, &first), 1);
    assert_int_equal(first, JOB_TREE_FANOUT + 1);
}

TEST(numbers_do_not_wrap)
{
    uint32_t first;
    const job_tree t = {1u << 31, 32};
    assert_int_equal(job_tree_children(&t, t.ranks - 1, &first), 0);
    assert_int_equal(first, t.ranks);
}

TEST(silent_child_is_returned_once_and_taken_again)
{
    job_watch w = {.last_seen = 1000};
    assert_int_equal(job_tree_check_child(&w, 1000, SILENCE), JOB_WATCH_TAKE);
    assert_int_equal(job_tree_check_child(&w, 1000, SILENCE), JOB_WATCH_NONE);
    assert_int_equal(job_tree_check_child(&w, 1000 + SILENCE / 2 - 1, SILENCE), JOB_WATCH_NONE);
    assert_int_equal(job_tree_check_child(&w, 1000 + SILENCE / 2, SILENCE), JOB_WATCH_RETURN);
    assert_int_equal(job_tree_check_child(&w, 1000 + SILENCE, SILENCE), JOB_WATCH_NONE);
    w.last_seen = 4000;
    assert_int_equal(job_tree_check_child(&w, 4010, SILENCE), JOB_WATCH_TAKE);
}

TEST(rank_0_judges_by_the_sign_that_the_parent_heard)
{
    job_guard g = {.last_seen = 100};
    assert_true(job_tree_is_frozen(&g, 100 + SILENCE, SILENCE));
    job_tree_rely(&g);
    assert_false(job_tree_is_frozen(&g, 100000, SILENCE));
    job_tree_return(&g, 100000, SILENCE / 2, SILENCE);
    assert_false(job_tree_is_frozen(&g, 100000 + SILENCE / 2 - 1, SILENCE));
    assert_true(job_tree_is_frozen(&g, 100000 + SILENCE / 2, SILENCE));
}

/* A parent that was held up itself reports late: its child still has time to answer rank 0. */
TEST(late_report_leaves_time_to_answer)
{
    job_guard g = {.relies = true};
    job_tree_return(&g, 100000, UINT64_MAX, SILENCE);
    assert_false(job_tree_is_frozen(&g, 100000 + SILENCE / 4 - 1, SILENCE));
    assert_true(job_tree_is_frozen(&g, 100000 + SILENCE / 4 + 1, SILENCE));
    g = (job_guard){.relies = true, .last_seen = 99999}; /* it has been heard directly since */
    job_tree_return(&g, 100000, SILENCE, SILENCE);
    assert_false(job_tree_is_frozen(&g, 100000 + SILENCE - 2, SILENCE));
}

TEST(rank_0_is_asked_before_it_is_named)
{
    assert_int_equal(job_tree_check_root(true, SILENCE / 2 - 1, SILENCE), JOB_ROOT_WELL);
    assert_int_equal(job_tree_check_root(false, 0, SILENCE), JOB_ROOT_ASK);
    assert_int_equal(job_tree_check_root(true, SILENCE / 2, SILENCE), JOB_ROOT_ASK);
    assert_int_equal(job_tree_check_root(true, SILENCE, SILENCE), JOB_ROOT_FROZEN);
    assert_int_equal(job_tree_check_root(false, SILENCE, SILENCE), JOB_ROOT_FROZEN);
}

TEST(beats_are_rarer_until_the_tree_is_made)
{
    assert_int_equal(job_tree_interval(false, BEAT, SILENCE), BEAT);
    assert_int_equal(job_tree_interval(true, BEAT, SILENCE), SILENCE / 4);
    assert_int_equal(job_tree_interval(true, SILENCE, SILENCE), SILENCE);
}

/* --- a job that is simulated --- */

typedef struct sim_rank {
    bool frozen;
    job_watch watch;    /* as its parent sees it */
    job_guard guard;    /* as rank 0 does */
    uint64_t number;    /* of rank 0's last beat that it knows */
    uint64_t last_seen; /* when that changed, or rank 0 answered */
    uint64_t named_at;  /* when it learned of the failure; 0: it has not */
    uint32_t named;
} sim_rank;

typedef struct sim {
    job_tree t;
    uint64_t now, number;
    sim_rank r[RANKS_MAX];
} sim;

static void sim_name(sim *s, uint32_t rank, uint32_t victim)
{
    if (!s->r[rank].named_at && !s->r[rank].frozen) {
        s->r[rank].named_at = s->now;
        s->r[rank].named = victim;
    }
}

static void sim_beat_up(sim *s, uint32_t rank)
{
    sim_rank *me = &s->r[rank];
    const uint32_t parent = job_tree_parent(&s->t, rank);
    if (parent == 0)
        me->guard.last_seen = s->r[0].frozen ? me->guard.last_seen : s->now;
    else if (!s->r[parent].frozen)
        me->watch.last_seen = s->now;
    const job_root_event e = job_tree_check_root(true, s->now - me->last_seen, SILENCE);
    if (e == JOB_ROOT_ASK && !s->r[0].frozen)
        me->guard.last_seen = me->last_seen = s->now;
    if (e == JOB_ROOT_FROZEN)
        sim_name(s, rank, 0);
}

/* A parent looks at its children, and passes the number on. */
static void sim_children(sim *s, uint32_t rank)
{
    uint32_t first, n = job_tree_children(&s->t, rank, &first);
    for (uint32_t c = first; c < first + n; c++) {
        sim_rank *child = &s->r[c];
        if (!child->frozen && child->number < s->r[rank].number) {
            child->number = s->r[rank].number;
            child->last_seen = s->now;
        }
        if (!rank)
            continue;
        const job_watch_event e = job_tree_check_child(&child->watch, s->now, SILENCE);
        if (s->r[0].frozen)
            continue;
        if (e == JOB_WATCH_TAKE)
            job_tree_rely(&child->guard);
        else if (e == JOB_WATCH_RETURN)
            job_tree_return(&child->guard, s->now, s->now - child->watch.last_seen, SILENCE);
    }
}

static void sim_rank_0(sim *s)
{
    for (uint32_t r = 1; r < s->t.ranks; r++) {
        sim_rank *m = &s->r[r];
        if (!m->guard.relies && !m->frozen && job_tree_parent(&s->t, r))
            m->guard.last_seen = s->now; /* it answers */
        if (job_tree_is_frozen(&m->guard, s->now, SILENCE))
            for (uint32_t all = 0; all < s->t.ranks; all++)
                sim_name(s, all, r);
    }
}

static void sim_run(sim *s, uint64_t ms)
{
    for (const uint64_t until = s->now + ms; s->now < until; s->now += 50) {
        if (!s->r[0].frozen && s->now % BEAT == 0)
            s->r[0].number = ++s->number;
        for (uint32_t r = 0; r < s->t.ranks; r++) {
            if (s->r[r].frozen)
                continue;
            if (r && s->now % BEAT == r % 5 * 50)
                sim_beat_up(s, r);
            sim_children(s, r);
        }
        if (!s->r[0].frozen)
            sim_rank_0(s);
    }
}

static sim job_of;

static void sim_begin(uint32_t ranks, uint32_t fanout)
{
    memset(&job_of, 0, sizeof job_of);
    job_of.t = (job_tree){ranks, fanout};
    job_of.now = 1000;
    for (uint32_t r = 0; r < ranks; r++)
        job_of.r[r].last_seen = job_of.r[r].watch.last_seen = job_of.r[r].guard.last_seen =
            job_of.now;
    sim_run(&job_of, 10000);
    for (uint32_t r = 0; r < ranks; r++)
        assert_int_equal(job_of.r[r].named_at, 0);
}

/* All others name `victim`, or `second`, within the time and two beats. */
static void sim_freeze(uint32_t victim, uint32_t other, uint32_t second)
{
    const uint64_t began = job_of.now;
    job_of.r[victim].frozen = job_of.r[other].frozen = true;
    sim_run(&job_of, 2 * SILENCE);
    for (uint32_t r = 0; r < job_of.t.ranks; r++) {
        const sim_rank *p = &job_of.r[r];
        if (r == victim || r == other)
            continue;
        if (!p->named_at || (p->named != victim && p->named != second))
            fail_msg("%u and %u of %u frozen: rank %u names %u", victim, other, job_of.t.ranks, r,
                     p->named_at ? p->named : UINT32_MAX);
        assert_in_range(p->named_at - began, SILENCE / 2, SILENCE + 2 * BEAT);
    }
}

TEST(frozen_rank_is_named_by_all)
{
    for (uint32_t victim = 0; victim < 31; victim++) {
        sim_begin(31, 2);
        sim_freeze(victim, victim, victim);
    }
    static const uint32_t some[] = {0, 1, 31, 32, 33, 999};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        sim_begin(1000, 32);
        sim_freeze(some[i], some[i], some[i]);
    }
}

/* Rank 0 is named before all others, and a parent before its child: nobody else watches that. */
TEST(two_frozen_ranks)
{
    for (uint32_t a = 0; a < 31; a++)
        for (uint32_t b = a + 1; b < 31; b++) {
            sim_begin(31, 2);
            sim_freeze(a, b, a == job_tree_parent(&job_of.t, b) || !a ? a : b);
        }
}

/* --- beats as bytes --- */

TEST(beat_survives_the_wire)
{
    uint8_t body[BEAT_UP_BYTES + 2 * BEAT_ENTRY_BYTES];
    const job_beat_mark mine = {17, 34}, below[] = {{1, 2}, {UINT64_MAX, 4}};
    job_beat_mark got;
    uint32_t n;
    job_beat_pack_mark(&mine, body);
    for (uint32_t i = 0; i < 2; i++)
        job_beat_pack_entry(70 + i, &below[i], body + BEAT_UP_BYTES + i * BEAT_ENTRY_BYTES);
    job_wire_frame f = {.bytes = sizeof body, .body = body};
    assert_true(job_beat_unpack_up(&f, &got, &n));
    assert_int_equal(n, 2);
    assert_memory_equal(&got, &mine, sizeof mine);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(job_beat_entry(&f, i, &got), 70 + i);
        assert_memory_equal(&got, &below[i], sizeof got);
    }
    for (f.bytes = 0; f.bytes < sizeof body; f.bytes++)
        assert_int_equal(job_beat_unpack_up(&f, &got, &n),
                         f.bytes >= BEAT_UP_BYTES && (f.bytes - BEAT_UP_BYTES) % 20 == 0);
    f.bytes = BEAT_MAX + BEAT_ENTRY_BYTES;
    assert_false(job_beat_unpack_up(&f, &got, &n));
    job_beat_root root = {9, {10, 11}}, back;
    job_beat_pack_down(&root, body);
    f.bytes = BEAT_DOWN_BYTES;
    assert_true(job_beat_unpack_down(&f, &back));
    assert_memory_equal(&root, &back, sizeof root);
    f.bytes--;
    assert_false(job_beat_unpack_down(&f, &back));
}
