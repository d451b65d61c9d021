/* Does the tree of heartbeats have the right edges, and is each of its decisions made at its time?
 * fault.job_tree_test has jobs of real ranks. */

#include <string.h>
#include <test.h>

#include "job/beats/frame.h"
#include "job/decide/tree.h"

#define SILENCE 2500u
#define BEAT 250u

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
