/* job/wire/handshake.c: see handshake.h. */
#define _GNU_SOURCE
#include "job/wire/handshake.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "job/control/progress.h"
#include "job/wire/key.h"

#define MAGIC "weft"
#define MAGIC_BYTES 4
#define HEAD_BYTES 8
#define SIZE_AT (HEAD_BYTES + JOB_HANDSHAKE_SALT)

weft_status job_handshake_send(job_greeting *g, int fd, const char *sealed)
{
    const uint32_t n = (uint32_t)strlen(sealed);
    const uint32_t version = htole32(WIRE_PROTOCOL);
    memcpy(g->bytes, MAGIC, MAGIC_BYTES);
    memcpy(g->bytes + MAGIC_BYTES, &version, sizeof version);
    weft_status st = job_key_random(g->bytes + HEAD_BYTES, JOB_HANDSHAKE_SALT);
    if (st != WEFT_OK)
        return st;
    if (n >= MUNGE_TEXT)
        return err_fail(WEFT_INTERNAL, "a sealed key of %u bytes", n);
    g->bytes[SIZE_AT] = (uint8_t)n;
    g->bytes[SIZE_AT + 1] = (uint8_t)(n >> 8);
    memcpy(g->bytes + JOB_HANDSHAKE_BYTES, sealed, n);
    g->got = JOB_HANDSHAKE_BYTES + n;
    if (send(fd, g->bytes, g->got, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)g->got)
        return err_fail(WEFT_IO, "a new connection did not accept the greeting");
    return WEFT_OK;
}

static weft_status check_head(const job_greeting *g)
{
    uint32_t version;
    memcpy(&version, g->bytes + MAGIC_BYTES, sizeof version);
    version = le32toh(version);
    if (memcmp(g->bytes, MAGIC, MAGIC_BYTES) != 0)
        return err_fail(WEFT_USAGE,
                        "what answers there is not rank 0 of weft: another program has the "
                        "port; set MASTER_PORT to a free one on all ranks");
    if (version != WIRE_PROTOCOL)
        return err_fail(
            WEFT_USAGE,
            "rank 0 runs another weft (wire %u) than this rank (wire %u): install the same "
            "on all machines",
            version, WIRE_PROTOCOL);
    return WEFT_OK;
}

/* Bytes of the whole greeting, as far as what was received says. */
static uint32_t expected(const job_greeting *g)
{
    if (g->got < JOB_HANDSHAKE_BYTES)
        return JOB_HANDSHAKE_BYTES;
    return JOB_HANDSHAKE_BYTES + (g->bytes[SIZE_AT] | (uint32_t)g->bytes[SIZE_AT + 1] << 8);
}

weft_status job_handshake_read(job_greeting *g, int fd)
{
    for (uint32_t whole; g->got < (whole = expected(g));) {
        if (whole >= sizeof g->bytes)
            return err_fail(WEFT_USAGE, "rank 0 announces a sealed key of %u bytes",
                            whole - JOB_HANDSHAKE_BYTES);
        ssize_t n = recv(fd, g->bytes + g->got, whole - g->got, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WEFT_BUSY;
        if (n <= 0)
            return err_fail(WEFT_IO, "it closed the connection");
        g->got += (uint32_t)n;
        if (g->got >= HEAD_BYTES && g->got - (uint32_t)n < HEAD_BYTES && check_head(g) != WEFT_OK)
            return WEFT_USAGE;
    }
    return WEFT_OK;
}

const char *job_handshake_sealed(job_greeting *g)
{
    g->bytes[g->got] = 0;
    return (const char *)g->bytes + JOB_HANDSHAKE_BYTES;
}

weft_status job_handshake_key(const job_greeting *g, const uint8_t *key, uint8_t psk[32])
{
    return job_key_derive(key, g->bytes + HEAD_BYTES, "tls", "store", psk);
}

weft_status job_handshake_open(const job_greeting *g, const uint8_t *key, job_tls_context *c,
                               bool server, job_wire *w)
{
    uint8_t psk[KEY_BYTES];
    weft_status st = job_handshake_key(g, key, psk);
    if (st == WEFT_OK)
        st = job_wire_open(w, c, w->fd, server, psk);
    explicit_bzero(psk, sizeof psk);
    return st;
}

void job_handshake_hello(job_wire *w, const job_identity *who, uint64_t process,
                         const job_place *at)
{
    job_wire_hello h = {.rank = who->rank,
                        .ranks = who->ranks,
                        .process = process,
                        .launch = who->launch,
                        .attempt = job_attempt_number(),
                        .at = *at};
    uint8_t body[HELLO_BYTES];
    job_wire_version(h.version);
    job_wire_host(h.host);
    job_wire_pack_hello(&h, body);
    job_wire_send(w, WIRE_HELLO, 0, 0, body, sizeof body);
}
