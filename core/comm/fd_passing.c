/* comm/fd_passing.c: passes file descriptors between processes of one machine.
 *
 * Idea: each rank has a datagram socket with an address that the kernel chose, and sends its
 * descriptor to each peer in one datagram. There is no server, hence neither order nor thread. Any
 * process of the machine can send to such an address. A message is accepted only if the kernel says
 * that a process of the same user sent it, and if it has the secret that this rank published in the
 * authenticated store; all other descriptors are closed. */
#define _GNU_SOURCE
#include "comm/fd_passing.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"

#define FOREIGN_MAX 64u /* limit of untrusted datagrams that one call reads */

typedef struct note {
    uint64_t secret[2];
    uint32_t from, reserved;
} note;

typedef union control {
    struct cmsghdr head;
    char capacity[CMSG_SPACE(sizeof(int))];
} control;

/* Room for the sender's credentials and one descriptor. The kernel closes further descriptors. */
typedef union taken {
    struct cmsghdr head;
    char capacity[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
} taken;

weft_status comm_fd_passing_open(comm_fd_passing_socket *out)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof un;
    int on = 1;
    *out = (comm_fd_passing_socket){
        .fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (out->fd < 0 || setsockopt(out->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
        bind(out->fd, (void *)&un, sizeof(sa_family_t)) ||
        getsockname(out->fd, (void *)&un, &bytes) || un.sun_path[0] ||
        bytes <= offsetof(struct sockaddr_un, sun_path) + 1 ||
        bytes - offsetof(struct sockaddr_un, sun_path) >= sizeof out->at.name)
        return err_fail_errno(WEFT_IO, "no socket to take descriptors of device memory by");
    memcpy(out->at.name, un.sun_path + 1, bytes - offsetof(struct sockaddr_un, sun_path) - 1);
    if (getrandom(out->at.secret, sizeof out->at.secret, 0) != sizeof out->at.secret)
        return err_fail_errno(WEFT_IO, "no random bytes");
    return WEFT_OK;
}

void comm_fd_passing_close(comm_fd_passing_socket *b)
{
    if (b->fd >= 0)
        close(b->fd);
    b->fd = -1;
}

weft_status comm_fd_passing_send(const comm_fd_passing_socket *b, uint32_t me,
                                 const comm_fd_passing_address *to, int fd)
{
    note n = {{to->secret[0], to->secret[1]}, me, 0};
    control c = {0};
    struct iovec io = {&n, sizeof n};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const size_t length = strnlen(to->name, sizeof to->name);
    memcpy(un.sun_path + 1, to->name, length);
    struct msghdr m = {.msg_name = &un,
                       .msg_namelen =
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length),
                       .msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = &c,
                       .msg_controllen = sizeof c};
    c.head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&c.head), &fd, sizeof fd);
    if (sendmsg(b->fd, &m, MSG_NOSIGNAL) == sizeof n)
        return WEFT_OK;
    if (errno == EAGAIN || errno == EINTR)
        return WEFT_BUSY;
    return err_fail_errno(WEFT_PEER, "the descriptor of this rank's device memory is not taken");
}

/* The ancillary data of a datagram. */
typedef struct enclosed {
    int fd; /* the last; the ones before it are closed */
    uint32_t fds;
    bool trusted; /* sent by a process of this user */
} enclosed;

static void take_fds(const struct cmsghdr *h, enclosed *out)
{
    const size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
        if (out->fds++)
            close(out->fd);
        memcpy(&out->fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
    }
}

static enclosed open_enclosed(struct msghdr *m)
{
    enclosed e = {.fd = -1};
    struct ucred from;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        if (h->cmsg_level != SOL_SOCKET)
            continue;
        if (h->cmsg_type == SCM_RIGHTS)
            take_fds(h, &e);
        if (h->cmsg_type == SCM_CREDENTIALS && h->cmsg_len == CMSG_LEN(sizeof from)) {
            memcpy(&from, CMSG_DATA(h), sizeof from);
            e.trusted = from.uid == geteuid();
        }
    }
    return e;
}

weft_status comm_fd_passing_receive(const comm_fd_passing_socket *b, uint32_t *from, int *fd)
{
    for (uint32_t foreign = 0; foreign < FOREIGN_MAX; foreign++) {
        note n = {0};
        taken c = {0};
        struct iovec io = {&n, sizeof n};
        struct msghdr m = {
            .msg_iov = &io, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c};
        const ssize_t got = recvmsg(b->fd, &m, MSG_CMSG_CLOEXEC);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR
                       ? WEFT_BUSY
                       : err_fail_errno(WEFT_IO, "taking descriptors of device memory");
        const enclosed e = open_enclosed(&m);
        if (got == sizeof n && e.trusted && e.fds == 1 &&
            !(m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) &&
            !memcmp(n.secret, b->at.secret, sizeof n.secret)) {
            *from = n.from;
            *fd = e.fd;
            return WEFT_OK;
        }
        if (e.fds)
            close(e.fd);
    }
    return WEFT_BUSY;
}
