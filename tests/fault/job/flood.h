/* tests/fault/job/flood.h: a stranger who holds many connections to one port.
 *
 * flood_start() forks a process that opens `connections` connections to a port of 127.0.0.1 and
 * then `a_second` new ones each second, for as long as it lives. Each is of one of four kinds, in
 * turn: it says nothing; it sends half of a recorded first flight; it sends the whole of it; it
 * fills the receive buffer. What the other side closes is closed here as well, and its place is
 * taken by the next new one. flood_kernel_bytes() says what the sockets of that port cost the
 * kernel. Include after setjmp.h, stdarg.h and stdlib.h. */
#ifndef TESTS_FAULT_FLOOD_H
#define TESTS_FAULT_FLOOD_H

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLOOD_RECORD 2048 /* bytes of a recorded first flight */
#define FLOOD_SOCKET                                                                               \
    2600u /* bytes of a struct tcp_sock and what hangs on it, without its queues                   \
           */

typedef struct flood {
    uint16_t port;
    uint32_t connections, a_second;
    uint8_t record[FLOOD_RECORD];
    uint32_t record_bytes;
    pid_t pid;
} flood;

typedef struct flood_place {
    int fd;
    bool sent;
} flood_place;

static inline int flood_dial(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)!connect(fd, (struct sockaddr *)&a, sizeof a);
    return fd;
}

/* Send what the kind of connection `i` sends, once it is up; find out whether it was closed. */
static inline void flood_attend(const flood *f, flood_place *p, uint32_t i)
{
    static const uint8_t junk[65536];
    char byte;
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    if (p->fd >= 0 && !p->sent) {
        ssize_t n = 0;
        if (i % 4 == 1 || i % 4 == 2)
            n = send(p->fd, f->record, i % 4 == 1 ? f->record_bytes / 2 : f->record_bytes, flags);
        while (i % 4 == 3 && (n = send(p->fd, junk, sizeof junk, flags)) > 0)
            p->sent = true;
        p->sent |= n > 0;
    }
    while (p->fd >= 0 && recv(p->fd, &byte, 1, MSG_DONTWAIT) == 0) {
        close(p->fd);
        p->fd = -1;
    }
}

static inline void flood_run(const flood *f)
{
    struct rlimit limit;
    flood_place *place = calloc(f->connections, sizeof *place);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (uint32_t i = 0; i < f->connections; i++)
        place[i] = (flood_place){.fd = flood_dial(f->port)};
    for (uint32_t next = 0;; next++) {
        for (uint32_t i = 0; i < f->connections; i++)
            flood_attend(f, &place[i], i);
        flood_place *p = &place[next % f->connections];
        if (p->fd >= 0)
            close(p->fd);
        *p = (flood_place){.fd = flood_dial(f->port)};
        usleep(1000000 / f->a_second);
    }
}

static inline void flood_start(flood *f)
{
    f->pid = fork();
    if (f->pid == 0) {
        flood_run(f);
        _exit(1);
    }
}

static inline void flood_end(const flood *f)
{
    kill(f->pid, SIGKILL);
    waitpid(f->pid, NULL, 0);
}

static inline uint64_t flood_of_message(const struct inet_diag_msg *d, int bytes, uint16_t port)
{
    const struct rtattr *a = (const struct rtattr *)(d + 1);
    uint64_t sum = 0;
    if (ntohs(d->id.idiag_sport) != port)
        return 0;
    for (bytes -= (int)NLMSG_ALIGN(sizeof *d); RTA_OK(a, bytes); a = RTA_NEXT(a, bytes))
        if (a->rta_type == INET_DIAG_SKMEMINFO) {
            const uint32_t *m = RTA_DATA(a);
            sum = FLOOD_SOCKET + (uint64_t)m[SK_MEMINFO_RMEM_ALLOC] + m[SK_MEMINFO_WMEM_ALLOC] +
                  m[SK_MEMINFO_FWD_ALLOC] + m[SK_MEMINFO_BACKLOG];
        }
    return sum;
}

/* Bytes that the kernel keeps for the IPv4 sockets whose own port is `port`, those that nobody has
 * accepted yet among them. */
static inline uint64_t flood_kernel_bytes(uint16_t port)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 req;
    } ask = {.head = {.nlmsg_len = sizeof ask,
                      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             .req = {.sdiag_family = AF_INET,
                     .sdiag_protocol = IPPROTO_TCP,
                     .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
                     .idiag_states = UINT32_MAX}};
    static _Alignas(8) char room[65536];
    uint64_t sum = 0;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), over = fd < 0;
    over = over || send(fd, &ask, sizeof ask, 0) < 0;
    while (!over) {
        ssize_t n = recv(fd, room, sizeof room, 0);
        over = n <= 0;
        int left = (int)n;
        for (const struct nlmsghdr *h = (void *)room; !over && NLMSG_OK(h, (uint32_t)left);
             h = NLMSG_NEXT(h, left)) {
            over = h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR;
            if (!over)
                sum += flood_of_message(NLMSG_DATA(h), (int)NLMSG_PAYLOAD(h, 0), port);
        }
    }
    close(fd);
    return sum;
}

#endif
