/* Whom the watchdog blames, and whom not: each case is a child process that behaves as it says. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
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

/* What the watchdog says about `behave` with these limits; "": it let it pass. */
static const char *said_within(void (*behave)(void), const char *const limits[3])
{
    static char text[4096];
    int ends[2], status;
    ssize_t n = 0, got;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = host_watch_fork();
    if (pid == 0) {
        config *cfg = NULL;
        pipe_to = ends[1];
        close(ends[0]);
        if (config_load(NULL, limits, 3, &cfg) != WEFT_OK)
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

/* With limits of 0.3 s and 0.9 s. */
static const char *said(void (*behave)(void))
{
    static const char *const limits[] = {"run.call_deadline=0.3", "run.setup_deadline=0.9",
                                         "run.stuck_after=2.5"};
    return said_within(behave, limits);
}

/* With 0.3 s at sites, and 1.2 s elsewhere. */
static const char *said_at_sites(void (*behave)(void))
{
    static const char *const limits[] = {"run.call_deadline=1.2", "run.setup_deadline=9",
                                         "run.stuck_after=0.3"};
    return said_within(behave, limits);
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
    call_row row = call_row_begin(100);
    for (uint32_t i = 0; i < 100; i++) {
        call_row_next(&row);
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

/* --- sites --- */

static call_site *sites; /* of a child process */

/* A walk over three sites, as over the kernels of a segment; `ms` is what each takes. */
static void walk(const uint32_t ms[3])
{
    call_site_enter(sites);
    call_enter(&outer_key, "run");
    call_row row = call_row_begin(3);
    for (uint32_t i = 0; i < 3; i++) {
        call_row_next(&row);
        rest(ms[i]);
    }
    call_leave();
    for (uint32_t i = 0; i < 3; i++)
        call_site_count(&sites[i]);
}

static bool where(const void *ctx, const call_site *site, char *out, size_t size)
{
    snprintf(out, size, "%s, site %td", (const char *)ctx, site - sites);
    return true;
}

static void walks(uint32_t n, const uint32_t ms[3])
{
    if (!sites) {
        sites = host_sites_new(3);
        host_watch_place(where, "here");
    }
    while (n-- > 0)
        walk(ms);
}

static const uint32_t brief[] = {1, 1, 1}, usual[] = {1, 150, 1}, third_lasts[] = {1, 1, 20000};

static void site_lasts(void)
{
    walks(3, brief);
    walk(third_lasts);
}

static void new_site_lasts(void)
{
    walks(2, brief);
    walk(third_lasts);
}

/* Five times what it took is 0.75 s. */
static void long_site_takes_three_times(void)
{
    walks(3, usual);
    walk((const uint32_t[]){1, 500, 1});
}

static void long_site_lasts(void)
{
    walks(3, usual);
    walk((const uint32_t[]){1, 20000, 1});
}

/* Five times is more than run.call_deadline. */
static void longer_site_lasts(void)
{
    walks(3, (const uint32_t[]){1, 350, 1});
    walk((const uint32_t[]){1, 20000, 1});
}

static void plugin_within_lasts(void)
{
    walks(3, brief);
    call_site_enter(sites);
    call_enter(&outer_key, "run");
    call_row row = call_row_begin(3);
    for (uint32_t i = 0; i < 3; i++)
        call_row_next(&row);
    in_call(&inner_key, "run", 20000);
}

/* The core's own frame at a site: a wait that looks again and again, and one that does not. */
static void wait_in_core(uint32_t ms, bool ticks)
{
    call_site_enter(&sites[2]);
    call_enter(&core_key, "wait");
    for (const uint64_t until = clock_ms() + ms; clock_ms() < until;) {
        in_call(&inner_key, "progress", 1);
        if (ticks)
            call_tick();
        rest(ticks ? 1 : 20000);
    }
    call_leave();
}

static void core_waits(void)
{
    walks(3, brief);
    wait_in_core(700, true);
}

static void core_lasts(void)
{
    walks(3, brief);
    wait_in_core(700, false);
}

static void away_from_sites(void)
{
    walks(3, brief);
    call_site_enter(NULL);
    in_call(&outer_key, "read", 600);
}

static void freed_sites(void)
{
    walks(3, brief);
    call_enter(&outer_key, "run");
    rest(100);
    host_sites_free(sites);
    rest(400);
    call_leave();
}

/* Stopped twice for 0.4 s, in a call that takes less than 0.1 s itself. */
static void is_stopped(void)
{
    walks(3, brief);
    const pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        for (uint32_t i = 0; i < 2; i++) {
            usleep(20000);
            kill(self, SIGSTOP);
            usleep(400000);
            kill(self, SIGCONT);
        }
        _exit(0);
    }
    walk((const uint32_t[]){1, 1, 860});
    waitpid(pid, NULL, 0);
}

static void calls_at_sites(void **state)
{
    (void)state;
    const char *text = said_at_sites(site_lasts);
    assert_ptr_equal(strstr(text, "here, site 2: run() of the plugin outer (/outer.so) does not "
                                  "return: 0.3 s have passed, all that run.stuck_after allows"),
                     text);
    text = said_at_sites(new_site_lasts);
    assert_ptr_equal(strstr(text, "here, site 2: run() of the plugin outer (/outer.so) does not "
                                  "return: 1.2 s have passed, all that run.call_deadline allows"),
                     text);
    assert_string_equal(said_at_sites(long_site_takes_three_times), "");
    text = said_at_sites(long_site_lasts);
    assert_non_null(strstr(text, "all that run.stuck_after allows; such a call took up to 0.1"));
    assert_non_null(strstr(said_at_sites(longer_site_lasts), "all that run.call_deadline allows"));
    assert_non_null(
        strstr(said_at_sites(plugin_within_lasts), "site 2: run() of the plugin inner"));
    assert_non_null(strstr(said_at_sites(core_lasts), "here, site 2: its thread does not move"));
    assert_string_equal(said_at_sites(core_waits), "");
    assert_string_equal(said_at_sites(away_from_sites), "");
    assert_string_equal(said_at_sites(freed_sites), "");
    assert_string_equal(said_at_sites(is_stopped), "");
}

static void sites_can_be_switched_off(void **state)
{
    (void)state;
    static const char *const no_stuck[] = {"run.call_deadline=1", "run.setup_deadline=9",
                                           "run.stuck_after=0"};
    static const char *const debugger[] = {"run.call_deadline=0", "run.setup_deadline=9",
                                           "run.stuck_after=0.3"};
    assert_non_null(strstr(said_within(site_lasts, no_stuck), "1 s have passed, all that "
                                                              "run.call_deadline allows"));
    assert_string_equal(said_within(core_waits, debugger), "");
    assert_string_equal(said_within(away_from_sites, debugger), "");
    assert_string_equal(said_within(is_stopped, debugger), "");
}

/* --- reading --- */

#define LONG 100u
static call_site many[LONG], one[1];
static _Atomic(call_slot *) watched;
static atomic_bool enough;

static void nested_in_last_piece(call_site *at, uint32_t n)
{
    call_site_enter(at);
    call_enter(&outer_key, "run");
    call_row row = call_row_begin(n);
    for (uint32_t i = 0; i < n; i++)
        call_row_next(&row);
    call_enter(&inner_key, "infer");
    call_leave();
    call_leave();
}

static void *moves(void *unused)
{
    atomic_store(&watched, &host_call_slot);
    while (!atomic_load(&enough)) {
        nested_in_last_piece(many, LONG);
        nested_in_last_piece(one, 1);
    }
    return unused;
}

/* No index of one array of sites is taken for one of the other, whenever the thread is read. */
static void frames_are_read_whole(void **state)
{
    (void)state;
    pthread_t t;
    call_slot *s;
    uint64_t seen[2] = {0};
    assert_int_equal(pthread_create(&t, NULL, moves, NULL), 0);
    while (!(s = atomic_load(&watched)))
        usleep(100);
    while (seen[0] < 300000 || seen[1] < 300000) {
        call_read_frame(s, 0); /* as the watchdog does: the outer one first */
        const call_read r = call_read_frame(s, 1);
        if (!r.number)
            continue;
        if (r.site != &one[0])
            assert_ptr_equal(r.site, &many[LONG - 1]);
        seen[r.site == &one[0]]++;
        assert_ptr_equal(r.key, &inner_key);
    }
    atomic_store(&enough, true);
    pthread_join(t, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_read_whole), cmocka_unit_test(calls_that_last_are_named),
        cmocka_unit_test(others_pass), cmocka_unit_test(calls_at_sites),
        cmocka_unit_test(sites_can_be_switched_off)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
