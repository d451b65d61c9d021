/* comm/fd_passing.h: descriptors from process to process of one machine. */
#ifndef COMM_FD_PASSING_H
#define COMM_FD_PASSING_H

#include <weft/base.h>

/* Where a rank takes descriptors, and what proves that it was told so; zeroes: nowhere. */
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

/* Give `fd`, which stays the caller's, as rank `me`. WEFT_BUSY: once more a little later. [setup]
 */
weft_status comm_fd_passing_send(const comm_fd_passing_socket *b, uint32_t me,
                                 const comm_fd_passing_address *to, int fd);

/* A descriptor that a process of this user gave who was told the secret; the caller's to close.
 * WEFT_BUSY: there is none now, or 64 datagrams of strangers came first. [setup] */
weft_status comm_fd_passing_receive(const comm_fd_passing_socket *b, uint32_t *from, int *fd);

#endif
