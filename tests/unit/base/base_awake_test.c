/* Does the clock of awake time leave out a stop of the process, and nothing else? */
#define _GNU_SOURCE

#include <test.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time/awake.h"
#include "patience.h"

#define STOP_MS 1500u

TEST(a_gap_counts_as_the_most)
{
    awake_count a = {.max = 10};
    assert_int_equal(awake_look(&a, 1000), 0);
    assert_int_equal(awake_look(&a, 1000), 0);
    assert_int_equal(awake_look(&a, 1007), 7);
    assert_int_equal(awake_look(&a, 1017), 17);
    assert_int_equal(awake_look(&a, 9000), 27);
    assert_int_equal(awake_look(&a, 9001), 28);
    assert_int_equal(awake_look(&a, 8000), 28);
}

/* Time goes on for a thread that sleeps in one call, since another thread looks. On a busy machine
 * that one may be late, so longer sleeps follow. */
static bool goes_on_unseen(void)
{
    for (uint64_t ms = 4 * AWAKE_MAX_MS; ms < patience(10000); ms *= 2) {
        const uint64_t before = awake_ms();
        usleep((useconds_t)ms * 1000);
        if (awake_ms() - before > 2 * AWAKE_MAX_MS)
            return true;
    }
    return false;
}

/* Status 0: at least so much of a stop does not count. */
static void be_stopped(void)
{
    const uint64_t clock = clock_ms(), awake = awake_ms();
    raise(SIGSTOP);
    const uint64_t by_clock = clock_ms() - clock, by_awake = awake_ms() - awake;
    const uint64_t lost = STOP_MS - AWAKE_MAX_MS - 2; /* either rounds down */
    _exit(by_clock < STOP_MS ? 3 : by_awake + lost > by_clock ? 1 : 0);
}

/* Before this process has a second thread. */
TEST(a_stop_does_not_count)
{
    int status;
    const pid_t pid = fork();
    if (!pid)
        be_stopped();
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    usleep((STOP_MS + 10) * 1000);
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(time_that_nobody_looks_at_counts)
{
    assert_true(goes_on_unseen());
}

/* A child process has a thread of its own. */
TEST(time_goes_on_in_a_child)
{
    int status;
    const uint64_t before = awake_ms();
    const pid_t pid = fork();
    if (!pid)
        _exit(awake_ms() < before ? 2 : goes_on_unseen() ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
