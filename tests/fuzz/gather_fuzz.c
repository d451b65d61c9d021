/* Any bytes as a request to gather (job/store/gather.h): refused, or read, and packed again into
 * bytes that read the same; and joined by a job of eight ranks. The first byte chooses the rank. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/store/gather.h"
#include "must.h"

#define RANKS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void count_reply(void *ctx, uint32_t rank, weft_status st, const void *bytes, uint64_t n)
{
    must(rank < RANKS && (bytes || !n) && (st == WEFT_OK || n));
    ++*(uint32_t *)ctx;
}

static void read_again(const job_gather_request *r, uint32_t rank)
{
    job_gather_request again;
    uint64_t n;
    uint8_t *packed = job_gather_pack(r, &n);
    must(!job_gather_unpack(packed, n, rank, RANKS, &again));
    must(again.n == r->n && again.total == r->total && again.bytes == r->bytes);
    must(!r->bytes || !memcmp(again.fragment, r->fragment, r->bytes));
    for (uint32_t i = 0; r->member && i < r->n; i++)
        must(again.member[i] == r->member[i] && r->member[i] < RANKS);
    free((void *)(uintptr_t)again.member);
    free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!bytes)
        return 0;
    const uint32_t rank = data[0] % RANKS;
    uint8_t *in = malloc(bytes); /* of its own, so that a sanitizer sees a byte behind it */
    must(in != NULL);
    memcpy(in, data + 1, bytes - 1);
    job_gather_request r;
    uint32_t replies = 0;
    job_gathers *g = job_gathers_open(RANKS, count_reply, &replies);
    if (!job_gather_unpack(in, bytes - 1, rank, RANKS, &r)) {
        read_again(&r, rank);
        for (uint32_t i = 0; i < r.n; i++)
            job_gathers_join(g, r.member ? r.member[i] : i, "k", in, bytes - 1, 1);
        must(replies == r.n);
        free((void *)(uintptr_t)r.member);
    } else {
        job_gathers_join(g, rank, "k", in, bytes - 1, 1);
        must(replies == 1);
    }
    job_gathers_close(g);
    free(in);
    return 0;
}
