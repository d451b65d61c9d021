/* Do all ranks agree on one last step, whoever is asked to stop, at whatever moment? The steps are
 * barriers through the store, so that a rank that ran one step less than another would leave that
 * one waiting for ever. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <test.h>

#include "job/stop.h"
#include "ranks.h"

#define N 4
#define ENDLESS 100000000u

static const int requests[] = {SIGTERM, SIGUSR1, SIGHUP, SIGXCPU};

static uint64_t steps;      /* of a rank; the test sets it before it forks */
static int asked = SIGUSR1; /* the signal that set_up() expects; so, too */

/* A number below `n`, another one in each run and process. */
static uint32_t draw(uint32_t n)
{
    static uint64_t drawn;
    uint64_t x = clock_ns() + ++drawn + (uint64_t)getpid() * 7919;
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((x ^ x >> 29) >> 16) % n;
}

static weft_status agree_on_last(job *j, uint64_t last, uint32_t n)
{
    uint64_t all[RANKS_MAX];
    weft_status st = job_exchange(j, "last", &last, sizeof last, all);
    for (uint32_t r = 0; st == WEFT_OK && r < n; r++)
        if (all[r] != last)
            st = (err_fail)(WEFT_INTERNAL, "rank %u stopped after step %llu, this one after %llu",
                            r, (unsigned long long)all[r], (unsigned long long)last);
    return st;
}

static weft_status work(job *j, uint32_t rank, uint32_t n)
{
    int number = 0;
    uint64_t step = 1;
    job_stop_catch(false);
    weft_status st = ranks_at_work(j);
    for (; st == WEFT_OK && step <= steps; step++) {
        st = job_stop_before(j, step, &number);
        if (st != WEFT_OK || number)
            break;
        if (draw(8) == 0)
            usleep(draw(800));
        st = job_exchange(j, "step", NULL, 0, NULL);
    }
    if (st == WEFT_OK && steps == ENDLESS && !number)
        st = (err_fail)(WEFT_INTERNAL, "rank %u was never stopped", rank);
    return st != WEFT_OK ? st : agree_on_last(j, step - 1, n);
}

/* Ranks that have met and do nothing that would end. */
static weft_status set_up(job *j, uint32_t rank, uint32_t n)
{
    (void)rank, (void)n;
    job_stop_catch(false);
    weft_status st = ranks_at_work(j);
    while (st == WEFT_OK) {
        usleep(1000);
        st = job_failure(j);
    }
    return st == WEFT_PEER && job_stop_declared() == asked ? WEFT_OK : st;
}

static void begin(ranks *r, uint32_t n, rank_body body)
{
    char byte;
    ranks_prepare(r, n);
    ranks_start(r, body);
    for (uint32_t i = 0; i < n; i++) {
        struct pollfd p = {.fd = r->ready[0], .events = POLLIN};
        assert_int_equal(poll(&p, 1, RANKS_WAIT_MS), 1);
        assert_int_equal(read(r->ready[0], &byte, 1), 1);
    }
}

TEST(one_last_step)
{
    uint32_t rounds = patience_is_whole() ? 200 : 6;
    steps = ENDLESS;
    for (uint32_t i = 0; i < rounds; i++) {
        ranks r;
        begin(&r, N, work);
        usleep(draw(100000));
        uint32_t victims = i % 3 ? 1u << draw(N) : (1u << N) - 1;
        for (uint32_t k = 0; k < N; k++)
            if (victims >> k & 1)
                kill(r.pid[k], requests[draw(4)]);
        ranks_expect_well(&r);
        ranks_end(&r);
    }
}

/* Asked at about the time of the last step: all do all of them, or stop together. */
TEST(at_the_end)
{
    uint32_t rounds = patience_is_whole() ? 200 : 6;
    steps = 100;
    for (uint32_t i = 0; i < rounds; i++) {
        ranks r;
        begin(&r, N, work);
        usleep(draw(60000));
        kill(r.pid[draw(N)], SIGTERM);
        ranks_expect_well(&r);
        ranks_end(&r);
    }
}

TEST(before_the_first_step)
{
    for (uint32_t k = 0; k < 4; k++) {
        ranks r;
        asked = requests[k];
        begin(&r, N, set_up);
        uint64_t began = clock_ms();
        kill(r.pid[k % 2 ? N - 1 : 0], asked);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
            assert_int_equal(r.report[i].body, WEFT_OK);
        }
        assert_true(clock_ms() - began < patience(3000));
        ranks_end(&r);
    }
    asked = SIGUSR1;
}

/* Two ranks of three have met, and rank 0 is asked to stop: the third is waited for, and told. */
static void a_late_rank_is_told(void)
{
    ranks r;
    ranks_prepare(&r, 3);
    ranks_start_one(&r, 0, set_up);
    ranks_start_one(&r, 1, set_up);
    ranks_wait_admitted(&r, 1);
    kill(r.pid[0], SIGUSR1);
    ranks_start_one(&r, 2, set_up);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        assert_int_equal(r.report[i].stopped, SIGUSR1);
    }
    ranks_end(&r);
}

