/* address.c: what address() tells the peers: where the side channel listens, and the address of the
 * UCX worker. UCX trusts an address that it is given, so a damaged one must not reach it.
 *
 * The bytes: the socket's address (32), magic (4), version of UCX (2), zeros (2), bytes of the
 * worker's address (8), digest of all other bytes (8), zeros (8), the worker's address. */
#include "ucx.h"

#include <string.h>

enum { AT_MAGIC = SOCKETS_ADDRESS, AT_VERSION = 36, AT_BYTES = 40, AT_DIGEST = 48, AT_REST = 56 };

static const uint8_t magic[4] = {'w', 'f', 'u', 'W'};

static uint64_t mix(uint64_t digest, const uint8_t *from, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        digest = (digest ^ from[i]) * 0x100000001b3u;
    return digest;
}

static uint64_t digest_of(const uint8_t *address, uint64_t bytes)
{
    return mix(mix(0xcbf29ce484222325u, address, AT_DIGEST), address + AT_REST, bytes - AT_REST);
}

static void put64(uint8_t *at, uint64_t v)
{
    weft_put32(at, (uint32_t)v);
    weft_put32(at + 4, (uint32_t)(v >> 32));
}

static uint64_t get64(const uint8_t *at)
{
    return weft_get32(at) | (uint64_t)weft_get32(at + 4) << 32;
}

weft_status ucx_address(weft_link *l, void *out, uint64_t *bytes)
{
    uint8_t *at = out;
    const uint64_t need = ADDRESS_HEAD + l->address_bytes;
    uint64_t socket_bytes = SOCKETS_ADDRESS;
    if (need > ADDRESS_MAX)
        return sockets_fail(l->net.host, WEFT_UNSUPPORTED,
                            "the address of this rank's UCX worker has %zu bytes, and %d can be "
                            "told: restrict [comm.ucx] devices or tls (%s)",
                            l->address_bytes, ADDRESS_MAX - ADDRESS_HEAD, l->found.names);
    if (*bytes < need)
        return sockets_fail(l->net.host, WEFT_USAGE,
                            "an address of ucx needs %llu bytes here, not %llu",
                            (unsigned long long)need, (unsigned long long)*bytes);
    memset(at, 0, ADDRESS_HEAD);
    weft_status st = sockets_address(&l->net, at, &socket_bytes);
    if (st != WEFT_OK)
        return st;
    memcpy(at + AT_MAGIC, magic, sizeof magic);
    at[AT_VERSION] = (uint8_t)l->module->major;
    at[AT_VERSION + 1] = (uint8_t)l->module->minor;
    put64(at + AT_BYTES, l->address_bytes);
    memcpy(at + ADDRESS_HEAD, l->address, l->address_bytes);
    put64(at + AT_DIGEST, digest_of(at, need));
    *bytes = need;
    return WEFT_OK;
}

weft_status ucx_check_address(weft_link *l, uint32_t rank, const void *address, uint64_t bytes)
{
    const uint8_t *at = address;
    if (!at || bytes <= ADDRESS_HEAD || bytes > ADDRESS_MAX ||
        memcmp(at + AT_MAGIC, magic, sizeof magic) != 0 ||
        get64(at + AT_BYTES) != bytes - ADDRESS_HEAD ||
        get64(at + AT_DIGEST) != digest_of(at, bytes))
        return sockets_fail(l->net.host, WEFT_DATA,
                            "the address of rank %u is not an address of ucx: every rank needs the "
                            "same version of the transport",
                            rank);
    if (at[AT_VERSION] != l->module->major || at[AT_VERSION + 1] != l->module->minor)
        return sockets_fail(l->net.host, WEFT_USAGE,
                            "rank %u has UCX %u.%u and this rank %u.%u: install the same version "
                            "on all machines",
                            rank, at[AT_VERSION], at[AT_VERSION + 1], l->module->major,
                            l->module->minor);
    return WEFT_OK;
}
