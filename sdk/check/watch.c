/* check/watch.c: results of processes that a plugin ends. See watch.h. */
#define _GNU_SOURCE /* sigabbrev_np */
#include "check/watch.h"

#include "base/time/pressure.h"
#include "check/page.h"
#include "host/call.h"
#include "host/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTERM};
static char other_stack[65536];
static pid_t first; /* the process of the check; others are its ranks */
static bool may_exit;
static uint64_t deadline;

static void add(char *line, size_t size, const char *text)
{
    size_t n = strlen(line);
    for (; *text && n + 1 < size; text++)
        line[n++] = *text;
    line[n] = 0;
}

static void add_call(char *line, size_t size, char own[CHECK_CALL])
{
    const char *name, *path, *call = host_call_current(&name, &path);
    *own = 0;
    if (call) {
        add(own, CHECK_CALL, call);
        add(own, CHECK_CALL, "() of the plugin ");
        add(own, CHECK_CALL, name);
    }
    add(line, size, call ? " during " : " outside of the plugin's calls that the check makes");
    add(line, size, own);
    if (getpid() != first)
        add(line, size, ", in a process that the check started (a rank)");
}

static void on_fatal(int number)
{
    char call[CHECK_CALL], line[512] = "the process was ended by ";
    const char *abbreviation = sigabbrev_np(number);
    add(line, sizeof line, "SIG");
    add(line, sizeof line, abbreviation ? abbreviation : "?");
    add_call(line, sizeof line, call);
    check_page_write(CHECK_CRASH, line, call);
    _exit(1);
}

static void set_alarm(uint64_t ms)
{
    const struct itimerval in = {
        .it_value = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000 + 1)}};
    setitimer(ITIMER_REAL, &in, NULL);
}

/* The alarm comes by the clock on the wall, and the deadline is one of pressure_ms(). */
static void on_alarm(int number)
{
    (void)number;
    const int kept = errno;
    const uint64_t now = pressure_ms();
    if (now < deadline) {
        set_alarm(deadline - now);
        errno = kept;
        return;
    }
    char call[CHECK_CALL], line[512] = "the deadline passed";
    add_call(line, sizeof line, call);
    check_page_write(CHECK_TIMEOUT, line, call);
    _exit(1);
}

static void on_exit_called(void)
{
    char call[CHECK_CALL], line[512] = "the process was ended by exit()";
    if (may_exit)
        return;
    add_call(line, sizeof line, call);
    add(line, sizeof line, "; a plugin may not end the process");
    check_page_write(CHECK_CRASH, line, call);
    _exit(1);
}

void check_watch(uint32_t seconds)
{
    if (!first) {
        first = getpid();
        atexit(on_exit_called);
    }
    stack_t own = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&own, NULL);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        sigaction(fatal[i],
                  &(struct sigaction){.sa_handler = on_fatal, .sa_flags = SA_ONSTACK | SA_NODEFER},
                  NULL);
    sigaction(SIGALRM,
              &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART},
              NULL);
    host_limits_lengthen(PRESSURE_MAX * seconds + CHECK_GRACE_MS / 1000.0);
    deadline = pressure_ms() + seconds * 1000ull;
    set_alarm(seconds * 1000ull);
}

void check_watch_exit(void)
{
    may_exit = true;
    host_crash_main_returns();
}
