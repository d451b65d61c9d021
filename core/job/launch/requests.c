/* job/launch/requests.c: see requests.h. */
#define _GNU_SOURCE
#include "job/launch/requests.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "job/stop.h"

weft_status job_requests_open(job_requests *r, bool stops)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP};
    struct sigaction old, plain = {.sa_handler = SIG_DFL};
    *r = (job_requests){.fd = -1};
    sigaction(SIGCHLD, &plain, NULL);
    sigemptyset(&r->caught);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!sigaction(wanted[i], NULL, &old) && old.sa_handler != SIG_IGN &&
            (wanted[i] != SIGUSR1 || stops))
            sigaddset(&r->caught, wanted[i]);
    sigprocmask(SIG_BLOCK, &r->caught, &r->before);
    r->of_ranks = r->before;
    if (stops) {
        sigaddset(&r->of_ranks, SIGTERM);
        sigaddset(&r->of_ranks, SIGUSR1);
    }
    r->fd = signalfd(-1, &r->caught, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->fd < 0 ? err_fail_errno(WEFT_IO, "the launcher cannot watch for signals") : WEFT_OK;
}

/* The signal repeats the current request. */
static bool is_repeated(job_requests *r, int number)
{
    bool after = r->asked == SIGUSR1 && (number == SIGUSR1 || number == SIGTERM);
    bool same = r->asked == SIGTERM && number == SIGTERM && clock_ms() - r->asked_at < STOP_SAME_MS;
    if (after && number == SIGTERM) {
        r->asked = number; /* the next signal kills */
        r->asked_at = clock_ms();
    }
    return after || same || (r->asked == SIGTERM && number == SIGUSR1);
}

job_request job_requests_take(job_requests *r)
{
    struct signalfd_siginfo info;
    if (read(r->fd, &info, sizeof info) != (ssize_t)sizeof info)
        return REQUEST_NONE;
    if (info.ssi_signo == SIGTSTP)
        return REQUEST_PAUSE;
    if (is_repeated(r, (int)info.ssi_signo))
        return REQUEST_NONE;
    if (r->asked)
        return REQUEST_KILL;
    r->asked = (int)info.ssi_signo;
    r->asked_at = clock_ms();
    return REQUEST_PASS;
}

void job_requests_pause(void)
{
    raise(SIGSTOP);
}

void job_requests_close(job_requests *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    sigprocmask(SIG_SETMASK, &r->before, NULL);
}
