/* job/wire/address.h: where the store listens and how it is found. */
#ifndef JOB_ADDRESS_H
#define JOB_ADDRESS_H

#include <stddef.h>

#include "job/job.h"

#define STORE_FD_ENV "WEFT_STORE_FD" /* rank 0: the number of an inherited listening socket */

struct addrinfo;

/* The addresses of MASTER_ADDR with MASTER_PORT; freeaddrinfo() gives them back. */
weft_status job_address_resolve(const job_identity *who, struct addrinfo **out);

/* The one local address that this rank listens on, as text: that of the interface which leads to
 * rank 0, or loopback where all ranks are known to be on one machine. */
weft_status job_address_local(const job_identity *who, char *out, size_t room);

/* Is the socket bound to a loopback address? */
bool job_address_is_loopback(int fd);

/* Listen on `fd`, which is bound, for a job of `ranks` ranks. What strangers can make the kernel
 * keep is small: the receive buffer of each connection, and the number of those that wait. 0, or -1
 * with errno. */
int job_listen_guarded(int fd, uint32_t ranks);

/* Give a connection of such a listener, whose rank is admitted, the buffer that values need. */
void job_listen_admitted(int fd);

/* A listening, non-blocking socket: inherited, or bound to MASTER_ADDR alone. */
weft_status job_listen_open(const job_identity *who, int *fd);

#endif
