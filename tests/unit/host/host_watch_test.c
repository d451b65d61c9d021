/* Whom the watchdog blames, and whom not: each case is a child process that behaves as it says. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <test.h>

#include "base/clock.h"
#include "host/call.h"
#include "host/watch.h"

static const char outer_key, inner_key, core_key; /* the last one has no owner */
static int pipe_to;

static bool tell(const char *text)
{
    return write(pipe_to, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A child process, and what the watchdog is to say about it. */
typedef struct played {
    void (*behave)(void);
    const char *const *limits; /* 3 */
    const char *begins, *has;  /* NULL: it lets it pass */
    pid_t pid;
    int out;
    char text[4096];
} played;

#define SAYS(what, within, first, then)                                                            \
    {                                                                                              \
        .behave = (what), .limits = (within), .begins = (first), .has = (then)                     \
    }
#define LETS_PASS(what, within)                                                                    \
    {                                                                                              \
        .behave = (what), .limits = (within)                                                       \
    }

static void play(played *c)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    c->out = ends[0];
    c->pid = host_watch_fork();
    if (c->pid == 0) {
        config *cfg = NULL;
        pipe_to = ends[1];
        close(ends[0]);
        if (config_load(NULL, c->limits, 3, &cfg) != WEFT_OK)
            _exit(3);
        host_limits_set(cfg);
        host_watch_report_to(tell);
        host_call_register(&outer_key, &outer_key, "outer", "/outer.so");
        host_call_register(&inner_key, &inner_key, "inner", "/inner.so");
        host_watch_begin();
        c->behave();
        host_watch_end();
        _exit(0);
    }
    close(ends[1]);
}

/* Wait for its end: it is what the watchdog brings about, or that of `behave`. */
static void collect(played *c)
{
    int status;
    ssize_t n = 0, got;
    while ((got = read(c->out, c->text + n, sizeof c->text - 1 - (size_t)n)) > 0)
        n += got;
    close(c->out);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), n > 0);
}

static void judge(played *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        collect(&c[i]);
        const char *first = c[i].begins ? c[i].begins : "", *then = c[i].has ? c[i].has : "";
        const bool right = strncmp(c[i].text, first, strlen(first)) == 0 && strstr(c[i].text, then);
        if (!right || (!c[i].begins && *c[i].text))
            fail_msg("case %zu: '%s', instead of '%s...%s'", i, c[i].text, first, then);
    }
}

/* What is in order takes a millisecond at a time and lasts longer than a limit, in all: a busy
 * machine can be a second late. What is not in order lasts until the watchdog ends it. */
static const char *const limits[] = {"run.call_deadline=1", "run.setup_deadline=1.5",
                                     "run.stuck_after=2.5"};
static const char *const at_sites[] = {"run.call_deadline=20", "run.setup_deadline=20",
                                       "run.stuck_after=1"};
#define BEYOND 1500u /* ms: more than any limit that is to be passed by */

static void rest(uint32_t ms)
{
    const uint64_t until = clock_ms() + ms;
    for (uint64_t now; (now = clock_ms()) < until;)
        usleep((useconds_t)(until - now) * 1000);
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
    for (const uint64_t until = clock_ms() + 20000; clock_ms() < until;)
        in_call(&inner_key, "infer", 1);
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

/* A thread of low priority and one that never sleeps, on one core. */
static void *never_sleeps(void *unused)
{
    for (const uint64_t until = clock_ms() + 60000; clock_ms() < until;)
        ;
    return unused;
}

static void hardly_runs(uint32_t ms)
{
    cpu_set_t one;
    pthread_t t;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) || pthread_create(&t, NULL, never_sleeps, NULL) ||
        setpriority(PRIO_PROCESS, (id_t)gettid(), 19))
        _exit(4);
    call_enter(&outer_key, "update");
    for (const uint64_t until = clock_ms() + ms; clock_ms() < until;)
        ;
    call_leave();
}

static void one_lasts_and_hardly_runs(void)
{
    hardly_runs(50000);
}

