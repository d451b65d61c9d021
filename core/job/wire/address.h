/* job/wire/address.h: where the store listens and how it is found. */
#ifndef JOB_ADDRESS_H
#define JOB_ADDRESS_H

#include <stddef.h>

#include "job/job.h"

#define STORE_FD_ENV "WEFT_STORE_FD" /* rank 0: the number of the inherited listening socket */

struct addrinfo;

/* Resolve MASTER_ADDR with MASTER_PORT; free the result with freeaddrinfo(). */
weft_status job_address_resolve(const job_identity *who, struct addrinfo **out);

/* The one local address that this rank listens on, as text: that of the interface towards rank 0,
 * or loopback where all ranks are known to be on one machine. */
weft_status job_address_local(const job_identity *who, char *out, size_t room);

/* Is the socket bound to a loopback address? */
bool job_address_is_loopback(int fd);

/* Listen on the bound socket `fd` for a job of `ranks` ranks. Limits the kernel memory that
 * unauthenticated peers can occupy: the receive buffer of each connection, and the backlog. 0, or
 * -1 with errno. */
int job_listen_guarded(int fd, uint32_t ranks);

/* Enlarge the receive buffer of a connection whose rank is admitted to the size that values need.
 */
void job_listen_admitted(int fd);

/* A listening, non-blocking socket: inherited, or bound only to MASTER_ADDR. */
weft_status job_listen_open(const job_identity *who, int *fd);

#endif
