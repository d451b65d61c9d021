/* loopback.h: sockets of this machine alone. */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Listens at a free port; *at is where. */
static inline int loopback_listen(struct sockaddr_in *at)
{
    socklen_t n = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)at, n) || listen(fd, 1) ||
        getsockname(fd, (struct sockaddr *)at, &n))
        abort();
    return fd;
}

/* A port that was free a moment ago. */
static inline uint16_t loopback_port(void)
{
    struct sockaddr_in at;
    close(loopback_listen(&at));
    return ntohs(at.sin_port);
}

#endif
