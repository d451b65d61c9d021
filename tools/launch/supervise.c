/* launch/supervise.c: see supervise.h. */
#define _GNU_SOURCE
#include "launch/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "job/control/control.h"
#include "job/decide/agreement.h"
#include "job/stop.h"
#include "launch/policy.h"
#include "launch/progress.h"
#include "launch/vigil.h"

typedef struct supervisor {
    const job_identity *who;
    const launch_supervise_args *args;
    launch_restarts restarts;
    uint32_t number; /* of the attempt */
    launch_progress *progress;
    sigset_t caught, before;
    int signal_fd, asked; /* asked: the first signal that was passed on */
    pid_t child;
    bool frozen; /* the rank gave no sign of life, and was killed for it */
} supervisor;

#define MARGIN_MS 1000u  /* the other ranks, which go by the same limit, give a rank up first */
#define BEGIN_MS 600000u /* plugins and data from a slow file system */

static weft_status catch_signals(supervisor *s)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU};
    struct sigaction old;
    sigemptyset(&s->caught);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!sigaction(wanted[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaddset(&s->caught, wanted[i]);
    sigprocmask(SIG_BLOCK, &s->caught, &s->before);
    s->signal_fd = signalfd(-1, &s->caught, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signal_fd < 0
               ? err_fail_errno(WEFT_IO, "rank %u cannot watch for signals", s->who->rank)
               : WEFT_OK;
}

/* In the child. Returns only when the program could not be started. The signals stay blocked until
 * the rank handles them (job_stop_catch). */
static void become_rank(const supervisor *s, char *const *argv, pid_t parent)
{
    char text[16];
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        return;
    snprintf(text, sizeof text, "%u", s->number);
    setenv(ATTEMPT_ENV, text, 1);
    snprintf(text, sizeof text, "%d", launch_progress_fd(s->progress));
    setenv(PROGRESS_FD_ENV, text, 1);
    if (fcntl(launch_progress_fd(s->progress), F_SETFD, 0))
        return;
    sigset_t mask = s->before;
    job_agreement_add_signals(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    execv("/proc/self/exe", argv);
}

static weft_status start(supervisor *s, int *pidfd)
{
    char **argv = s->args->arguments(s->args->user, s->restarts.furthest);
    const pid_t parent = getpid();
    weft_status st = WEFT_OK;
    s->child = fork();
    if (!s->child) {
        become_rank(s, argv, parent);
        log_line(WEFT_LOG_ERROR, "cannot start the program again as a rank: %s", strerror(errno));
        _exit(1);
    }
    free(argv);
    if (s->child < 0)
        return err_fail_errno(WEFT_IO, "cannot start rank %u", s->who->rank);
    *pidfd = pidfd_open(s->child, 0);
    if (*pidfd < 0) {
        st = err_fail_errno(WEFT_IO, "cannot watch rank %u", s->who->rank);
        kill(s->child, SIGKILL);
        waitpid(s->child, NULL, 0);
    }
    return st;
}

/* A rank that is stopped, or that a driver or a file system holds in the kernel, cannot hear that
 * the others have given it up, and would keep its place in the job for ever. */
static void end_if_frozen(supervisor *s, launch_vigil *v)
{
    const uint64_t silence = s->who->ranks > 1 ? launch_vigil_silence(v, s->progress) : 0;
    if (s->frozen || !silence)
        return;
    log_line(WEFT_LOG_WARN, "rank %u gives no sign of life for %.1f s and is killed", s->who->rank,
             (double)silence / 1000);
    s->frozen = !kill(s->child, SIGKILL);
}

/* Until the rank has ended; passes signals on meanwhile. */
static void stand_by(supervisor *s, int pidfd, job_control_record *end)
{
    struct pollfd p[2] = {{.fd = pidfd, .events = POLLIN}, {.fd = s->signal_fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    siginfo_t ended = {0};
    launch_vigil v = {.margin_ms = MARGIN_MS, .begin_ms = BEGIN_MS};
    s->frozen = false;
    while (!p[0].revents) {
        poll(p, 2, LAUNCH_VIGIL_MS);
        end_if_frozen(s, &v);
        if (!(p[1].revents & POLLIN) ||
            read(s->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
            continue;
        s->asked = s->asked ? s->asked : (int)info.ssi_signo;
        if (info.ssi_code <= 0) /* of a process; the kernel sends to the whole group */
            kill(s->child, (int)info.ssi_signo);
    }
    waitid(P_PIDFD, (id_t)pidfd, &ended, WEXITED);
    *end =
        (job_control_record){.kind = ended.si_code == CLD_EXITED ? CONTROL_ENDED : CONTROL_KILLED,
                             .rank = s->who->rank,
                             .code = (uint32_t)ended.si_status};
}

/* Waits; a signal ends the wait and the job. */
static void pause_for(supervisor *s, uint32_t seconds)
{
    struct pollfd p = {.fd = s->signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;
    if (seconds && poll(&p, 1, (int)seconds * 1000) > 0 &&
        read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        s->asked = (int)info.ssi_signo;
}

/* How the rank ended, and why: a rank that ends because another one died says so. */
static void describe(const supervisor *s, const job_control_record *end, launch_attempt *a)
{
    char why[PROGRESS_WHY], *out = a->why;
    const size_t capacity = sizeof a->why;
    const char *own = launch_progress_why(s->progress, why);
    a->said = own && !s->frozen && end->kind == CONTROL_ENDED;
    int n = snprintf(out, capacity, "rank %u ", s->who->rank);
    if (s->frozen)
        snprintf(out + n, capacity - (size_t)n, "was frozen, and was killed");
    else
        job_control_describe_end(end, out + n, (uint32_t)(capacity - (size_t)n));
    const size_t used = strlen(out);
    if (*why && !s->frozen && end->kind == CONTROL_ENDED)
        snprintf(out + used, capacity - used, ": %s", why);
    else if (!launch_progress_met(s->progress) && end->kind == CONTROL_ENDED)
        snprintf(out + used, capacity - used, ": it had not met rank 0");
    /* another rank says the same in the next attempt, if all meet it */
    const size_t reason = a->said ? used + 2 + (size_t)(own - why) : 0, end_of = strlen(out);
    a->reason = (uint32_t)(reason < end_of ? reason : end_of);
}

/* Whether the rank is started again. Also logs the decision, on rank 0, on the killed rank, and on
 * ranks that rank 0 cannot speak for, since they have not met it. */
static bool goes_on(supervisor *s, const job_control_record *end, double seconds)
{
    const bool final = end->kind == CONTROL_ENDED && (!end->code || end->code == 2 ||
                                                      end->code == 77 || end->code == STOP_STATUS);
    const uint32_t newest = launch_progress_newest(s->progress);
    const bool speaks =
        !s->who->rank || end->kind == CONTROL_KILLED || !launch_progress_met(s->progress);
    uint32_t pause = 0;
    if (final || s->asked)
        return false;
    if (newest > s->number) { /* it was behind */
        s->number = newest;
        return true;
    }
    launch_attempt a = {.number = s->number,
                        .ranks = s->who->ranks,
                        .rank = s->who->rank,
                        .step = launch_progress_of(s->progress, s->who->rank),
                        .seconds = seconds};
    a.at = a.step;
    describe(s, end, &a);
    const launch_restart next = launch_restarts_next(&s->restarts, &a, &pause);
    if (next == RESTART_END && speaks) {
        launch_restarts_say_end(&s->restarts);
        launch_restarts_print(&s->restarts);
    }
    if (next == RESTART_END)
        return false;
    s->number++;
    if (speaks)
        log_line(WEFT_LOG_WARN, "%s after step %llu began: attempt %u begins%s", a.why,
                 (unsigned long long)a.step, s->number, pause ? " after a pause" : "");
    pause_for(s, pause);
    if (s->restarts.furthest)
        job_stop_later_attempt();
    if (s->asked && speaks) {
        launch_restarts_say_stopped(s->asked, s->number);
        launch_restarts_print(&s->restarts);
    }
    return !s->asked;
}

static int status_of(const supervisor *s, const job_control_record *end)
{
    if (s->asked && end->kind == CONTROL_KILLED && (int)end->code == s->asked)
        return 128 + s->asked;
    return end->kind == CONTROL_ENDED ? (int)end->code : 1;
}

int launch_supervise(const job_identity *who, const launch_supervise_args *args)
{
    supervisor s = {.who = who, .args = args, .number = 1, .signal_fd = -1};
    s.restarts.max = args->max;
    job_control_record end = {.kind = CONTROL_ENDED, .code = 1};
    log_setup(WEFT_LOG_INFO, who->ranks > 1 ? (int)who->rank : -1);
    log_add_time();
    weft_status st = catch_signals(&s);
    for (bool again = true; st == WEFT_OK && again;) {
        const uint64_t began = clock_ms();
        int pidfd = -1;
        st = launch_progress_open(who->rank + 1, &s.progress);
        if (st == WEFT_OK)
            st = start(&s, &pidfd);
        if (st != WEFT_OK)
            break;
        stand_by(&s, pidfd, &end);
        close(pidfd);
        again = goes_on(&s, &end, (double)(clock_ms() - began) * 1e-3);
        launch_progress_keep_folder(s.progress);
        launch_progress_close(s.progress);
        s.progress = NULL;
    }
    if (st != WEFT_OK)
        log_line(WEFT_LOG_ERROR, "%s", err_text());
    launch_progress_close(s.progress);
    launch_restarts_free(&s.restarts);
    if (s.signal_fd >= 0)
        close(s.signal_fd);
    sigprocmask(SIG_SETMASK, &s.before, NULL);
    return st != WEFT_OK ? 1 : status_of(&s, &end);
}
