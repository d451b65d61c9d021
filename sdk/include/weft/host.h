/* weft/host.h: host tables beyond the small one in plugin.h, fetched by id with weft_host.iface().
 * A plugin must work without a table that the host lacks, or fail with a message; it never links a
 * weft library to get one.
 *
 *   "weft.host.tls/1"  authenticate a socket with the job's key
 */
#ifndef WEFT_HOST_H
#define WEFT_HOST_H

#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_tls weft_tls; /* one side of one connection; the host's */

/* TLS 1.3 with a key derived from the job's pre-shared key, over a connected stream socket that the
 * caller owns and has made non-blocking. Both sides must use the same `label`, which separates the
 * uses of the key; a peer without the key learns nothing, and none of its data is parsed. After the
 * handshake the caller either keeps the session and sends its payload through it (encrypted), or
 * ends it and uses the bare socket: the session leaves no byte of its own in the stream. */
typedef struct weft_host_tls {
    uint32_t struct_size, flags;
    void *ctx;

    /* Begin on descriptor `fd` as server or client. `label` is copied. [setup] [progress] */
    weft_status (*start)(void *ctx, int32_t fd, int32_t server, const char *label, weft_tls **out);

    /* Advance the handshake without blocking. WEFT_BUSY: call again when the socket is ready for
     * what wants() returns. A wrong key is WEFT_PEER with a message; WEFT_IO means that the
     * connection ended first, so a new one may succeed. [setup] [progress] */
    weft_status (*handshake)(weft_tls *t);

    /* 1: waits to read, 2: waits to write. [any] */
    int32_t (*wants)(const weft_tls *t);

    /* Transfer up to `bytes`; *done is the number transferred. WEFT_BUSY with *done 0 when the call
     * would block; the end of the stream is WEFT_PEER. [progress] */
    weft_status (*read)(weft_tls *t, void *to, uint64_t bytes, uint64_t *done);
    weft_status (*write)(weft_tls *t, const void *from, uint64_t bytes, uint64_t *done);

    /* Free the session; the socket stays open and is the caller's. NULL is allowed. [any] */
    void (*end)(weft_tls *t);
} weft_host_tls;
WEFT_FREEZE(weft_host_tls, end, 64);

WEFT_EXTERN_C_END

#endif
