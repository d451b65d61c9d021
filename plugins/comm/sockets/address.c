/* address.c: addresses, as text from the user, as bytes for the peers, as text in messages.
 *
 * The bytes: magic (4), family (4 or 6), 0, port (2), scope (4), address (4 or 16), zeros. Numbers
 * are little-endian; the address is in network order. */
#include "sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

weft_status sockets_parse(const weft_host *host, const char *transport, const char *text,
                          sockets_endpoint *out)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (!text || text[0] == '\0')
        return sockets_fail(host, WEFT_USAGE, "%s was given no address to listen on", transport);
    int rc = getaddrinfo(text, NULL, &hints, &found);
    if (rc != 0)
        return sockets_fail(host, WEFT_USAGE,
                            "%s was asked to listen on '%.100s', which is not an address: %s",
                            transport, text, gai_strerror(rc));
    memset(out, 0, sizeof *out);
    if (found->ai_addrlen <= sizeof *out)
        memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    bool wildcard = out->any.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&out->v6.sin6_addr)
                                                   : out->v4.sin_addr.s_addr == INADDR_ANY;
    if (wildcard)
        return sockets_fail(host, WEFT_USAGE,
                            "%s was asked to listen on '%s', which stands for every address of "
                            "this machine: name one of them",
                            transport, text);
    return WEFT_OK;
}

weft_status sockets_address(const sockets_link *l, void *out, uint64_t *bytes)
{
    uint8_t *at = out;
    const sockets_endpoint *e = &l->bound;
    bool six = e->any.sa_family == AF_INET6;
    uint16_t port = ntohs(six ? e->v6.sin6_port : e->v4.sin_port);
    if (*bytes < SOCKETS_ADDRESS)
        return sockets_fail(l->host, WEFT_USAGE, "an address of %s needs %d bytes, not %llu",
                            l->transport->name, SOCKETS_ADDRESS, (unsigned long long)*bytes);
    memset(at, 0, SOCKETS_ADDRESS);
    memcpy(at, l->transport->address_magic, 4);
    at[4] = six ? 6 : 4;
    at[6] = (uint8_t)(port & 0xff);
    at[7] = (uint8_t)(port >> 8);
    if (six) {
        weft_put32(at + 8, e->v6.sin6_scope_id);
        memcpy(at + 12, &e->v6.sin6_addr, 16);
    } else {
        memcpy(at + 12, &e->v4.sin_addr, 4);
    }
    *bytes = SOCKETS_ADDRESS;
    return WEFT_OK;
}

weft_status sockets_unpack(const sockets_link *l, uint32_t rank, const void *in, uint64_t bytes,
                           sockets_endpoint *out)
{
    const uint8_t *b = in;
    memset(out, 0, sizeof *out);
    bool known = b && bytes == SOCKETS_ADDRESS && memcmp(b, l->transport->address_magic, 4) == 0;
    if (!known || (b[4] != 4 && b[4] != 6))
        return sockets_fail(l->host, WEFT_DATA,
                            "the address of rank %u is not an address of %s: every rank needs the "
                            "same version of the transport",
                            rank, l->transport->name);
    in_port_t port = htons((uint16_t)(b[6] | b[7] << 8));
    if (b[4] == 6) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = port;
        out->v6.sin6_scope_id = weft_get32(b + 8);
        memcpy(&out->v6.sin6_addr, b + 12, 16);
    } else {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = port;
        memcpy(&out->v4.sin_addr, b + 12, 4);
    }
    return WEFT_OK;
}

socklen_t sockets_length(const sockets_endpoint *e)
{
    return e->any.sa_family == AF_INET6 ? sizeof e->v6 : sizeof e->v4;
}

void sockets_print(const sockets_endpoint *e, char *out, size_t size)
{
    char host[64] = "?", port[16] = "?";
    if (getnameinfo(&e->any, sockets_length(e), host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        host[0] = '?';
    if (strcmp(port, "0") == 0)
        snprintf(out, size, "%s", host);
    else
        snprintf(out, size, "%s port %s", host, port);
}
