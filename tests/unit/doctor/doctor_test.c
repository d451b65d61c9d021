/* The doctor's tools: lists of CPUs, child processes, and limits compared with a job. */
#include "doctor/checks/checks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <test.h>

TEST(lists_of_cpus)
{
    const struct {
        const char *list;
        uint32_t n;
    } cases[] = {{"0", 1},
                 {"0-3", 4},
                 {"0-3,8,10-11", 7},
                 {"", 0},
                 {"x", 0},
                 {"3-1", 0},
                 {"0-", 0},
                 {"0-3,", 4},
                 {"0-3;5", 0},
                 {"-1", 0},
                 {"0-4294967295", 0},
                 {"99999999999999999999", 0},
                 {"0-999999,0-999999", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(doctor_count_cpus(cases[i].list), cases[i].n);
}

TEST(words_in_brackets)
{
    char out[8];
    assert_true(doctor_bracketed_word("always [madvise] never", out, sizeof out));
    assert_string_equal(out, "madvise");
    assert_false(doctor_bracketed_word("always [much longer] never", out, sizeof out));
    assert_false(doctor_bracketed_word("]always[", out, sizeof out));
    assert_false(doctor_bracketed_word("[]", out, sizeof out));
    assert_false(doctor_bracketed_word("[", out, sizeof out));
}

static json_t *answer(void *ctx)
{
    return json_pack("{s:i}", "pid", (int)getpid() == *(int *)ctx);
}

static json_t *crash(void *ctx)
{
    (void)ctx;
    raise(SIGKILL);
    return NULL;
}

_Noreturn static json_t *leave(void *ctx)
{
    (void)ctx;
    _exit(3);
}

_Noreturn static json_t *hang(void *ctx)
{
    (void)ctx;
    for (;;)
        pause();
}

/* More than a pipe holds. */
static json_t *much(void *ctx)
{
    json_t *list = json_array();
    for (int i = 0; i < 100000; i++)
        json_array_append_new(list, json_integer(i));
    (void)ctx;
    return list;
}

TEST(child_processes)
{
    char why[128] = "";
    int pid = getpid();
    json_t *got = doctor_run_sandboxed(answer, &pid, 30, why, sizeof why);
    assert_int_equal(json_integer_value(json_object_get(got, "pid")), 0);
    json_decref(got);
    got = doctor_run_sandboxed(much, NULL, 30, why, sizeof why);
    assert_int_equal(json_array_size(got), 100000);
    json_decref(got);
    assert_null(doctor_run_sandboxed(crash, NULL, 30, why, sizeof why));
    assert_string_equal(why, "was ended by signal 9 (Killed)");
    assert_null(doctor_run_sandboxed(leave, NULL, 30, why, sizeof why));
    assert_string_equal(why, "ended with status 3 and no answer");
    assert_null(doctor_run_sandboxed(hang, NULL, 1, why, sizeof why));
    assert_string_equal(why, "gave no answer within 1 seconds");
}

/* A job that needs 2 GiB a rank, over a transport that registers or not, and a limit. */
static enum doctor_level fit(int registers, int64_t locked, const char *what)
{
    const doctor_job job = {.ini = "job.ini"};
    doctor d = {.root = "", .job = &job, .done = json_array()};
    json_array_append_new(d.done,
                          json_pack("{s:s, s:{s:i, s:I, s:i}}", "id", "job", "facts", "here", 1,
                                    "peak", (json_int_t)2 << 30, "registers", registers));
    json_array_append_new(
        d.done, json_pack("{s:s, s:{s:I}}", "id", "limits", "facts", "locked", (json_int_t)locked));
    doctor_begin_check(&d, "fit", "");
    doctor_check_fit(&d);
    const json_t *first = json_array_get(json_object_get(d.check, "findings"), 0);
    assert_string_equal(doctor_report_text(first, "what"), what);
    doctor_end_check(&d);
    json_t *report = json_pack("{s:O}", "checks", d.done);
    enum doctor_level worst = doctor_worst(report);
    json_decref(report);
    json_decref(d.done);
    return worst;
}

TEST(locked_memory_of_a_job)
{
    assert_int_equal(fit(1, 65536, "a rank needs 2 GiB of locked memory, and its limit is 64 KiB"),
                     DOCTOR_PROBLEM);
    assert_int_equal(fit(0, 65536, ""), DOCTOR_OK);
    assert_int_equal(fit(1, INT64_MAX, ""), DOCTOR_OK);
}
