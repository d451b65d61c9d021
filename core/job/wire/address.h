/* job/wire/address.h: where the store listens and how it is found. */
#ifndef JOB_ADDRESS_H
#define JOB_ADDRESS_H

#include <stddef.h>

#include "job/job.h"
#include "job/wire/door.h"
#include "job/wire/resolve.h"

#define STORE_FD_ENV "WEFT_STORE_FD" /* rank 0: the number of the inherited listening socket */

/* The one local address that this rank's transports listen on and tell the others, as text: what
 * [run] address names; else loopback where all ranks are known to be on one machine; else that of
 * the interface towards rank 0. A rank that has joined knows it from its connection to rank 0, rank
 * 0 from where it listens, or with a wildcard or several addresses from the first connection that
 * is not local. */
weft_status job_address_local(const job_identity *who, char *out, size_t capacity);

/* Is the socket bound to a loopback address? */
bool job_address_is_loopback(int fd);

/* The local address of a socket as text. False: it is a wildcard, or the socket has none. */
bool job_address_of_socket(int fd, char *out, size_t capacity);

/* Listen on the bound socket `fd` for a job of `ranks` ranks. Limits the kernel memory that
 * unauthenticated peers can occupy: the receive buffer of each connection, and the backlog. 0, or
 * -1 with errno. */
int job_listen_guarded(int fd, uint32_t ranks);

/* Enlarge the receive buffer of a connection whose rank is admitted to the size that values need.
 */
void job_listen_admitted(int fd);

/* Fill the door's sockets, which listen and do not block: the inherited one, one bound to [run]
 * listen, or one for each address of this machine that MASTER_ADDR leads to, since a name may lead
 * to one address of each version and a rank may have only one of them. The name may come late. */
weft_status job_listen_open(job_resolver *r, job_door *d);

#endif
