/* job/wire/address.c: the address of the store.
 *
 * Our launcher passes a socket that already listens, so no port is chosen twice. Otherwise rank 0
 * binds MASTER_ADDR only, never the wildcard address. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "job/state.h"
#include "job/wire/address.h"

#define BACKLOG_LEAST 512
#define BACKLOG_MOST 1024
#define EARLY_BYTES 2048      /* receive buffer of a connection before its rank is admitted */
#define ADMITTED_BYTES 131072 /* ... and after */

int job_listen_guarded(int fd, uint32_t ranks)
{
    int bytes = EARLY_BYTES;
    uint32_t backlog = ranks + BACKLOG_LEAST < BACKLOG_MOST ? ranks + BACKLOG_LEAST : BACKLOG_MOST;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    return listen(fd, (int)backlog);
}

void job_listen_admitted(int fd)
{
    int bytes = ADMITTED_BYTES;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof bytes);
}

static weft_status inherited(const char *text, uint32_t ranks, int *out)
{
    char *end = NULL;
    errno = 0;
    long fd = strtol(text, &end, 10);
    int listens = 0;
    socklen_t n = sizeof listens;
    if (errno || !*text || *end || fd < 3 || fd > 1 << 20 ||
        getsockopt((int)fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) || !listens)
        return err_fail(WEFT_USAGE, STORE_FD_ENV "='%s' is not the number of a listening socket",
                        text);
    int flags = fcntl((int)fd, F_GETFL);
    if (flags < 0 || fcntl((int)fd, F_SETFL, flags | O_NONBLOCK) ||
        fcntl((int)fd, F_SETFD, FD_CLOEXEC) || job_listen_guarded((int)fd, ranks))
        return err_fail_errno(WEFT_IO, "cannot use the inherited socket %ld", fd);
    *out = (int)fd;
    return WEFT_OK;
}

static bool is_wildcard(const struct sockaddr *a)
{
    static const struct in6_addr any6 = IN6ADDR_ANY_INIT;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == htonl(INADDR_ANY);
    return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &any6, sizeof any6);
}

static bool is_loopback(const struct sockaddr *a)
{
    static const struct in6_addr loop6 = IN6ADDR_LOOPBACK_INIT;
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &loop6, sizeof loop6);
}

/* The socket, or -1 with errno. */
static int bind_one(const struct addrinfo *a, uint32_t ranks)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int on = 1;
    if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
        !bind(fd, a->ai_addr, a->ai_addrlen) && !job_listen_guarded(fd, ranks))
        return fd;
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

static weft_status bind_first(const job_identity *who, const struct addrinfo *list, int *out)
{
    int number = 0;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        if (is_wildcard(a->ai_addr))
            return err_fail(WEFT_USAGE,
                            "MASTER_ADDR=%s means every address of the machine: name the one "
                            "that the other ranks reach rank 0 by",
                            who->addr);
        if (is_loopback(a->ai_addr) && who->local_ranks_said && who->local_ranks < who->ranks)
            return err_fail(WEFT_USAGE,
                            "MASTER_ADDR=%s is this machine's own loopback address here, which "
                            "ranks on other machines cannot reach: give an address of its "
                            "network",
                            who->addr);
        *out = bind_one(a, who->ranks);
        if (*out >= 0)
            return WEFT_OK;
        number = errno;
    }
    errno = number;
    if (number == EADDRINUSE)
        return err_fail(WEFT_USAGE,
                        "port %u of %s is taken by another program, or rank 0 was started twice: "
                        "set MASTER_PORT to a free one on all ranks",
                        who->port, who->addr);
    if (number == EADDRNOTAVAIL)
        return err_fail(WEFT_USAGE,
                        "MASTER_ADDR=%s is not an address of this machine, where rank 0 runs",
                        who->addr);
    return err_fail_errno(WEFT_IO, "rank 0 cannot listen at %s port %u", who->addr, who->port);
}

bool job_address_is_loopback(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    return fd >= 0 && !getsockname(fd, (struct sockaddr *)&a, &n) &&
           is_loopback((struct sockaddr *)&a);
}

weft_status job_address_resolve(const job_identity *who, struct addrinfo **out)
{
    char port[8];
    snprintf(port, sizeof port, "%u", who->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int code = getaddrinfo(who->addr, port, &hints, out);
    if (code)
        return err_fail(WEFT_USAGE, "MASTER_ADDR=%s does not lead to an address: %s", who->addr,
                        gai_strerror(code));
    return WEFT_OK;
}

weft_status job_listen_open(const job_identity *who, int *fd)
{
    const char *text = getenv(STORE_FD_ENV);
    if (text)
        return inherited(text, who->ranks, fd);
    struct addrinfo *list = NULL;
    weft_status st = job_address_resolve(who, &list);
    if (st != WEFT_OK)
        return st;
    st = bind_first(who, list, fd);
    freeaddrinfo(list);
    return st;
}

/* The address of the interface that leads to rank 0's store, read from a connected datagram socket,
 * which sends nothing. */
static int address_towards(const char *name, uint16_t port, char *out, size_t room)
{
    char service[8];
    snprintf(service, sizeof service, "%u", port ? port : 9u);
    struct addrinfo hint = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    if (getaddrinfo(name, service, &hint, &list) != 0)
        return 0;
    int found = 0;
    for (struct addrinfo *a = list; a && !found; a = a->ai_next) {
        struct sockaddr_storage local;
        socklen_t n = sizeof local;
        int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        found = connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&local, &n) == 0 &&
                getnameinfo((struct sockaddr *)&local, n, out, (socklen_t)room, NULL, 0,
                            NI_NUMERICHOST) == 0;
        close(fd);
    }
    freeaddrinfo(list);
    return found;
}

weft_status job_address_local(const job_identity *who, char *out, size_t room)
{
    snprintf(out, room, "127.0.0.1");
    if (who->ranks > 1 && !who->one_machine && !address_towards(who->addr, who->port, out, room))
        return err_fail(WEFT_IO, "no local address has a route to MASTER_ADDR %s; check the name",
                        who->addr);
    return WEFT_OK;
}
