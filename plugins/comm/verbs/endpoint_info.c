/* endpoint_info.c: what the two ends of a connection exchange over the side channel, as bytes: the
 * numbers of queue pairs and rails, address and size of the slots, and for each queue pair its
 * number, first packet, address and MTU. Numbers are little-endian, addresses in network order. */
#include "verbs.h"

#include <string.h>

enum { HEAD = 40, EACH = 28 };
_Static_assert(HEAD + PAIRS * EACH <= ENDPOINT_BYTES, "all queue pairs fit");

void verbs_put(uint8_t *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

uint64_t verbs_get(const uint8_t *at, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

void verbs_put_endpoint_info(const endpoint_info *c, uint8_t out[ENDPOINT_BYTES])
{
    memset(out, 0, ENDPOINT_BYTES);
    const uint32_t head[] = {c->pairs, c->rails, c->slots, c->slot_bytes, c->eager, c->slots_key};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        verbs_put(out + 4 * i, head[i], 4);
    verbs_put(out + 24, c->slots_at, 8);
    verbs_put(out + 32, c->longest, 8);
    for (uint32_t i = 0; i < c->pairs; i++) {
        uint8_t *at = out + HEAD + (size_t)i * EACH;
        const pair_info *p = &c->pair[i];
        memcpy(at, p->gid.raw, 16);
        verbs_put(at + 16, p->number, 4);
        verbs_put(at + 20, p->first, 4);
        verbs_put(at + 24, p->lid, 2);
        at[26] = p->mtu;
        at[27] = p->ethernet;
    }
}

bool verbs_get_endpoint_info(const uint8_t in[ENDPOINT_BYTES], endpoint_info *out)
{
    uint32_t *const head[] = {&out->pairs,      &out->rails, &out->slots,
                              &out->slot_bytes, &out->eager, &out->slots_key};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        *head[i] = (uint32_t)verbs_get(in + 4 * i, 4);
    out->slots_at = verbs_get(in + 24, 8);
    out->longest = verbs_get(in + 32, 8);
    bool good = out->pairs >= 1 && out->pairs <= PAIRS && out->rails >= 1 && out->rails <= RAILS &&
                out->slots >= 4 && out->slots <= SLOTS_MAX && out->slot_bytes >= RECORD &&
                out->slot_bytes <= SLOT_MAX && out->eager <= out->slot_bytes &&
                out->longest >= STRIPE;
    for (uint32_t i = 0; good && i < out->pairs; i++) {
        const uint8_t *at = in + HEAD + (size_t)i * EACH;
        pair_info *p = &out->pair[i];
        memcpy(p->gid.raw, at, 16);
        p->number = (uint32_t)verbs_get(at + 16, 4);
        p->first = (uint32_t)verbs_get(at + 20, 4);
        p->lid = (uint16_t)verbs_get(at + 24, 2);
        p->mtu = at[26];
        p->ethernet = at[27];
        good = p->mtu >= IBV_MTU_256 && p->mtu <= IBV_MTU_4096 && p->number < 1u << 24 &&
               p->first < 1u << 24;
    }
    return good;
}
