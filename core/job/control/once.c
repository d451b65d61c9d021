/* job/control/once.c: see once.h. A socket with an abstract name is the mark: it is no file, and
 * ends with its process. */
#define _GNU_SOURCE
#include "job/control/once.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/number/digest.h"
#include "job/control/control.h"

#define WAIT_S 1 /* so that ranks that are a little later find the mark */

/* Does a process of this user hold the mark? */
static bool is_ours(int fd, const struct sockaddr_un *at, socklen_t n)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return !connect(fd, (const struct sockaddr *)at, n) &&
           !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid();
}

/* *mark: what others find while it is open, or -1. */
static bool is_first(const job_identity *who, const char *text, int *mark)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint64_t h = DIGEST_BEGIN;
    digest_mix(&h, &who->launch, sizeof who->launch);
    digest_mix(&h, text, strlen(text));
    const int chars = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft-%u-%016llx",
                               (unsigned)geteuid(), (unsigned long long)h);
    const socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)chars);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    const bool holds = !bind(fd, (struct sockaddr *)&at, n) && !listen(fd, 128);
    const bool first = holds || !is_ours(fd, &at, n);
    if (!holds)
        close(fd);
    *mark = holds ? fd : -1;
    return first;
}

void job_once_say(const job_identity *who, weft_status st, const char *text)
{
    const bool shared = (st == WEFT_USAGE || st == WEFT_ABSENT) && who->ranks > 1 && who->launch;
    struct timespec left = {.tv_sec = WAIT_S};
    int mark = -1;
    if (job_control_say(text))
        return;
    const bool first = !shared || is_first(who, text, &mark);
    log_line(first ? WEFT_LOG_ERROR : WEFT_LOG_DEBUG, "%s", text);
    while (mark >= 0 && nanosleep(&left, &left))
        continue;
    if (mark >= 0)
        close(mark);
}
