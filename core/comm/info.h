/* comm/info.h: what a rank puts into the store for the peers of a link: endpoint info, the key of
 * its arena, and two digests for each channel, by which peers check that they have the same
 * operations (startup consistency check). */
#ifndef COMM_INFO_H
#define COMM_INFO_H

#include "comm/engine.h"
#include "comm/fd_passing.h"

#define COMM_INFO_BLOB 4096u

/* Followed by two digests per channel (who, what) and offsets for the device's operations. */
typedef struct comm_info {
    uint32_t magic, channels, places, checked;
    uint64_t address_bytes, key_bytes, arena_bytes, device_bytes;
    comm_fd_passing_address pass; /* the socket that receives descriptors */
    char host[COMM_HOST];
    unsigned char address[COMM_INFO_BLOB], key[COMM_INFO_BLOB];
} comm_info;

/* Adds name and ranks of the channel, or what must be equal on all ranks of the operation, to the
 * channel's digests. [setup] */
void comm_info_digest_channel(comm_channel *c);
void comm_info_digest_op(comm_channel *c, const sched_request *r);

/* `meeting`: number of the call of comm_connect(). *out is freed by the caller. [setup] */
weft_status comm_info_put(comm_link *l, uint32_t meeting, const comm_fd_passing_socket *box);
weft_status comm_info_get(comm_link *l, uint32_t rank, uint32_t meeting, double seconds,
                          comm_info **out);

/* Checks that the peer has this channel, with the same operations. [setup] */
weft_status comm_info_compare(const comm_channel *c, uint32_t peer, const comm_info *theirs);

/* Sets the peer's buffer offsets of an operation that devices execute. [setup] */
weft_status comm_info_find_offsets(comm_op *op, uint32_t peer, const comm_info *theirs);

#endif
