/* comm/connect.h: how ranks connect their links, and the startup consistency check of
 * operations. */
#ifndef COMM_CONNECT_H
#define COMM_CONNECT_H

#include "comm/engine.h"

/* The local address to listen on, as text, and the job id (64 hex digits). */
weft_status comm_connect_names(comm_world *w, char *address, size_t room, char id[65]);

/* FNV-1a, continued from *digest (0: start). */
void comm_connect_digest(uint64_t *digest, const void *bytes, uint64_t n);

/* Adds what must be equal on all ranks of the operation to the channel's digest. */
void comm_connect_digest_op(comm_channel *c, const sched_request *r);

#endif
