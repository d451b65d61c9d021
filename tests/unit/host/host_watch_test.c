/* Whom the watchdog blames, and whom not: each case is a child process that behaves as it says. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "host/call.h"
#include "host/watch.h"

static const char outer_key, inner_key, core_key; /* the last one has no owner */
static int pipe_to;

static bool tell(const char *text)
{
    return write(pipe_to, text, strlen(text)) == (ssize_t)strlen(text);
}

/* What the watchdog says about `behave`, with limits of 0.3 s and 0.9 s; "": it let it pass. */
static const char *said(void (*behave)(void))
{
    static char text[4096];
    const char *const limits[] = {"run.call_deadline=0.3", "run.setup_deadline=0.9"};
    int ends[2], status;
    ssize_t n = 0, got;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = host_watch_fork();
    if (pid == 0) {
        config *cfg = NULL;
        pipe_to = ends[1];
        close(ends[0]);
        if (config_load(NULL, limits, 2, &cfg) != WEFT_OK)
            _exit(3);
        host_limits_set(cfg);
        host_watch_report_to(tell);
        host_call_register(&outer_key, &outer_key, "outer", "/outer.so");
        host_call_register(&inner_key, &inner_key, "inner", "/inner.so");
        host_watch_begin();
        behave();
        host_watch_end();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + n, sizeof text - 1 - (size_t)n)) > 0)
        n += got;
    text[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), n > 0);
    return text;
}

static void rest(uint32_t ms)
{
    for (const uint64_t until = clock_ms() + ms; clock_ms() < until;)
        usleep(1000);
}

static void in_call(const void *key, const char *call, uint32_t ms)
{
    call_enter(key, call);
    rest(ms);
    call_leave();
}

static void one_lasts(void)
{
    in_call(&outer_key, "update", 20000);
}

static void inner_lasts(void)
{
    call_enter(&outer_key, "edit");
    in_call(&inner_key, "infer", 20000);
    call_leave();
}

/* The outer one calls and calls; no inner call lasts. */
static void outer_is_endless(void)
{
    call_enter(&outer_key, "edit");
    for (uint32_t i = 0; i < 2000; i++)
        in_call(&inner_key, "infer", 10);
    call_leave();
}

static void the_core_is_inside(void)
{
    call_enter(&outer_key, "edit");
    in_call(&core_key, "infer", 20000);
    call_leave();
}

static void setup_lasts(void)
{
    in_call(&outer_key, "prepare", 20000);
}

static void *other_thread(void *unused)
{
    one_lasts();
    return unused;
}

static void in_another_thread(void)
{
    pthread_t t;
    if (!pthread_create(&t, NULL, other_thread, NULL))
        pthread_join(t, NULL);
}

static void calls_that_last_are_named(void **state)
{
    (void)state;
    const char *const outer = "() of the plugin outer (/outer.so) does not return: 0.3 s have "
                              "passed, all that run.call_deadline allows";
    assert_non_null(strstr(said(one_lasts), outer));
    assert_memory_equal(said(one_lasts), "update()", 8);
    assert_memory_equal(said(inner_lasts), "infer() of the plugin inner (/inner.so)", 39);
    assert_memory_equal(said(outer_is_endless), "edit() of the plugin outer", 26);
    assert_memory_equal(said(the_core_is_inside), "edit() of the plugin outer", 26);
    assert_non_null(strstr(said(setup_lasts), "0.9 s have passed, all that run.setup_deadline"));
    assert_memory_equal(said(in_another_thread), "update() of the plugin outer", 28);
}

/* --- calls that are in order --- */

static void many_calls(void)
{
    for (uint32_t i = 0; i < 100; i++)
        in_call(&outer_key, "run", 10);
}

static void pieces(void)
{
    call_enter(&outer_key, "run");
    for (uint32_t i = 0; i < 100; i++) {
        call_next();
        rest(10);
    }
    call_leave();
}

static void setup_takes_a_while(void)
{
    in_call(&outer_key, "prepare", 500);
}

static void the_core_lasts(void)
{
    in_call(&core_key, "update", 1000);
}

static void too_deep(uint32_t depth)
{
    call_enter(&outer_key, "edit");
    if (depth)
        too_deep(depth - 1);
    call_leave();
}

static void deep(void)
{
    too_deep(3 * CALL_DEPTH);
    rest(1000);
}

static void *short_call(void *unused)
{
    in_call(&outer_key, "wait", 5);
    return unused;
}

static void threads_come_and_go(void)
{
    for (uint32_t i = 0; i < 100; i++) {
        pthread_t t[4];
        for (uint32_t k = 0; k < 4; k++)
            if (pthread_create(&t[k], NULL, short_call, NULL))
                _exit(4);
        for (uint32_t k = 0; k < 4; k++)
            pthread_join(t[k], NULL);
    }
}

static void others_pass(void **state)
{
    (void)state;
    assert_string_equal(said(many_calls), "");
    assert_string_equal(said(pieces), "");
    assert_string_equal(said(setup_takes_a_while), "");
    assert_string_equal(said(the_core_lasts), "");
    assert_string_equal(said(deep), "");
    assert_string_equal(said(threads_come_and_go), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_that_last_are_named),
                                       cmocka_unit_test(others_pass)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
