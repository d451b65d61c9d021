/* comm/names.c: the address that this rank listens on, the job's id, and digests. */
#include <stdio.h>
#include <string.h>

#include "base/number/digest.h"
#include "comm/connect.h"
#include "job/wire/address.h"

weft_status comm_connect_names(comm_world *w, char *address, size_t room, char id[65])
{
    uint8_t key[32] = {0};
    weft_status st = job_address_local(&w->who, address, room);
    if (st == WEFT_OK && w->job)
        st = job_subkey(w->job, "comm job id", key);
    if (st != WEFT_OK)
        return st;
    for (uint32_t i = 0; i < sizeof key; i++)
        snprintf(id + 2 * i, 3, "%02x", key[i]);
    return WEFT_OK;
}

void comm_connect_digest(uint64_t *digest, const void *bytes, uint64_t n)
{
    *digest = *digest ? *digest : DIGEST_BEGIN;
    digest_mix(digest, bytes, n);
}

/* Sends and receives involve two ranks only and are not in the digest: the link compares their
 * lengths. */
void comm_connect_digest_op(comm_channel *c, const sched_request *r)
{
    if (r->kind == WEFT_SEND || r->kind == WEFT_RECV)
        return;
    uint64_t all[] = {r->kind, r->redop, r->dtype, r->count, r->root, r->chunk, r->compress};
    comm_connect_digest(&c->what, all, sizeof all);
    comm_connect_digest(&c->what, r->algorithm, strlen(r->algorithm));
}
