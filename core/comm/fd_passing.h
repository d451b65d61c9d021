/* comm/fd_passing.h: passing file descriptors between processes of one machine. */
#ifndef COMM_FD_PASSING_H
#define COMM_FD_PASSING_H

#include <weft/base.h>

/* The socket address of a rank, and the secret that a sender must include; zeroes: none. */
typedef struct comm_fd_passing_address {
    char name[16];
    uint64_t secret[2];
} comm_fd_passing_address;

typedef struct comm_fd_passing_socket {
    int fd;
    comm_fd_passing_address at;
} comm_fd_passing_socket;

weft_status comm_fd_passing_open(comm_fd_passing_socket *out); /* closed by comm_fd_passing_close(),
                                                                  also when it fails [setup] */
void comm_fd_passing_close(comm_fd_passing_socket *b);

/* Sends `fd`, which stays the caller's, as rank `me`. WEFT_BUSY: retry a little later. [setup] */
weft_status comm_fd_passing_send(const comm_fd_passing_socket *b, uint32_t me,
                                 const comm_fd_passing_address *to, int fd);

/* A descriptor sent by a process of this user that knows the secret; the caller closes it.
 * WEFT_BUSY: there is none now, or 64 untrusted datagrams came first. [setup] */
weft_status comm_fd_passing_receive(const comm_fd_passing_socket *b, uint32_t *from, int *fd);

#endif
