/* job/wire/address.c: the address of the store.
 *
 * Our launcher passes a socket that already listens, so no port is chosen twice. Otherwise rank 0
 * binds the addresses of MASTER_ADDR, or what [run] listen says; the wildcard only there. */
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
#include "base/log.h"
#include "base/sealed.h"
#include "job/wire/address.h"
#include "job/wire/endpoint.h"

#define BACKLOG_LEAST 512
#define BACKLOG_MAX 8192      /* the system may allow less: net.core.somaxconn */
#define EARLY_BYTES 2048      /* receive buffer of a connection before its rank is admitted */
#define ADMITTED_BYTES 131072 /* ... and after */

int job_listen_guarded(int fd, uint32_t ranks)
{
    int bytes = EARLY_BYTES;
    uint32_t backlog = ranks + BACKLOG_LEAST < BACKLOG_MAX ? ranks + BACKLOG_LEAST : BACKLOG_MAX;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    return listen(fd, (int)backlog);
}

void job_listen_admitted(int fd)
{
    int bytes = ADMITTED_BYTES;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof bytes);
}

static weft_status use_inherited(int fd, uint32_t ranks)
{
    int listens = 0;
    socklen_t n = sizeof listens;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) || !listens)
        return err_fail(WEFT_USAGE, STORE_FD_ENV "='%s' is not the number of a listening socket",
                        getenv(STORE_FD_ENV));
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC) ||
        job_listen_guarded(fd, ranks))
        return err_fail_errno(WEFT_IO, "cannot use the inherited socket %d", fd);
    return WEFT_OK;
}

/* The socket, or -1 with errno. `six`: :: takes no connections of version 4. */
static int bind_one(const struct addrinfo *a, uint32_t ranks, int six)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    const int on = 1;
    if (a->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &six, sizeof six);
    if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
        !bind(fd, a->ai_addr, a->ai_addrlen) && !job_listen_guarded(fd, ranks))
        return fd;
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

/* Does every address lead back to this machine, although not all ranks are known to be on it? */
static bool is_own_loopback(const job_identity *who, const struct addrinfo *list)
{
    bool alone = !who->local_ranks_said || who->local_ranks < who->ranks;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        alone &= job_endpoint_is_loopback(a->ai_addr);
    return alone;
}

static bool is_own_name(const job_resolver *r)
{
    return r->named && !job_endpoint_says_loopback(r->who->addr) &&
           is_own_loopback(r->who, r->list);
}

/* What MASTER_ADDR may not be where rank 0 binds it. */
static weft_status check_master(const job_resolver *r)
{
    const job_identity *who = r->who;
    for (const struct addrinfo *a = r->list; a; a = a->ai_next)
        if (job_endpoint_is_wildcard(a->ai_addr))
            return err_fail(WEFT_USAGE,
                            "MASTER_ADDR=%s means every address of the machine: name the one that "
                            "the other ranks reach rank 0 by; [run] listen = %s lets rank 0 listen "
                            "at all",
                            who->addr, who->addr);
    if (is_own_loopback(who, r->list) && who->local_ranks_said)
        return err_fail(WEFT_USAGE,
                        "MASTER_ADDR=%s is this machine's own loopback address here, which ranks "
                        "on other machines cannot reach: give an address of its network, or set "
                        "[run] listen = 0.0.0.0 if they reach rank 0 by another",
                        who->addr);
    return WEFT_OK;
}

/* Has the list this address before `a`? /etc/hosts may name one twice. */
static bool is_repeated(const struct addrinfo *list, const struct addrinfo *a)
{
    while (list != a && (list->ai_addrlen != a->ai_addrlen ||
                         memcmp(list->ai_addr, a->ai_addr, a->ai_addrlen) != 0))
        list = list->ai_next;
    return list != a;
}

/* Bind every address that this machine has. 0; else an errno, and no socket is open. A port that is
 * taken at one address is an error: ranks would reach another program there. */
static int bind_all(const struct addrinfo *list, uint32_t ranks, job_door *d)
{
    int number = 0;
    for (const struct addrinfo *a = list; a && d->sockets < DOOR_SOCKETS && number != EADDRINUSE;
         a = a->ai_next) {
        const int fd = is_repeated(list, a) ? -1 : bind_one(a, ranks, list->ai_next != NULL);
        if (fd >= 0)
            d->listens[d->sockets++] = fd;
        else if (!is_repeated(list, a))
            number = errno;
    }
    if (d->sockets && number != EADDRINUSE)
        return 0;
    job_door_close(d);
    return number;
}

