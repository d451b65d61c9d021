/* Ranks that die, freeze, leave early or fail in words, without a launcher to say so: every
 * survivor is told who and how in time. And nothing is said when nothing is wrong. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <test.h>

#include "ranks.h"
/* after ranks.h */
#include "marks.h"

#define N 4

/* At work until another rank fails; a mark makes the last place known. */
static weft_status at_work(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    job_mark(j, 17, 34 + me);
    weft_status st = ranks_marked(j);
    if (st == WEFT_OK)
        st = ranks_at_work(j);
    while (st == WEFT_OK && (st = job_failure(j)) == WEFT_OK)
        usleep(1000);
    return st;
}

/* In a wait of the store, which must end as well. */
static weft_status in_get(job *j, uint32_t me, uint32_t n)
{
    (void)me, (void)n;
    void *value = NULL;
    uint64_t bytes;
    weft_status st = ranks_at_work(j);
    return st != WEFT_OK ? st : job_get(j, "never put", 200, &value, &bytes);
}

TEST(killed)
{
    static const rank_body bodies[] = {at_work, in_get};
    for (uint32_t victim = 0; victim < N; victim++) {
        ranks r;
        ranks_prepare(&r, N);
        ranks_start(&r, bodies[victim % 2]);
        ranks_wait_ready(&r, N);
        kill(r.pid[victim], SIGKILL);
        ranks_name_victim(&r, victim, "is gone", 1000);
        if (victim % 2) /* what it does is known from its signs of life alone, and they are rare */
            ranks_expect_text(&r, victim - 1, victim, "; no step reported yet");
        ranks_end(&r);
    }
}

TEST(last_place)
{
    ranks r;
    ranks_prepare(&r, N);
    ranks_start(&r, at_work);
    ranks_wait_ready(&r, N);
    kill(r.pid[2], SIGKILL);
    ranks_name_victim(&r, 2, "last seen at step 17, place 36", 1000);
    ranks_end(&r);
}

TEST(frozen)
{
    for (uint32_t victim = 0; victim < N; victim += N - 1) {
        ranks r;
        ranks_prepare(&r, N);
        ranks_start(&r, at_work);
        ranks_wait_ready(&r, N);
        kill(r.pid[victim], SIGSTOP);
        ranks_name_victim(&r, victim, "is frozen: no sign of life for ", 5000);
        ranks_expect_text(&r, 1, victim, patience_is_timed() ? " for 4." : " s");
        ranks_expect_text(&r, 1, victim, " s (stopped, stuck or cut off)");
        ranks_expect_text(&r, 1, victim, "last seen at step 17");
        ranks_end(&r);
    }
}

/* A frozen rank that thaws afterwards learns that it was given up. */
TEST(thawed)
{
    ranks r;
    ranks_prepare(&r, 3);
    r.frozen_after = 2.5;
    ranks_start(&r, at_work);
    ranks_wait_ready(&r, 3);
    kill(r.pid[1], SIGSTOP);
    ranks_name_victim(&r, 1, "is frozen", 2500);
    kill(r.pid[1], SIGCONT);
    assert_int_equal(ranks_wait(&r, 1, RANKS_WAIT_MS), 0);
    assert_int_equal(r.report[1].body, WEFT_PEER);
    ranks_end(&r);
}

static weft_status until_told(job *j, uint32_t me, uint32_t n)
{
    (void)me, (void)n;
    weft_status st = ranks_at_work(j);
    return st == WEFT_OK ? ranks_until_told(j) : st;
}

/* Stopped for a second, each in turn. */
TEST(no_false_alarm)
{
    ranks r;
    ranks_prepare(&r, 3);
    ranks_prepare_to_tell();
    ranks_start(&r, until_told);
    ranks_wait_ready(&r, 3);
    for (uint32_t i = 0; i < 3; i++) {
        kill(r.pid[i], SIGSTOP);
        sleep(1);
        kill(r.pid[i], SIGCONT);
    }
    ranks_tell();
    ranks_expect_well(&r);
    ranks_end(&r);
    ranks_end_telling();
}

/* All together for longer than frozen_after; then for as long at work. */
TEST(suspended_together)
{
    ranks r;
    ranks_prepare(&r, 3);
    ranks_prepare_to_tell();
    r.frozen_after = 2.5;
    ranks_start(&r, until_told);
    ranks_wait_ready(&r, 3);
    for (uint32_t i = 0; i < 3; i++)
        kill(r.pid[i], SIGSTOP);
    sleep(3);
    for (uint32_t i = 3; i-- > 0;) {
        kill(r.pid[i], SIGCONT);
        usleep(100000);
    }
    usleep(2500000);
    ranks_tell();
    ranks_expect_well(&r);
    ranks_end(&r);
    ranks_end_telling();
}

static weft_status exits_early(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = ranks_at_work(j);
    if (me == 2)
        _exit(0);
    while (st == WEFT_OK && (st = job_failure(j)) == WEFT_OK)
        usleep(1000);
    return st;
}