static played lasting[] = {
    SAYS(one_lasts, limits, "update()",
         "() of the plugin outer (/outer.so) does not return: 1 s have passed, all that "
         "run.call_deadline allows"),
    SAYS(inner_lasts, limits, "infer() of the plugin inner (/inner.so)", ""),
    SAYS(outer_is_endless, limits, "edit() of the plugin outer", ""),
    SAYS(the_core_is_inside, limits, "edit() of the plugin outer", ""),
    SAYS(setup_lasts, limits, "", "1.5 s have passed, all that run.setup_deadline"),
    SAYS(in_another_thread, limits, "update() of the plugin outer", ""),
    SAYS(one_lasts_and_hardly_runs, limits, "update() of the plugin outer", "")};

TEST(calls_that_last_are_named)
{
    judge(lasting, sizeof lasting / sizeof *lasting);
}

/* --- calls that are in order --- */

static void many_calls(void)
{
    for (const uint64_t until = clock_ms() + BEYOND; clock_ms() < until;)
        in_call(&outer_key, "run", 1);
}

static void pieces(void)
{
    call_enter(&outer_key, "run");
    host_call_row row = call_row_begin(BEYOND);
    for (uint32_t i = 0; i < BEYOND; i++) {
        call_row_next(&row);
        rest(1);
    }
    call_leave();
}

static void setup_takes_a_while(void)
{
    in_call(&outer_key, "prepare", BEYOND);
}

static void the_core_lasts(void)
{
    in_call(&core_key, "update", BEYOND);
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
    rest(BEYOND);
}

static void *short_call(void *unused)
{
    in_call(&outer_key, "wait", 5);
    return unused;
}

static void threads_come_and_go(void)
{
    for (const uint64_t until = clock_ms() + BEYOND; clock_ms() < until;) {
        pthread_t t[4];
        for (uint32_t k = 0; k < 4; k++)
            if (pthread_create(&t[k], NULL, short_call, NULL))
                _exit(4);
        for (uint32_t k = 0; k < 4; k++)
            pthread_join(t[k], NULL);
    }
}

static void hardly_runs_for_a_while(void)
{
    hardly_runs(BEYOND);
}

static const char *const slow_setup[] = {"run.call_deadline=1", "run.setup_deadline=15",
                                         "run.stuck_after=2.5"};

static played passing[] = {LETS_PASS(many_calls, limits),
                           LETS_PASS(pieces, limits),
                           LETS_PASS(setup_takes_a_while, slow_setup),
                           LETS_PASS(the_core_lasts, limits),
                           LETS_PASS(deep, limits),
                           LETS_PASS(hardly_runs_for_a_while, limits),
                           LETS_PASS(threads_come_and_go, limits)};

TEST(others_pass)
{
    judge(passing, sizeof passing / sizeof *passing);
}

/* --- sites --- */

static host_call_site *sites; /* of a child process */

/* A walk over three sites, as over the kernels of a segment; `ms` is what each takes. */
static void walk(const uint32_t ms[3])
{
    call_site_enter(sites);
    call_enter(&outer_key, "run");
    host_call_row row = call_row_begin(3);
    for (uint32_t i = 0; i < 3; i++) {
        call_row_next(&row);
        rest(ms[i]);
    }
    call_leave();
    for (uint32_t i = 0; i < 3; i++)
        call_site_count(&sites[i]);
}

static bool where(const void *ctx, const host_call_site *site, char *out, size_t size)
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

static const uint32_t brief[] = {1, 1, 1}, third_lasts[] = {1, 1, 20000};

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

/* Five times what it took is 4 s. */
static void long_site_takes_twice(void)
{
    walks(3, (const uint32_t[]){1, 800, 1});
    walk((const uint32_t[]){1, BEYOND, 1});
}

/* Five times is 1.5 s at least. */
static void long_site_lasts(void)
{
    walks(3, (const uint32_t[]){1, 300, 1});
    walk((const uint32_t[]){1, 20000, 1});
}

/* Five times is more than run.call_deadline. */
static void longer_site_lasts(void)
{
    walks(3, (const uint32_t[]){1, 500, 1});
    walk((const uint32_t[]){1, 20000, 1});
}

static void plugin_within_lasts(void)
{
    walks(3, brief);
    call_site_enter(sites);
    call_enter(&outer_key, "run");
    host_call_row row = call_row_begin(3);
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
    wait_in_core(BEYOND, true);
}

