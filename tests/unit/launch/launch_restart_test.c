/* Is a failed job started again as restart/policy.h says, and is its progress page right? */

#include <test.h>

#include "launch/outcome.h"
#include "launch/policy.h"
#include "launch/progress.h"

#include <stdio.h>
#include <stdlib.h>

static launch_restart lost(launch_restarts *r, uint64_t step, uint32_t rank, uint32_t *pause)
{
    const launch_attempt a = {.number = r->history.n + 1,
                              .ranks = 4,
                              .step = step,
                              .at = step,
                              .rank = rank,
                              .why = "rank failed"};
    return launch_restarts_next(r, &a, pause);
}

TEST(test_progress_renews_the_restarts)
{
    launch_restarts r = {.max = 2};
    uint32_t pause;
    for (uint64_t step = 5; step < 500; step += 7) {
        assert_int_equal(lost(&r, step, 1, &pause), RESTART_SAME);
        assert_int_equal(pause, 0);
    }
    launch_restarts_free(&r);
}

TEST(test_without_progress_it_ends)
{
    launch_restarts r = {.max = 7};
    uint32_t pause;
    const uint32_t pauses[] = {0, 1, 2, 4, 8, 16, 30};
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(lost(&r, i ? i : 9, i % 4, &pause), RESTART_SAME);
        assert_int_equal(pause, pauses[i]);
    }
    assert_int_equal(lost(&r, 9, 0, &pause), RESTART_END); /* as far as before is no progress */
    assert_int_equal(r.history.n, 8);
    assert_int_equal(r.furthest, 9);
    launch_restarts_free(&r);
}

TEST(test_before_the_first_step)
{
    launch_restarts r = {.max = 1};
    uint32_t pause;
    assert_int_equal(lost(&r, 0, 0, &pause), RESTART_SAME);
    assert_int_equal(lost(&r, 0, 0, &pause), RESTART_END);
    launch_restarts_free(&r);
}

/* Each attempt says `why`, or others say it of a rank that was killed. */
static launch_restart says(launch_restarts *r, uint64_t step, const char *why, bool said)
{
    uint32_t pause;
    launch_attempt a = {.number = r->history.n + 1, .ranks = 2, .step = step, .said = said};
    snprintf(a.why, sizeof a.why, "%s", why);
    return launch_restarts_next(r, &a, &pause);
}

TEST(test_the_same_reason_before_the_first_step)
{
    launch_restarts r = {.max = 9};
    assert_int_equal(says(&r, 0, "the disk is full", true), RESTART_SAME);
    assert_int_equal(says(&r, 0, "no memory", true), RESTART_SAME);
    assert_int_equal(says(&r, 0, "killed", false), RESTART_SAME);
    assert_int_equal(says(&r, 0, "killed", false), RESTART_SAME); /* it may be so by chance */
    assert_int_equal(says(&r, 3, "no memory", true), RESTART_SAME);
    assert_int_equal(says(&r, 3, "no memory", true), RESTART_SAME); /* it had begun to train */
    assert_false(r.repeats);
    assert_int_equal(says(&r, 0, "no memory", true), RESTART_END);
    assert_true(r.repeats);
    assert_int_equal(says(&r, 0, "cannot write /a file", true), RESTART_SAME);
    assert_int_equal(says(&r, 0, "cannot write…", true), RESTART_END); /* one is cut */
    launch_restarts_free(&r);
}

TEST(test_a_rank_that_fails_twice_is_lost)
{
    launch_restarts r = {.max = 5, .least = 3};
    uint32_t pause;
    assert_int_equal(lost(&r, 9, 1, &pause), RESTART_SAME);
    assert_int_equal(lost(&r, 9, 2, &pause), RESTART_SAME); /* another rank */
    assert_int_equal(lost(&r, 8, 2, &pause), RESTART_SAME); /* another step */
    assert_int_equal(lost(&r, 8, 2, &pause), RESTART_FEWER);
    launch_restarts_fewer(&r);
    assert_int_equal(lost(&r, 8, 2, &pause), RESTART_SAME); /* counted anew */
    assert_int_equal(pause, 0);
    for (uint32_t i = 0; i < 3; i++) /* all of them are no rank to leave out */
        assert_int_equal(lost(&r, 8, LAUNCH_ALL, &pause), RESTART_SAME);
    r.least = 4;
    assert_int_equal(lost(&r, 8, 2, &pause), RESTART_SAME); /* 4 ranks are the least */
    launch_restarts_free(&r);
}

TEST(test_the_page)
{
    launch_progress *p = NULL;
    assert_int_equal(launch_progress_open(3, &p), WEFT_OK);
    assert_int_equal(launch_progress_furthest(p), 0);
    assert_int_equal(launch_progress_newest(p), 0);
    assert_int_equal(launch_progress_of(p, 3), 0); /* no such rank */
    char fd[16];
    snprintf(fd, sizeof fd, "%d", launch_progress_fd(p));
    setenv(PROGRESS_FD_ENV, fd, 1);
    setenv(ATTEMPT_ENV, "4", 1);
    assert_int_equal(job_attempt_number(), 4);
    job_progress_step(1, 17);
    job_progress_step(2, 16);
    job_progress_step(3, 99); /* outside: ignored */
    job_progress_receive(6);
    job_progress_receive(5);
    assert_int_equal(launch_progress_furthest(p), 17);
    assert_int_equal(launch_progress_of(p, 2), 16);
    assert_int_equal(launch_progress_newest(p), 6);
    launch_progress_close(p);
    launch_progress_close(NULL);
}
