#ifndef WEFT_HANDSHAKE_H
#define WEFT_HANDSHAKE_H
#include <stdio.h>
#include <string.h>
#include <weft/base.h>
WEFT_EXTERN_C_BEGIN
#define WEFT_HANDSHAKE_BYTES 32
typedef struct weft_handshake {
    uint32_t code, rank, peer, channel;
} weft_handshake;
static inline void weft_put32(uint8_t *at, uint32_t v)
{
    for (uint32_t i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}
static inline uint32_t weft_get32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static inline void weft_handshake_write(uint8_t out[WEFT_HANDSHAKE_BYTES], const char *magic,
                                        const weft_handshake *h)
{
    memset(out, 0, WEFT_HANDSHAKE_BYTES);
    memcpy(out, magic, 4);
    out[4] = (uint8_t)h->code;
    weft_put32(out + 8, h->rank);
    weft_put32(out + 12, h->peer);
    weft_put32(out + 16, h->channel);
}
static inline weft_status weft_handshake_read(const uint8_t in[WEFT_HANDSHAKE_BYTES],
                                              const char *magic, weft_handshake *h)
{
    if (memcmp(in, magic, 4) != 0)
        return WEFT_DATA;
    h->code = in[4];
    h->rank = weft_get32(in + 8);
    h->peer = weft_get32(in + 12);
    h->channel = weft_get32(in + 16);
    return WEFT_OK;
}
static inline int weft_handshake_expected(const weft_handshake *h, uint32_t rank, uint32_t ranks)
{
    return h->rank > rank && h->rank < ranks && h->peer == rank;
}
static inline void weft_handshake_label(char *out, size_t size, const char *transport,
                                        const char *job, uint32_t listener)
{
    snprintf(out, size, "weft.%s %s %u", transport, job, listener);
}
static inline uint64_t weft_handshake_pause_us(uint32_t attempts)
{
    return (uint64_t)5000 << (attempts < 7 ? attempts : 7);
}
static inline uint64_t weft_handshake_answer_us(uint32_t attempts)
{
    return (uint64_t)1000000 << (attempts < 3 ? attempts : 3);
}
static inline int weft_handshake_evictable(uint64_t age_ms, int heard, int crowded)
{
    return age_ms >= (uint64_t)(heard && !crowded ? 250 : 25);
}
WEFT_EXTERN_C_END
#endif
