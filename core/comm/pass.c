/* comm/pass.c: descriptors from process to process of one machine.
 *
 * Idea: each rank has a datagram socket with a name that the kernel chose, and gives its descriptor
 * to each peer in one datagram. Nobody serves anybody, so there is neither order nor thread. What
 * arrives is believed when it holds a secret that this rank told over the authenticated store. */
#define _GNU_SOURCE
#include "comm/pass.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"

typedef struct note {
    uint64_t secret[2];
    uint32_t from, reserved;
} note;

typedef union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
} control;

weft_status pass_open(pass_box *out)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof un;
    *out = (pass_box){.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (out->fd < 0 || bind(out->fd, (void *)&un, sizeof(sa_family_t)) ||
        getsockname(out->fd, (void *)&un, &bytes) || un.sun_path[0] ||
        bytes <= offsetof(struct sockaddr_un, sun_path) + 1 ||
        bytes - offsetof(struct sockaddr_un, sun_path) >= sizeof out->at.name)
        return fail_errno(WEFT_IO, "no socket to take descriptors of device memory by");
    memcpy(out->at.name, un.sun_path + 1, bytes - offsetof(struct sockaddr_un, sun_path) - 1);
    if (getrandom(out->at.secret, sizeof out->at.secret, 0) != sizeof out->at.secret)
        return fail_errno(WEFT_IO, "no random bytes");
    return WEFT_OK;
}

void pass_close(pass_box *b)
{
    if (b->fd >= 0)
        close(b->fd);
    b->fd = -1;
}

weft_status pass_give(const pass_box *b, uint32_t me, const pass_address *to, int fd)
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
    return fail_errno(WEFT_PEER, "the descriptor of this rank's device memory is not taken");
}

weft_status pass_take(const pass_box *b, uint32_t *from, int *fd)
{
    for (;;) {
        note n = {0};
        control c = {0};
        struct iovec io = {&n, sizeof n};
        struct msghdr m = {
            .msg_iov = &io, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c};
        const ssize_t got = recvmsg(b->fd, &m, MSG_CMSG_CLOEXEC);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR
                       ? WEFT_BUSY
                       : fail_errno(WEFT_IO, "taking descriptors of device memory");
        const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS ||
            h->cmsg_len != CMSG_LEN(sizeof *fd))
            continue;
        memcpy(fd, CMSG_DATA(h), sizeof *fd);
        *from = n.from;
        if (got == sizeof n && !memcmp(n.secret, b->at.secret, sizeof n.secret))
            return WEFT_OK;
        close(*fd);
    }
}
