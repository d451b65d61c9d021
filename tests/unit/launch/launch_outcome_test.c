/* With which status does a launcher end, whatever the order and the moment of what it hears? */
#include <stdio.h>

#include <test.h>

#include "base/time/pressure.h"
#include "job/decide/cause.h"
#include "job/stop.h"
#include "launch/outcome.h"

static void hear(launch_outcome *o, uint32_t rank, uint32_t kind, uint32_t code, const char *text)
{
    job_control_record r = {.kind = kind, .rank = rank, .code = code};
    for (uint32_t i = 0; text[i]; i++)
        r.text[i] = text[i];
    launch_outcome_receive(o, rank, &r);
}

static void end(launch_outcome *o, uint32_t rank, uint32_t kind, uint32_t code)
{
    const job_control_record r = {.kind = kind, .rank = rank, .code = code};
    launch_outcome_end(o, rank, &r);
    launch_outcome_gone(o, rank);
}

static int concluded(launch_outcome *o, int asked)
{
    launch_end out;
    launch_outcome_conclude(o, asked, 0, &out);
    launch_outcome_free(o);
    return out.status;
}

/* Rank 1 of 3 fails with `status`, and leaves in time or is killed with the others. */
static int failed_with(uint32_t status, bool in_time)
{
    launch_outcome *o = launch_outcome_new(3);
    hear(o, 1, CONTROL_STATUS, status, "");
    hear(o, 1, CONTROL_CAUSE, JOB_CAUSE_SURE, "rank 1 failed: no such device");
    if (in_time) {
        hear(o, 1, CONTROL_SAY, 0, "no such device");
        end(o, 1, CONTROL_ENDED, status);
    }
    assert_true(launch_outcome_due(o, pressure_ms()) ||
                launch_outcome_due(o, pressure_ms() + 60000));
    for (uint32_t r = 0; r < 3; r++)
        if (r != 1 || !in_time)
            end(o, r, CONTROL_KILLED, 9);
    return concluded(o, 0);
}

TEST(status_of_a_rank_that_is_slow_to_leave)
{
    for (int in_time = 0; in_time < 2; in_time++) {
        assert_int_equal(failed_with(77, in_time), 77);
        assert_int_equal(failed_with(2, in_time), 2);
        assert_int_equal(failed_with(1, in_time), 1);
    }
}

/* A rank that is killed by somebody else did not end as it had said. */
TEST(killed_by_somebody_else)
{
    launch_outcome *o = launch_outcome_new(2);
    hear(o, 0, CONTROL_STATUS, 77, "");
    end(o, 0, CONTROL_KILLED, 11);
    end(o, 1, CONTROL_ENDED, 1);
    assert_int_equal(concluded(o, 0), 1);
}

/* Whatever the name of the host: the sentence may have it in a word. */
TEST(the_host_is_named)
{
    static const char *const hosts[] = {"b", "killed", "node"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        for (int with_host = 0; with_host < 2; with_host++) {
            char lost[64], want[64];
            launch_end out;
            launch_outcome *o = launch_outcome_new(2);
            launch_outcome_place(o, 1, hosts[i]);
            snprintf(lost, sizeof lost, "host %s is lost with rank 1: no answer", hosts[i]);
            snprintf(want, sizeof want, "rank 1 was killed by signal 9 (SIGKILL); host %s",
                     hosts[i]);
            if (with_host)
                launch_outcome_lost(o, 1, lost);
            else
                end(o, 1, CONTROL_KILLED, 9);
            end(o, 0, CONTROL_ENDED, 1);
            launch_outcome_conclude(o, 0, 0, &out);
            assert_string_equal(out.why, with_host ? lost : want);
            launch_outcome_free(o);
        }
}

/* Nobody is to blame, also where rank 0 has ended before. */
TEST(all_are_frozen)
{
    for (int one_ended = 0; one_ended < 2; one_ended++) {
        launch_end out;
        launch_outcome *o = launch_outcome_new(3);
        if (one_ended)
            end(o, 0, CONTROL_ENDED, 0);
        launch_outcome_frozen(o, "all ranks are frozen");
        launch_outcome_frozen(o, "all ranks are frozen still");
        assert_true(launch_outcome_due(o, pressure_ms()) ||
                    launch_outcome_due(o, pressure_ms() + 60000));
        for (uint32_t r = (uint32_t)one_ended; r < 3; r++)
            end(o, r, CONTROL_KILLED, 9);
        launch_outcome_conclude(o, 0, 0, &out);
        assert_int_equal(out.rank, LAUNCH_ALL);
        assert_true(out.failed);
        assert_string_equal(out.why, "all ranks are frozen");
        launch_outcome_free(o);
    }
}

TEST(others)
{
    launch_outcome *o = launch_outcome_new(2);
    end(o, 0, CONTROL_ENDED, 0);
    end(o, 1, CONTROL_ENDED, 0);
    assert_int_equal(concluded(o, 0), 0);
    o = launch_outcome_new(2);
    end(o, 0, CONTROL_ENDED, STOP_STATUS);
    end(o, 1, CONTROL_ENDED, STOP_STATUS);
    assert_int_equal(concluded(o, 15), STOP_STATUS);
    o = launch_outcome_new(2);
    end(o, 1, CONTROL_ENDED, 3); /* a status that is none of ours */
    end(o, 0, CONTROL_ENDED, 1);
    assert_int_equal(concluded(o, 0), 1);
}

TEST(long_reasons_end_with_a_word)
{
    char out[24];
    job_control_shorten(out, sizeof out, "ranks on other machines");
    assert_string_equal(out, "ranks on other machines");
    job_control_shorten(out, sizeof out, "ranks on others machines");
    assert_string_equal(out, "ranks on others…");
    job_control_shorten(out, sizeof out, "/a/path/that/has/no/blank");
    assert_string_equal(out, "/a/path/that/has/no/…");
}
