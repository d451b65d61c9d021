/* launch/requests.c: see requests.h. */
#define _GNU_SOURCE
#include "launch/requests.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"
#include "job/decide/agreement.h"
#include "job/stop.h"

weft_status launch_requests_open(launch_requests *r, bool stops)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU, SIGTSTP};
    struct sigaction old, plain = {.sa_handler = SIG_DFL};
    *r = (launch_requests){.fd = -1};
    sigaction(SIGCHLD, &plain, NULL);
    sigemptyset(&r->caught);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!sigaction(wanted[i], NULL, &old) && old.sa_handler != SIG_IGN &&
            ((wanted[i] != SIGUSR1 && wanted[i] != SIGXCPU) || stops))
            sigaddset(&r->caught, wanted[i]);
    sigprocmask(SIG_BLOCK, &r->caught, &r->before);
    r->of_ranks = r->before;
    if (stops)
        job_agreement_add_signals(&r->of_ranks);
    r->fd = signalfd(-1, &r->caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job_stop_interrupted())
        raise(SIGINT);
    if (job_stop_asked())
        raise(job_stop_asked());
    return r->fd < 0 ? err_fail_errno(WEFT_IO, "the launcher cannot watch for signals") : WEFT_OK;
}

launch_request launch_requests_take(launch_requests *r)
{
    struct signalfd_siginfo info;
    if (read(r->fd, &info, sizeof info) != (ssize_t)sizeof info)
        return REQUEST_NONE;
    if (info.ssi_signo == SIGTSTP)
        return REQUEST_PAUSE;
    if (r->asked && info.ssi_signo != SIGINT)
        return REQUEST_NONE;
    const bool first = !r->asked;
    r->asked = (int)info.ssi_signo;
    return first ? REQUEST_PASS : REQUEST_KILL;
}

void launch_requests_pause(void)
{
    raise(SIGSTOP);
}

void launch_requests_close(launch_requests *r)
{
    struct signalfd_siginfo again;
    while (r->asked && read(r->fd, &again, sizeof again) > 0)
        continue;
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    sigprocmask(SIG_SETMASK, &r->before, NULL);
}