/* A rank is asked to stop before rank 0 is there, which hears of it. */
static void rank_0_hears(void)
{
    ranks r;
    ranks_prepare(&r, 2);
    ranks_start_one(&r, 1, set_up);
    kill(r.pid[1], SIGUSR1);
    ranks_start_one(&r, 0, set_up);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        assert_int_equal(r.report[i].stopped, SIGUSR1);
    }
    ranks_end(&r);
}

/* Launchers send SIGTERM to the rest when one rank has failed: that job is not one to start again.
 */
static void some_never_come(void)
{
    ranks r;
    ranks_prepare(&r, 4);
    for (uint32_t i = 0; i < 2; i++)
        ranks_start_one(&r, i, set_up);
    ranks_wait_admitted(&r, 1);
    for (uint32_t i = 0; i < 2; i++)
        kill(r.pid[i], SIGTERM);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        assert_int_equal(r.report[i].stopped, 0);
        assert_non_null(strstr(r.report[i].text, "SIGTERM asked the job to stop before it had "
                                                 "begun, and these ranks had not joined: rank 2, "
                                                 "rank 3; "));
    }
    ranks_end(&r);
}

TEST(before_all_have_met)
{
    job_stop_catch(false); /* the ranks have the handlers from their first moment on */
    a_late_rank_is_told();
    rank_0_hears();
    some_never_come();
}

/* A rank that does not leave its set-up is ended; so the stop takes a few seconds at most. */
static weft_status stuck(job *j, uint32_t rank, uint32_t n)
{
    (void)n;
    job_stop_catch(false);
    weft_status st = ranks_at_work(j);
    while (st == WEFT_OK && (rank == 1 || (st = job_failure(j)) == WEFT_OK))
        usleep(1000);
    return job_stop_declared() ? WEFT_OK : st;
}

TEST(stuck_in_set_up)
{
    ranks r;
    begin(&r, 2, stuck);
    kill(r.pid[0], SIGTERM);
    int status = ranks_wait(&r, 1, RANKS_WAIT_MS);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == STOP_STATUS);
    assert_int_equal(ranks_wait(&r, 0, RANKS_WAIT_MS), 0);
    ranks_end(&r);
}

/* A frozen rank answers nothing: it is declared dead, and the others do not wait for it longer. */
TEST(no_answer)
{
    ranks r;
    steps = ENDLESS;
    begin(&r, N, work);
    kill(r.pid[2], SIGSTOP);
    kill(r.pid[1], SIGTERM);
    uint64_t began = clock_ms();
    for (uint32_t i = 0; i < N; i++) {
        if (i == 2)
            continue;
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        assert_int_equal(r.report[i].body, WEFT_PEER);
        assert_non_null(strstr(r.report[i].text, "rank 2 is frozen"));
    }
    assert_true(clock_ms() - began < patience(8000));
    kill(r.pid[2], SIGCONT);
    ranks_end(&r);
}

/* A product of oneDNN may have its stack pointer in the heap, where the kernel would save the
 * interrupted registers: 1 of 40 jobs of one rank died of SIGTERM. */
TEST(handlers_have_a_stack_of_their_own)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGXCPU};
    struct sigaction now;
    job_stop_catch(false);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_int_equal(sigaction(numbers[i], NULL, &now), 0);
        assert_true(now.sa_handler == SIG_IGN || now.sa_flags & SA_ONSTACK);
    }
}

/* A process without a launcher that has the handlers. `ignored`: a signal that it starts with
 * ignored, 0: none; it ends with status 4 if that one asks it to stop. */
static pid_t start_alone(int ignored)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (!pid) {
        alarm(290);
        if (ignored)
            signal(ignored, SIG_IGN);
        job_stop_catch(false);
        if (ignored)
            _exit(raise(ignored) ? 3 : job_stop_asked() ? 4 : 0);
        if (write(ready[1], &byte, 1) != 1)
            _exit(3);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    if (!ignored)
        assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* As nohup starts a program, for example. */
TEST(ignored_at_the_start)
{
    const int numbers[] = {SIGHUP, SIGXCPU};
    int status;
    for (int i = 0; i < 2; i++) {
        const pid_t pid = start_alone(numbers[i]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* Without a launcher: a request repeats an earlier one, SIGINT after one ends the process. */
TEST(signals_after_the_first)
{
    int status;
    const pid_t pid = start_alone(0);
    for (int i = 0; i < 8; i++) {
        kill(pid, requests[i % 4]);
        usleep(100000);
        assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    }
    kill(pid, SIGINT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

int main(void)
{
    const struct CMUnitTest about_time[] = {cmocka_unit_test(before_the_first_step),
                                            cmocka_unit_test(no_answer)};
    if (patience_is_timed())
        return cmocka_run_group_tests(about_time, NULL, NULL);
    return test_run(NULL, NULL);
}
