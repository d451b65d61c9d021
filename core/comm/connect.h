/* comm/connect.h: how ranks find each other, and how they notice that they mean different things.
 */
#ifndef COMM_CONNECT_H
#define COMM_CONNECT_H

#include "comm/engine.h"

/* The local address to listen on, as text, and an id of the job (64 hex digits). */
weft_status comm_connect_names(comm_world *w, char *address, size_t room, char id[65]);

/* FNV-1a, going on from *digest (0: from the beginning). */
void comm_connect_digest(uint64_t *digest, const void *bytes, uint64_t n);

/* What an operation is to all its ranks alike, into the channel's digest. */
void comm_connect_digest_op(comm_channel *c, const sched_request *r);

#endif
