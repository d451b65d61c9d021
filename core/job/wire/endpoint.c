/* job/wire/endpoint.c: see endpoint.h. */
#define _GNU_SOURCE
#include "job/wire/endpoint.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/number/check.h"

typedef struct network {
    int family;
    uint8_t bytes[16];
    uint64_t bits;
} network;

static bool take_port(const char *text, uint16_t *out)
{
    uint64_t v;
    if (!check_number(&text, 65535, &v) || *text || !v)
        return false;
    *out = (uint16_t)v;
    return true;
}

bool job_endpoint_split(const char *text, char *name, size_t capacity, uint16_t *port)
{
    const char *end, *colon = strchr(text, ':');
    *port = 0;
    if (*text == '[') {
        text++;
        end = strchr(text, ']');
        if (!end || (end[1] && (end[1] != ':' || !take_port(end + 2, port))))
            return false;
    } else if (colon && !strchr(colon + 1, ':')) {
        end = colon;
        if (!take_port(colon + 1, port))
            return false;
    } else {
        end = text + strlen(text);
    }
    const size_t n = (size_t)(end - text);
    if (!n || n >= capacity)
        return false;
    memcpy(name, text, n);
    name[n] = 0;
    return true;
}

bool job_endpoint_is_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              strchr(".-_", *c) || (*c & 0x80)))
            return false;
    return *name && *name != '.';
}

/* The bytes of an address in network order, 4 or 16; those of a mapped one are 4. 0: neither. */
static size_t bytes_of(const struct sockaddr *a, const uint8_t **out)
{
    if (a->sa_family == AF_INET) {
        *out = (const uint8_t *)&((const struct sockaddr_in *)a)->sin_addr;
        return 4;
    }
    if (a->sa_family != AF_INET6)
        return 0;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
    const bool mapped = IN6_IS_ADDR_V4MAPPED(six);
    *out = six->s6_addr + (mapped ? 12 : 0);
    return mapped ? 4 : 16;
}

bool job_endpoint_is_wildcard(const struct sockaddr *a)
{
    static const uint8_t zero[16];
    const uint8_t *bytes = zero;
    const size_t n = bytes_of(a, &bytes);
    return n && !memcmp(bytes, zero, n);
}

bool job_endpoint_is_loopback(const struct sockaddr *a)
{
    static const struct in6_addr loop6 = IN6ADDR_LOOPBACK_INIT;
    const uint8_t *bytes = NULL;
    const size_t n = bytes_of(a, &bytes);
    return n == 4 ? bytes[0] == 127 : n == 16 && !memcmp(bytes, &loop6, sizeof loop6);
}

bool job_endpoint_says_loopback(const char *addr)
{
    return !strncmp(addr, "127.", 4) || !strcmp(addr, "::1") || !strcmp(addr, "localhost");
}

bool job_endpoint_print(const struct sockaddr *a, char *out, size_t capacity)
{
    const uint8_t *bytes = NULL;
    const size_t n = bytes_of(a, &bytes);
    if (n == 4)
        return inet_ntop(AF_INET, bytes, out, (socklen_t)capacity) != NULL;
    return n == 16 && !getnameinfo(a, sizeof(struct sockaddr_in6), out, (socklen_t)capacity, NULL,
                                   0, NI_NUMERICHOST);
}

/* --- addresses of this machine --- */

/* "10.8.0.0/16" or "fd00::/8". */
static bool parse_network(const char *text, network *out)
{
    char address[64];
    const char *slash = strchr(text, '/'), *bits = slash ? slash + 1 : "";
    if (!slash || slash - text >= (long)sizeof address)
        return false;
    memcpy(address, text, (size_t)(slash - text));
    address[slash - text] = 0;
    out->family = strchr(address, ':') ? AF_INET6 : AF_INET;
    return check_number(&bits, out->family == AF_INET ? 32 : 128, &out->bits) && !*bits &&
           inet_pton(out->family, address, out->bytes) == 1;
}

static bool is_in(const struct sockaddr *a, const network *n)
{
    const uint8_t *bytes = NULL;
    if (a->sa_family != n->family || !bytes_of(a, &bytes))
        return false;
    const uint64_t whole = n->bits / 8, rest = n->bits % 8;
    const uint8_t mask = (uint8_t)(0xff00 >> rest);
    return !memcmp(bytes, n->bytes, whole) && (!rest || !((bytes[whole] ^ n->bytes[whole]) & mask));
}

/* Does an interface's address serve `want`? 2: at once; 1: if no other does; 0: no. */
static int serves(const struct ifaddrs *i, const char *want, const network *n)
{
    char text[128];
    const int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6)
        return 0;
    if (n)
        return is_in(i->ifa_addr, n) ? 2 : 0;
    if (!strcmp(i->ifa_name, want))
        return family == AF_INET ? 2 : 1;
    return job_endpoint_print(i->ifa_addr, text, sizeof text) && !strcmp(text, want) ? 2 : 0;
}

static bool look_up(const char *want, const network *n, char *out, size_t capacity)
{
    struct ifaddrs *all = NULL;
    int best = 0;
    if (getifaddrs(&all))
        return false;
    for (const struct ifaddrs *i = all; i && best < 2; i = i->ifa_next) {
        const int how = serves(i, want, n);
        if (how > best && job_endpoint_print(i->ifa_addr, out, capacity))
            best = how;
    }
    freeifaddrs(all);
    return best > 0;
}

weft_status job_endpoint_find_own(const char *want, char *out, size_t capacity)
{
    char name[256];
    struct sockaddr_storage any = {.ss_family = AF_INET6};
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *list = NULL;
    uint16_t port = 0;
    network n;
    if (strchr(want, '/') && !parse_network(want, &n))
        return err_fail(WEFT_USAGE,
                        "[run] address = %s is not a network: write ADDRESS/BITS, as 10.8.0.0/16",
                        want);
    if (!strchr(want, '/') && (!job_endpoint_split(want, name, sizeof name, &port) || port))
        return err_fail(WEFT_USAGE,
                        "[run] address = %s is not an address, an interface or a network; each "
                        "transport chooses a port by itself",
                        want);
    const bool numeric = !strchr(want, '/') && !getaddrinfo(name, NULL, &hints, &list);
    if (numeric) {
        memcpy(&any, list->ai_addr, list->ai_addrlen < sizeof any ? list->ai_addrlen : sizeof any);
        freeaddrinfo(list);
        job_endpoint_print((struct sockaddr *)&any, name, sizeof name);
    }
    if (numeric && job_endpoint_is_wildcard((struct sockaddr *)&any))
        return err_fail(WEFT_USAGE,
                        "[run] address = %s means every address of the machine: other ranks need "
                        "one to connect to; `[run] listen` may be a wildcard",
                        want);
    if (!look_up(strchr(want, '/') ? want : name, strchr(want, '/') ? &n : NULL, out, capacity))
        return err_fail(WEFT_USAGE,
                        "[run] address = %s: this machine has no such address, no interface of "
                        "that name and no address in such a network; `ip addr` lists what it has",
                        want);
    return WEFT_OK;
}
