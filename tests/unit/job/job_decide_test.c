/* Do the decisions about failures and stops return the right events? No thread, no socket. */
#include <signal.h>

#include <string.h>
#include <test.h>

#include "job/decide/agreement.h"
#include "job/decide/failure.h"
#include "job/stop.h"

static const job_view rank0 = {.ranks = 4, .rank0 = true, .begun = true, .now = 1000};
static const job_view rank2 = {.rank = 2, .ranks = 4, .begun = true, .now = 1000};

static job_sign sign(uint32_t rank, uint32_t weight, job_seen seen)
{
    return (job_sign){.rank = rank, .weight = weight, .text = "is gone", .seen = seen};
}

TEST(certain_sign_is_a_failure_at_once)
{
    job_cause c = {0};
    job_sign s = sign(3, JOB_CAUSE_SURE, JOB_SEEN_AT);
    s.step = 17;
    s.place = 34;
    const job_event e = job_failure_sign(&c, &rank0, &s);
    assert_int_equal(e.kind, JOB_EVENT_FAILURE);
    assert_int_equal(e.rank, 3);
    assert_string_equal(e.text, "rank 3 is gone; last seen at step 17, place 34");
}

TEST(text_says_how_far_the_rank_had_come)
{
    static const struct {
        job_seen seen;
        const char *text;
    } rows[] = {{JOB_SEEN_AT, "rank 1 is gone; no step reported yet"},
                {JOB_SEEN_NEVER, "rank 1 is gone, before it joined"},
                {JOB_SEEN_UNKNOWN, "rank 1 is gone"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_cause c = {0};
        const job_sign s = sign(1, JOB_CAUSE_SURE, rows[i].seen);
        assert_string_equal(job_failure_sign(&c, &rank0, &s).text, rows[i].text);
    }
}

TEST(better_sign_replaces_the_candidate)
{
    job_cause c = {0};
    job_view v = rank0;
    const job_sign second = sign(1, JOB_CAUSE_SECOND, JOB_SEEN_AT);
    const job_sign gone = sign(2, JOB_CAUSE_GONE, JOB_SEEN_AT);
    assert_int_equal(job_failure_sign(&c, &v, &second).kind, JOB_EVENT_NONE);
    v.now += 50;
    assert_int_equal(job_failure_sign(&c, &v, &gone).kind, JOB_EVENT_NONE);
    v.now += 99;
    assert_int_equal(job_failure_due(&c, &v).kind, JOB_EVENT_NONE);
    v.now += 1;
    const job_event e = job_failure_due(&c, &v);
    assert_int_equal(e.kind, JOB_EVENT_FAILURE);
    assert_int_equal(e.rank, 2);
}

TEST(launcher_gets_time_to_say_why)
{
    job_cause c = {0};
    job_view v = rank0;
    v.launched = true;
    const job_sign gone = sign(2, JOB_CAUSE_GONE, JOB_SEEN_AT);
    assert_int_equal(job_failure_sign(&c, &v, &gone).kind, JOB_EVENT_NONE);
    v.now += 399;
    assert_int_equal(job_failure_due(&c, &v).kind, JOB_EVENT_NONE);
    v.now += 1;
    assert_int_equal(job_failure_due(&c, &v).kind, JOB_EVENT_FAILURE);
}

TEST(nothing_follows_the_record_or_the_end)
{
    const job_sign s = sign(2, JOB_CAUSE_SURE, JOB_SEEN_AT);
    for (int i = 0; i < 2; i++) {
        job_cause c = {0};
        job_view v = rank0;
        v.failed = i == 0;
        v.all_left = i == 1;
        assert_int_equal(job_failure_sign(&c, &v, &s).kind, JOB_EVENT_NONE);
        assert_int_equal(c.weight, 0);
    }
}

static job_event ended(const job_view *v, uint32_t kind, uint32_t rank, uint32_t code, bool left,
                       job_cause *c)
{
    const job_control_record r = {.kind = kind, .rank = rank, .code = code};
    job_sign s = {.rank = rank, .seen = JOB_SEEN_AT, .left = left};
    *c = (job_cause){0};
    return job_failure_ended(c, v, &r, &s);
}

TEST(killed_rank_is_certain_where_it_is_judged)
{
    job_cause c;
    assert_int_equal(ended(&rank0, CONTROL_KILLED, 1, SIGKILL, false, &c).kind, JOB_EVENT_FAILURE);
    assert_non_null(strstr(c.text, "was killed by signal 9 (SIGKILL)"));
    assert_int_equal(ended(&rank2, CONTROL_KILLED, 1, SIGKILL, false, &c).kind, JOB_EVENT_NONE);
    assert_int_equal(c.weight, JOB_CAUSE_ENDED);
    assert_int_equal(ended(&rank2, CONTROL_KILLED, 0, SIGKILL, false, &c).kind, JOB_EVENT_FAILURE);
}

TEST(expected_ends_are_ignored)
{
    job_cause c;
    ended(&rank0, CONTROL_ENDED, 1, 0, true, &c); /* it has said goodbye */
    assert_int_equal(c.weight, 0);
    ended(&rank0, CONTROL_ENDED, 1, 0, false, &c);
    assert_int_equal(c.weight, JOB_CAUSE_ENDED);
    ended(&rank2, CONTROL_ENDED, 1, 0, false, &c); /* rank 0 knows more */
    assert_int_equal(c.weight, 0);
    ended(&rank2, CONTROL_ENDED, 1, 3, false, &c);
    assert_int_equal(c.weight, JOB_CAUSE_ENDED);
    ended(&rank2, CONTROL_KILLED, 2, SIGKILL, false, &c); /* this rank itself */
    assert_int_equal(c.weight, 0);
    ended(&rank2, CONTROL_KILLED, 4, SIGKILL, false, &c); /* no rank of the job */
    assert_int_equal(c.weight, 0);
    ended(&rank2, CONTROL_SAY, 1, 0, false, &c);
    assert_int_equal(c.weight, 0);
}

TEST(stopped_rank_ends_the_waits_before_the_first_step)
{
    job_cause c;
    job_view v = rank0;
    v.begun = false;
    assert_int_equal(ended(&v, CONTROL_ENDED, 1, STOP_STATUS, false, &c).kind, JOB_EVENT_END_WAITS);
    v.stop_agreed = true;
    assert_int_equal(ended(&v, CONTROL_ENDED, 1, STOP_STATUS, false, &c).kind, JOB_EVENT_NONE);
    assert_int_equal(c.weight, 0);
    ended(&rank0, CONTROL_ENDED, 1, STOP_STATUS, false, &c);
    assert_int_equal(c.weight, JOB_CAUSE_ENDED);
}

TEST(request_goes_to_rank_0_once)
{
    job_agreement a = {.last = UINT64_MAX, .begun = 5};
    assert_int_equal(job_agreement_request(&a, &rank2, 0).kind, JOB_EVENT_NONE);
    const job_event e = job_agreement_request(&a, &rank2, SIGUSR1);
    assert_int_equal(e.kind, JOB_EVENT_ASK_STOP);
    assert_int_equal(e.number, SIGUSR1);
    assert_int_equal(job_agreement_request(&a, &rank2, SIGUSR1).kind, JOB_EVENT_NONE);
    assert_true(atomic_load(&a.last) == UINT64_MAX); /* only rank 0's question holds it */
}

TEST(rank_0_begins_once_and_not_after_a_failure)
{
    job_agreement a = {.last = UINT64_MAX, .begun = 5}, b = {.last = UINT64_MAX};
    const job_event e = job_agreement_request(&a, &rank0, SIGTERM);
    assert_int_equal(e.kind, JOB_EVENT_HOLD);
    assert_int_equal(e.step, 5);
    assert_true(atomic_load(&a.last) == 0);
    assert_int_equal(job_agreement_begin(&a, &rank0, SIGUSR1).kind, JOB_EVENT_NONE);
    assert_int_equal(a.number, SIGTERM);
    job_view v = rank0;
    v.failed = true;
    assert_int_equal(job_agreement_begin(&b, &v, SIGTERM).kind, JOB_EVENT_NONE);
    assert_false(b.held);
}

TEST(every_request_keeps_its_number)
{
    const int numbers[] = {SIGTERM, SIGUSR1, SIGHUP, SIGXCPU};
    sigset_t set;
    sigemptyset(&set);
    job_agreement_add_signals(&set);
    for (int n = 1; n < NSIG; n++) {
        bool asks = false;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            asks |= numbers[i] == n;
        job_agreement a = {.last = UINT64_MAX};
        assert_int_equal(sigismember(&set, n) == 1, asks);
        assert_int_equal(job_agreement_asks(n), asks);
        assert_int_equal(job_agreement_hold(&a, n).number, asks ? n : SIGTERM);
    }
}

TEST(last_step_is_the_largest_answer)
{
    uint64_t last = 0;
    assert_true(job_agreement_count(true, false, true, 7, &last));
    assert_true(job_agreement_count(true, false, true, 9, &last));
    assert_true(job_agreement_count(true, false, true, 8, &last));
    assert_int_equal(last, 9);
    assert_false(job_agreement_count(true, false, false, 11, &last));
    assert_int_equal(last, 9);
    assert_true(job_agreement_count(false, false, false, 0, &last));
    assert_int_equal(last, 9);
    assert_true(job_agreement_count(true, true, false, 0, &last));
    assert_true(last == UINT64_MAX);
}

TEST(settling_ends_the_waits_where_no_step_has_begun)
{
    job_agreement a = {.last = UINT64_MAX, .begun = 9}, b = {.last = UINT64_MAX};
    assert_int_equal(job_agreement_hold(&a, SIGTERM).step, 9);
    job_event e = job_agreement_finish(&a, SIGTERM, 12);
    assert_int_equal(e.kind, JOB_EVENT_LAST);
    assert_int_equal(e.step, 12);
    assert_int_equal(atomic_load(&a.last), 12);
    e = job_agreement_finish(&b, SIGUSR1, 0); /* without a question before it */
    assert_int_equal(e.kind, JOB_EVENT_END_WAITS);
    assert_int_equal(e.number, SIGUSR1);
    assert_true(b.held && b.agreed);
    assert_true(atomic_load(&b.last) == 0);
}