static void core_lasts(void)
{
    walks(3, brief);
    wait_in_core(BEYOND, false);
}

static void away_from_sites(void)
{
    walks(3, brief);
    call_site_enter(NULL);
    in_call(&outer_key, "read", BEYOND);
}

static void freed_sites(void)
{
    walks(3, brief);
    call_enter(&outer_key, "run");
    rest(100);
    host_sites_free(sites);
    rest(BEYOND);
    call_leave();
}

/* Stopped twice for 0.8 s, in a call that takes less than 0.1 s itself. */
static void is_stopped(void)
{
    walks(3, brief);
    const pid_t self = getpid();
    call_site_enter(sites);
    call_enter(&outer_key, "run");
    const pid_t pid = fork();
    if (pid == 0) {
        for (uint32_t i = 0; i < 2; i++) {
            usleep(20000);
            kill(self, SIGSTOP);
            usleep(800000);
            kill(self, SIGCONT);
        }
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    call_leave();
}

static const char *const short_calls[] = {"run.call_deadline=2", "run.setup_deadline=9",
                                          "run.stuck_after=1"};
static const char *const no_stuck[] = {"run.call_deadline=1", "run.setup_deadline=9",
                                       "run.stuck_after=0"};
static const char *const debugger[] = {"run.call_deadline=0", "run.setup_deadline=9",
                                       "run.stuck_after=0.3"};

static played long_site = SAYS(long_site_lasts, at_sites, "here, site 1",
                               "all that run.stuck_after allows; such a call took up to ");

static played with_sites[] = {
    SAYS(
        site_lasts, at_sites,
        "here, site 2: run() of the plugin outer (/outer.so) does not return: 1 s have passed, all "
        "that run.stuck_after allows",
        ""),
    SAYS(
        new_site_lasts, short_calls,
        "here, site 2: run() of the plugin outer (/outer.so) does not return: 2 s have passed, all "
        "that run.call_deadline allows",
        ""),
    LETS_PASS(long_site_takes_twice, at_sites),
    SAYS(longer_site_lasts, short_calls, "here, site 1", "all that run.call_deadline allows"),
    SAYS(plugin_within_lasts, at_sites, "here, site 2: run() of the plugin inner", ""),
    SAYS(core_lasts, at_sites, "here, site 2: its thread does not move", ""),
    LETS_PASS(core_waits, at_sites),
    LETS_PASS(away_from_sites, at_sites),
    LETS_PASS(freed_sites, at_sites),
    LETS_PASS(is_stopped, at_sites)};

TEST(calls_at_sites)
{
    judge(with_sites, sizeof with_sites / sizeof *with_sites);
}

/* Its deadline is five times the longest of its calls, which took 0.3 s and what a busy machine
 * adds. */
TEST(a_deadline_follows_the_longest_call)
{
    judge(&long_site, 1);
    const double deadline = strtod(strstr(long_site.text, "return: ") + 8, NULL),
                 longest = strtod(strstr(long_site.text, "took up to ") + 11, NULL);
    if (longest < 0.25 || deadline < 4.7 * longest || deadline > 5.3 * longest)
        fail_msg("%s", long_site.text);
}

static played switched_off[] = {SAYS(site_lasts, no_stuck, "here, site 2",
                                     "1 s have passed, all that run.call_deadline allows"),
                                LETS_PASS(core_waits, debugger),
                                LETS_PASS(away_from_sites, debugger),
                                LETS_PASS(is_stopped, debugger)};

TEST(sites_can_be_switched_off)
{
    judge(switched_off, sizeof switched_off / sizeof *switched_off);
}

static void play_all(played *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        play(&c[i]);
}

/* All at the same time: they sleep. */
static int play_everything(void **state)
{
    (void)state;
    play_all(with_sites, sizeof with_sites / sizeof *with_sites);
    play_all(&long_site, 1);
    play_all(switched_off, sizeof switched_off / sizeof *switched_off);
    play_all(lasting, sizeof lasting / sizeof *lasting);
    play_all(passing, sizeof passing / sizeof *passing);
    return 0;
}

int main(void)
{
    return test_run(play_everything, NULL);
}
