/* doctor/sandbox.c: see sandbox.h. The result comes back through a pipe as JSON. */
#define _GNU_SOURCE
#include "doctor/sandbox.h"
#include "base/mem.h"
#include "base/time/pressure.h"
#include "host/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX (4u << 20)

/* Libraries may print: their standard output is discarded, because --json uses it. */
_Noreturn static void child(json_t *(*what)(void *ctx), void *ctx, int to)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    json_t *found = what(ctx);
    bool told = found && json_dumpfd(found, to, JSON_COMPACT) == 0;
    _exit(told ? 0 : 1);
}

typedef VEC(char) answer;

/* Read until the other end is closed; false: timeout, or too much data. */
static bool read_answer(int fd, uint64_t until, answer *a)
{
    char part[4096];
    for (;;) {
        uint64_t now = pressure_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (now >= until || a->n > ANSWER_MAX)
            return false;
        if (poll(&p, 1, (int)(until - now)) < 0 && errno != EINTR)
            return false;
        if (!p.revents)
            continue;
        ssize_t n = read(fd, part, sizeof part);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        for (ssize_t i = 0; i < n; i++)
            *vec_push(a) = part[i];
    }
}

static json_t *collect(pid_t pid, int fd, uint32_t seconds, char *why, size_t size)
{
    answer a = {0};
    int status = 0;
    bool ended = read_answer(fd, pressure_ms() + seconds * 1000ull, &a);
    if (!ended)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    json_t *found = ended && a.n ? json_loadb(a.at, a.n, 0, NULL) : NULL;
    if (!ended)
        snprintf(why, size, "gave no answer within %u seconds", seconds);
    else if (WIFSIGNALED(status))
        snprintf(why, size, "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (!found)
        snprintf(why, size, "ended with status %d and no answer", WEXITSTATUS(status));
    free(a.at);
    return found;
}

json_t *doctor_run_sandboxed(json_t *(*what)(void *ctx), void *ctx, uint32_t seconds, char *why,
                             size_t size)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        snprintf(why, size, "could not start: no pipe (%s)", strerror(errno));
        return NULL;
    }
    fflush(NULL);
    pid_t pid = host_watch_fork();
    if (pid == 0) {
        close(ends[0]);
        child(what, ctx, ends[1]);
    }
    close(ends[1]);
    json_t *found = NULL;
    if (pid < 0)
        snprintf(why, size, "could not start: no process (%s)", strerror(errno));
    else
        found = collect(pid, ends[0], seconds, why, size);
    close(ends[0]);
    return found;
}