/* `from`: which setting named the address, and `text` its value. */
static weft_status fail_bind(const job_identity *who, int number, const char *from,
                             const char *text, uint16_t port)
{
    if (number == EADDRINUSE)
        return err_fail(WEFT_USAGE,
                        "port %u of %s is taken by another program, or rank 0 was started twice: "
                        "set MASTER_PORT to a free one on all ranks",
                        port, text);
    if (number == EADDRNOTAVAIL)
        return err_fail(WEFT_USAGE, "%s=%s is not an address of this machine, where rank 0 runs%s",
                        from, text,
                        *who->listen ? ""
                                     : "; if it is right for the other ranks (of a Service, or "
                                       "translated), set [run] listen = 0.0.0.0");
    errno = number;
    return err_fail_errno(WEFT_IO, "rank 0 cannot listen at %s port %u", text, port);
}

bool job_address_is_loopback(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    return fd >= 0 && !getsockname(fd, (struct sockaddr *)&a, &n) &&
           job_endpoint_is_loopback((struct sockaddr *)&a);
}

bool job_address_of_socket(int fd, char *out, size_t capacity)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    return fd >= 0 && !getsockname(fd, (struct sockaddr *)&a, &n) &&
           !job_endpoint_is_wildcard((struct sockaddr *)&a) &&
           job_endpoint_print((struct sockaddr *)&a, out, capacity);
}

/* [run] listen, which need not be resolved. */
static weft_status listen_at(const job_identity *who, job_door *d)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST | AI_PASSIVE};
    struct addrinfo *list = NULL;
    char name[256], text[8];
    uint16_t port;
    if (!job_endpoint_split(who->listen, name, sizeof name, &port))
        return err_fail(WEFT_USAGE, "[run] listen = %s is not ADDRESS or ADDRESS:PORT",
                        who->listen);
    port = port ? port : who->port;
    snprintf(text, sizeof text, "%u", port);
    if (getaddrinfo(name, text, &hints, &list))
        return err_fail(WEFT_USAGE,
                        "[run] listen = %s: '%s' is not an address; rank 0 listens at numeric ones "
                        "only, such as 0.0.0.0 or ::",
                        who->listen, name);
    const int number = bind_all(list, who->ranks, d);
    freeaddrinfo(list);
    return number ? fail_bind(who, number, "[run] listen ", name, port) : WEFT_OK;
}

/* The name of this machine leads to a loopback address here, as 127.0.1.1 on Debian, and elsewhere
 * to another that is not known here. */
static int bind_any(const job_identity *who, job_door *d)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *list = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", who->port);
    if (getaddrinfo(NULL, port, &hints, &list))
        return EADDRNOTAVAIL;
    const int number = bind_all(list, who->ranks, d);
    freeaddrinfo(list);
    if (!number)
        log_line(WEFT_LOG_INFO,
                 "%s is a loopback address in this machine's /etc/hosts, so rank 0 listens at all "
                 "addresses of the machine",
                 who->addr);
    return number;
}

/* MASTER_ADDR. A name may still lead to the machine of an earlier rank 0. */
static weft_status listen_at_master(job_resolver *r, job_door *d)
{
    const job_identity *who = r->who;
    int number = 0;
    weft_status st = job_resolver_start(r);
    while (st == WEFT_OK) {
        const bool own = is_own_name(r);
        st = own ? WEFT_OK : check_master(r);
        number = own ? bind_any(who, d) : st == WEFT_OK ? bind_all(r->list, who->ranks, d) : 0;
        if (number != EADDRNOTAVAIL)
            break;
        st = job_resolver_again(r, "it is not an address of this machine, where rank 0 runs");
    }
    job_resolver_end(r);
    return number ? fail_bind(who, number, "MASTER_ADDR", who->addr, who->port) : st;
}

weft_status job_listen_open(job_resolver *r, job_door *d)
{
    const int fd = sealed_number(STORE_FD_ENV);
    if (fd == -1)
        return *r->who->listen ? listen_at(r->who, d) : listen_at_master(r, d);
    const weft_status st = use_inherited(fd, r->who->ranks);
    d->listens[0] = fd;
    d->sockets = st == WEFT_OK;
    return st;
}

/* The address of the interface that leads to rank 0's store, read from a connected datagram socket,
 * which sends nothing. */
static int address_towards(const char *name, uint16_t port, char *out, size_t capacity)
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
                getnameinfo((struct sockaddr *)&local, n, out, (socklen_t)capacity, NULL, 0,
                            NI_NUMERICHOST) == 0;
        close(fd);
    }
    freeaddrinfo(list);
    return found;
}

weft_status job_address_local(const job_identity *who, char *out, size_t capacity)
{
    const bool apart = who->ranks > 1 && !who->one_machine;
    snprintf(out, capacity, "127.0.0.1");
    if (*who->address && (apart || who->address_said))
        snprintf(out, capacity, "%s", who->address);
    else if (apart && !address_towards(who->addr, who->port, out, capacity))
        return err_fail(WEFT_IO, "no local address has a route to MASTER_ADDR %s; check the name",
                        who->addr);
    return WEFT_OK;
}
