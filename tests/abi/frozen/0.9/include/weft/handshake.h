/* weft/handshake.h: the handshake that authenticates and identifies the peer on a new socket.
 *
 * For transports over sockets. A transport listens on a port that untrusted hosts may reach. A new
 * socket becomes a connection in these steps, which both ends take under one deadline:
 *
 *   dialer (the higher rank)              listener (the lower rank)
 *   connect                               accept
 *   TLS 1.3 handshake with the job's key (weft/host.h), under weft_handshake_label()
 *   hello: my rank, yours, the channel -> waits until the core has asked for that connection
 *                                     <-  answer: welcome, or why not
 *   one byte: the connection is up     ->
 *
 * The hello is inside TLS, so no unauthenticated byte is parsed as a message. A peer that has the
 * job's key may still mismatch: another version, other options, an old attempt. So a listener
 * checks weft_handshake_read() and weft_handshake_expected() before it looks for the connection.
 *
 * An attempt that could not be made, or that the other end closed, is retried after a pause for as
 * long as the core calls ready(): the peer may be late, or its backlog full. An attempt that was
 * rejected by an answer, or that found another key, fails the connection.
 *
 * Nothing here does I/O, allocates, or keeps state between calls; sockets, TLS and clocks are the
 * transport's. A transport may send bytes of its own behind a message (the numbers of its queue
 * pairs). All [any].
 */
#ifndef WEFT_HANDSHAKE_H
#define WEFT_HANDSHAKE_H

#include <weft/base.h>

#include <stdio.h>
#include <string.h>

WEFT_EXTERN_C_BEGIN

#define WEFT_HANDSHAKE_BYTES 32 /* of one message, hello or answer */

/* A message. `code` of a hello belongs to the transport, at most 255: options that must be equal at
 * both ends. In an answer 0 is welcome, and any other value is the reason for rejection. */
typedef struct weft_handshake {
    uint32_t code, rank, peer, channel; /* from `rank` to `peer` */
} weft_handshake;

/* Little-endian numbers on any host. */
static inline void weft_put32(uint8_t *at, uint32_t v)
{
    for (uint32_t i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static inline uint32_t weft_get32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Write a message: the transport's four bytes `magic`, code, three zeros, rank, peer, channel, and
 * zeros. */
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

/* Read one: WEFT_OK, or WEFT_DATA where it does not begin with `magic`; *h is unchanged then. The
 * numbers are unchecked, as the other end sent them. */
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

/* 1: the hello comes from a rank that dials this one, in a job of `ranks`; 0: reject it with a
 * reason. */
static inline int weft_handshake_expected(const weft_handshake *h, uint32_t rank, uint32_t ranks)
{
    return h->rank > rank && h->rank < ranks && h->peer == rank;
}

/* The label of the TLS session: transport, job and listening rank, so that sessions for different
 * uses of the key cannot be confused. Both ends pass the listener's rank. */
static inline void weft_handshake_label(char *out, size_t size, const char *transport,
                                        const char *job, uint32_t listener)
{
    snprintf(out, size, "weft.%s %s %u", transport, job, listener);
}

/* Microseconds from the end of attempt number `attempts` (from 0) to the next: 5 ms, doubled with
 * each attempt up to 640 ms. */
static inline uint64_t weft_handshake_pause_us(uint32_t attempts)
{
    return (uint64_t)5000 << (attempts < 7 ? attempts : 7);
}

/* Microseconds after which a dialer without an answer begins a new attempt: 1 s, doubled up to 8 s.
 * A SYN is lost where the listener's backlog is full. */
static inline uint64_t weft_handshake_answer_us(uint32_t attempts)
{
    return (uint64_t)1000000 << (attempts < 3 ? attempts : 3);
}

/* 1: an unauthenticated socket may be closed to make room for a new one, when all slots are taken.
 * `age_ms` since it was accepted; `heard`: it has sent something; `crowded`: more sockets have sent
 * something than peers are awaited. A silent one keeps its slot for 25 ms; one in the middle of its
 * handshake for 250 ms, or 25 ms when crowded. The peer dials again. */
static inline int weft_handshake_evictable(uint64_t age_ms, int heard, int crowded)
{
    return age_ms >= (uint64_t)(heard && !crowded ? 250 : 25);
}

WEFT_EXTERN_C_END

#endif
