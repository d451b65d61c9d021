/* job/control/control.c: see control.h. */
#define _GNU_SOURCE
#include "job/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/sealed.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int own_end = -1;

/* The number is trusted only if it names a socket of the kind that the launcher passes. */
static void find_own_end(void)
{
    const int fd = sealed_number(CONTROL_FD_ENV);
    int type = 0, domain = 0;
    socklen_t n = sizeof type, m = sizeof domain;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) || type != SOCK_SEQPACKET ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &m) || domain != AF_UNIX)
        return;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    own_end = fd;
}

int job_control_descriptor(void)
{
    pthread_once(&once, find_own_end);
    return own_end;
}

bool job_control_send(int fd, uint32_t kind, uint32_t rank, uint32_t code, const char *text)
{
    if (fd < 0)
        return false;
    job_control_record r = {.kind = kind, .rank = rank, .code = code};
    snprintf(r.text, sizeof r.text, "%s", text);
    return send(fd, &r, sizeof r, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof r;
}

int job_control_receive(int fd, job_control_record *out)
{
    for (;;) {
        ssize_t n = recv(fd, out, sizeof *out, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        if (n == 0)
            return -1;
        if (n != (ssize_t)sizeof *out)
            continue; /* not one of our records: ignored */
        out->text[CONTROL_TEXT - 1] = 0;
        return 1;
    }
}

void job_control_shorten(char *out, uint32_t bytes, const char *text)
{
    if ((size_t)snprintf(out, bytes, "%s", text) < bytes)
        return;
    static const char end[] = "…";
    out[bytes - sizeof end] = 0;
    char *blank = strrchr(out, ' ');
    memcpy(blank ? blank : out + bytes - sizeof end, end, sizeof end);
}

void job_control_describe_end(const job_control_record *r, char *out, uint32_t bytes)
{
    const char *name = r->kind == CONTROL_KILLED ? sigabbrev_np((int)r->code) : NULL;
    if (r->kind == CONTROL_KILLED)
        snprintf(out, bytes, "was killed by signal %u%s%s%s", r->code, name ? " (SIG" : "",
                 name ? name : "", name ? ")" : "");
    else
        snprintf(out, bytes, "ended by itself with status %u", r->code);
}

bool job_control_say(const char *text)
{
    return job_control_send(job_control_descriptor(), CONTROL_SAY, 0, 0, text);
}