/* The others are already leaving in good order: they do not end with success either. */
static weft_status others_leave(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = ranks_at_work(j);
    if (me == 2) {
        (void)ranks_until_told(j);
        _exit(0);
    }
    return st;
}

TEST(early_exit)
{
    ranks r;
    ranks_prepare(&r, N);
    ranks_start(&r, exits_early);
    ranks_name_victim(&r, 2, "is gone", 2000);
    ranks_end(&r);
    ranks_prepare(&r, N);
    ranks_prepare_to_tell();
    ranks_start(&r, others_leave);
    ranks_wait_ready(&r, N);
    ranks_tell();
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        if (i == 2)
            continue;
        assert_int_equal(r.report[i].body, WEFT_OK);
        assert_false(r.report[i].left_well);
        ranks_expect_text(&r, i, 2, "is gone");
    }
    ranks_end(&r);
    ranks_end_telling();
}

static weft_status one_fails(job *j, uint32_t me, uint32_t n)
{
    weft_status st = ranks_at_work(j);
    if (me == n - 1)
        return (err_fail)(WEFT_IO, "disk full in instruction 12 of list step");
    while (st == WEFT_OK && (st = job_failure(j)) == WEFT_OK)
        usleep(1000);
    return st;
}

static weft_status rank_0_fails(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    return one_fails(j, me, 1);
}

TEST(own_words)
{
    ranks r;
    ranks_prepare(&r, N);
    ranks_start(&r, one_fails);
    ranks_name_victim(&r, N - 1, "failed: disk full in instruction 12 of list step", 2000);
    ranks_end(&r);
    ranks_prepare(&r, N);
    ranks_start(&r, rank_0_fails);
    ranks_name_victim(&r, 0, "failed: disk full in instruction 12 of list step", 2000);
    ranks_end(&r);
}

/* Rank 1 gives up over a broken connection before anybody knows why it broke: the death of rank 2,
 * which comes a little later, is what the others hear of. It may come 300 ms later; on a busy
 * machine both come at once. */
static weft_status second_hand(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = ranks_at_work(j);
    if (me == 1)
        return (err_fail)(WEFT_PEER, "the connection with rank 2 is broken");
    if (me == 2) {
        usleep(patience_is_timed() ? 30000 : 0);
        raise(SIGKILL);
    }
    while (st == WEFT_OK && (st = job_failure(j)) == WEFT_OK)
        usleep(1000);
    return st;
}

static weft_status gives_up(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = ranks_at_work(j);
    if (me == 1)
        return (err_fail)(WEFT_PEER, "30 s passed in all-reduce 3");
    while (st == WEFT_OK && (st = job_failure(j)) == WEFT_OK)
        usleep(1000);
    return st;
}

TEST(cause_and_effect)
{
    ranks r;
    ranks_prepare(&r, N);
    ranks_start(&r, second_hand);
    assert_int_equal(ranks_wait(&r, 1, RANKS_WAIT_MS), 0);
    for (uint32_t i = 0; i < N; i += 3) {
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        ranks_expect_text(&r, i, 2, "is gone");
    }
    ranks_end(&r);
    ranks_prepare(&r, 3);
    ranks_start(&r, gives_up);
    ranks_name_victim(&r, 1, "gave up: 30 s passed in all-reduce 3", 2000);
    ranks_end(&r);
}

/* Dead before the meeting is complete. */
TEST(during_join)
{
    for (uint32_t victim = 0; victim < 3; victim += 2) {
        ranks r;
        ranks_prepare(&r, 3);
        const uint32_t other = victim ? 0 : 1;
        ranks_start_one(&r, victim, at_work);
        ranks_start_one(&r, other, at_work);
        ranks_wait_admitted(&r, victim ? victim : other);
        kill(r.pid[victim], SIGKILL);
        waitpid(r.pid[victim], NULL, 0);
        assert_int_equal(ranks_wait(&r, other, RANKS_WAIT_MS), 0);
        assert_int_equal(r.report[other].join, WEFT_PEER);
        ranks_expect_text(&r, other, victim, "is gone");
        close(r.out[victim]);
        close(r.out[other]);
        unlink(r.key);
        unlink(r.other_key);
    }
}

int main(void)
{
    log_setup(WEFT_LOG_ERROR, -1);
    unsetenv(KEY_FD_ENV);
    const struct CMUnitTest about_time[] = {
        cmocka_unit_test(killed),          cmocka_unit_test(last_place),
        cmocka_unit_test(frozen),          cmocka_unit_test(thawed),
        cmocka_unit_test(early_exit),      cmocka_unit_test(own_words),
        cmocka_unit_test(cause_and_effect)};
    if (patience_is_timed())
        return cmocka_run_group_tests(about_time, NULL, NULL);
    return test_run(NULL, NULL);
}
