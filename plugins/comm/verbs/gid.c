/* gid.c: which entry of a port's table of addresses (GIDs) is used.
 *
 * On Ethernet the table has every IP address of a port twice, for RoCE v2 (over UDP, which can be
 * routed) and for v1. The order of preference: the address that this rank listens on; v2 before v1;
 * IPv4 before global IPv6 before link-local. On InfiniBand the first entry is the port's. */
#include "verbs.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static bool is_v4(const union ibv_gid *g)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(g->raw, mapped, sizeof mapped) == 0;
}

static bool is_bound(const union ibv_gid *g, const sockets_endpoint *bound)
{
    if (!bound)
        return false;
    if (bound->any.sa_family == AF_INET6)
        return memcmp(g->raw, &bound->v6.sin6_addr, sizeof g->raw) == 0;
    return is_v4(g) && memcmp(g->raw + 12, &bound->v4.sin_addr, 4) == 0;
}

static int worth(const struct ibv_gid_entry *e, const sockets_endpoint *bound)
{
    int form = is_v4(&e->gid) ? 3 : e->gid.raw[0] == 0xfe && (e->gid.raw[1] & 0xc0) == 0x80 ? 1 : 2;
    int kind = e->gid_type == IBV_GID_TYPE_ROCE_V1 ? 10 : 20;
    return form + kind + (is_bound(&e->gid, bound) ? 100 : 0);
}

/* The index in `table`, or -1 where the port has no entry. */
int verbs_pick_gid(const struct ibv_gid_entry *table, int n, uint32_t port,
                   const sockets_endpoint *bound, bool *exact)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (table[i].port_num == port &&
            (best < 0 || worth(&table[i], bound) > worth(&table[best], bound)))
            best = i;
    *exact = best >= 0 && is_bound(&table[best].gid, bound);
    return best;
}

void verbs_print_gid(const struct ibv_gid_entry *e, char *out, size_t size)
{
    static const char *const kinds[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
    char text[INET6_ADDRSTRLEN] = "?";
    if (is_v4(&e->gid))
        inet_ntop(AF_INET, e->gid.raw + 12, text, sizeof text);
    else
        inet_ntop(AF_INET6, e->gid.raw, text, sizeof text);
    snprintf(out, size, "%s %s", text, kinds[e->gid_type < 3 ? e->gid_type : 0]);
}

void verbs_print_gids(const struct ibv_gid_entry *table, int n, uint32_t port, char *out,
                      size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        char one[80];
        verbs_print_gid(&table[i], one, sizeof one);
        size_t length = strlen(one);
        if (table[i].port_num != port || used + length + 8 > size)
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s%u: %s", used > 0 ? ", " : "",
                                 table[i].gid_index, one);
    }
}
