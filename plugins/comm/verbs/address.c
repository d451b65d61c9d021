/* address.c: where a rank listens for side channels, as text from the user, as bytes for the peers,
 * as text in messages. The bytes: magic, family (4 or 6), port, scope, 16 bytes of address, rest
 * zero; all little-endian but the address. What a queue pair needs is told later, to those who have
 * proved themselves (endpoint_info.c). */
#include "verbs.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

static const uint8_t magic[4] = {'w', 'f', 'v', '1'};

weft_status verbs_parse(const weft_host *host, const char *text, endpoint *out)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (!text || text[0] == '\0')
        return verbs_fail(host, WEFT_USAGE, "verbs was given no address to listen on");
    int rc = getaddrinfo(text, NULL, &hints, &found);
    if (rc != 0)
        return verbs_fail(host, WEFT_USAGE,
                          "verbs was to listen on '%.100s', which is no address: %s", text,
                          gai_strerror(rc));
    memset(out, 0, sizeof *out);
    if (found->ai_addrlen <= sizeof *out)
        memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    bool wild = out->any.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&out->v6.sin6_addr)
                                               : out->v4.sin_addr.s_addr == INADDR_ANY;
    if (wild)
        return verbs_fail(host, WEFT_USAGE,
                          "verbs was to listen on '%s', which is every address: name one", text);
    return WEFT_OK;
}

bool verbs_is_loopback(const endpoint *e)
{
    if (e->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&e->v6.sin6_addr);
    return ntohl(e->v4.sin_addr.s_addr) >> 24 == 127;
}

void verbs_pack(const endpoint *e, uint8_t out[ADDRESS])
{
    bool six = e->any.sa_family == AF_INET6;
    memset(out, 0, ADDRESS);
    memcpy(out, magic, sizeof magic);
    out[4] = six ? 6 : 4;
    verbs_put(out + 6, ntohs(six ? e->v6.sin6_port : e->v4.sin_port), 2);
    if (six) {
        verbs_put(out + 8, e->v6.sin6_scope_id, 4);
        memcpy(out + 12, &e->v6.sin6_addr, 16);
    } else {
        memcpy(out + 12, &e->v4.sin_addr, 4);
    }
}

weft_status verbs_unpack(weft_link *l, uint32_t peer, const void *in, uint64_t bytes, endpoint *out)
{
    const uint8_t *b = in;
    memset(out, 0, sizeof *out);
    bool known = b && bytes == ADDRESS && memcmp(b, magic, sizeof magic) == 0;
    if (!known || (b[4] != 4 && b[4] != 6))
        return verbs_fail(l->host, WEFT_DATA,
                          "the address of rank %u is not one of verbs': every rank needs the same "
                          "version of the transport",
                          peer);
    in_port_t port = htons((uint16_t)verbs_get(b + 6, 2));
    if (b[4] == 6) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = port;
        out->v6.sin6_scope_id = (uint32_t)verbs_get(b + 8, 4);
        memcpy(&out->v6.sin6_addr, b + 12, 16);
    } else {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = port;
        memcpy(&out->v4.sin_addr, b + 12, 4);
    }
    return WEFT_OK;
}

socklen_t verbs_length(const endpoint *e)
{
    return e->any.sa_family == AF_INET6 ? sizeof e->v6 : sizeof e->v4;
}

void verbs_print(const endpoint *e, char *out, size_t size)
{
    char host[64] = "?", port[16] = "?";
    if (getnameinfo(&e->any, verbs_length(e), host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        host[0] = '?';
    if (strcmp(port, "0") == 0)
        snprintf(out, size, "%s", host);
    else
        snprintf(out, size, "%s port %s", host, port);
}
