/* job/wire/wire.c: see wire.h. */
#include "job/wire/wire.h"

#include <endian.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <weft/plugin.h>

#include "base/err.h"
#include "base/mem.h"

#define OUT_KEEP (64u << 10) /* a larger output buffer is freed when it is empty */

void job_wire_put32(uint8_t *to, uint32_t v)
{
    v = htole32(v);
    memcpy(to, &v, 4);
}

uint32_t job_wire_get32(const uint8_t *from)
{
    uint32_t v;
    memcpy(&v, from, 4);
    return le32toh(v);
}

void job_wire_put64(uint8_t *to, uint64_t v)
{
    v = htole64(v);
    memcpy(to, &v, 8);
}

uint64_t job_wire_get64(const uint8_t *from)
{
    uint64_t v;
    memcpy(&v, from, 8);
    return le64toh(v);
}

void job_wire_version(char out[WIRE_VERSION])
{
    memset(out, 0, WIRE_VERSION);
    snprintf(out, WIRE_VERSION, "ABI %u.%u, wire %u", WEFT_ABI_MAJOR, WEFT_ABI_MINOR,
             WIRE_PROTOCOL);
}

void job_wire_host(char out[HOST_BYTES])
{
    struct utsname machine;
    const char *node = getenv("SLURMD_NODENAME");
    memset(out, 0, HOST_BYTES);
    if (!node || !*node)
        node = uname(&machine) ? "unknown" : machine.nodename;
    snprintf(out, HOST_BYTES, "%.63s", node);
}

void job_wire_pack_hello(const job_wire_hello *h, uint8_t out[HELLO_BYTES])
{
    job_wire_put32(out, h->rank);
    job_wire_put32(out + 4, h->ranks);
    job_wire_put64(out + 8, h->process);
    job_wire_put64(out + 16, h->launch);
    job_wire_put32(out + 24, h->attempt);
    job_wire_put32(out + 28, h->at.port);
    memcpy(out + 32, h->version, WIRE_VERSION);
    memcpy(out + 32 + WIRE_VERSION, h->host, HOST_BYTES);
    memcpy(out + 32 + WIRE_VERSION + HOST_BYTES, h->at.address, PLACE_BYTES);
}

static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 32 || *text == 127)
            *text = '?';
}

static void take_text(char *out, const uint8_t *from, uint32_t bytes)
{
    memcpy(out, from, bytes);
    out[bytes - 1] = 0;
    make_printable(out);
}

void job_wire_pack_place(const job_place *at, uint8_t out[JOINED_BYTES])
{
    job_wire_put32(out, at->port);
    memcpy(out + 4, at->address, PLACE_BYTES);
}

bool job_wire_unpack_place(const job_wire_frame *f, job_place *out)
{
    if (f->bytes != JOINED_BYTES || job_wire_get32(f->body) > UINT16_MAX)
        return false;
    out->port = job_wire_get32(f->body);
    take_text(out->address, f->body + 4, PLACE_BYTES);
    return true;
}

bool job_wire_unpack_hello(const job_wire_frame *f, job_wire_hello *out)
{
    if (f->type != WIRE_HELLO || f->bytes != HELLO_BYTES)
        return false;
    out->rank = job_wire_get32(f->body);
    out->ranks = job_wire_get32(f->body + 4);
    out->process = job_wire_get64(f->body + 8);
    out->launch = job_wire_get64(f->body + 16);
    out->attempt = job_wire_get32(f->body + 24);
    out->at.port = job_wire_get32(f->body + 28);
    take_text(out->version, f->body + 32, WIRE_VERSION);
    take_text(out->host, f->body + 32 + WIRE_VERSION, HOST_BYTES);
    take_text(out->at.address, f->body + 32 + WIRE_VERSION + HOST_BYTES, PLACE_BYTES);
    return out->at.port <= UINT16_MAX;
}

bool job_wire_key(const job_wire_frame *f, char key[WIRE_KEY_MAX + 1], const uint8_t **value,
                  uint32_t *value_bytes)
{
    if (f->bytes < 2)
        return false;
    uint32_t n = f->body[0] | (uint32_t)f->body[1] << 8;
    if (n > WIRE_KEY_MAX || n > f->bytes - 2 || memchr(f->body + 2, 0, n))
        return false;
    memcpy(key, f->body + 2, n);
    key[n] = 0;
    *value = f->body + 2 + n;
    *value_bytes = f->bytes - 2 - n;
    return *value_bytes <= WIRE_VALUE_MAX;
}

void job_wire_text(const job_wire_frame *f, char *out, uint32_t bytes)
{
    uint32_t n = f->bytes < bytes - 1 ? f->bytes : bytes - 1;
    memcpy(out, f->body, n);
    out[n] = 0;
    make_printable(out);
}

/* --- the connection --- */

void job_wire_hold(job_wire *w, int fd)
{
    *w = (job_wire){.fd = fd, .limit = HELLO_BYTES};
}

weft_status job_wire_open(job_wire *w, job_tls_context *c, int fd, bool server,
                          const uint8_t psk[32])
{
    job_wire_hold(w, fd);
    /* A heartbeat that is lost is sent again at even intervals, which do not double. */
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
    weft_status st = job_tls_start(c, fd, server, psk, &w->tls);
    if (st != WEFT_OK)
        job_wire_close(w);
    return st;
}

static void drop_body(job_wire *w)
{
    if (w->body != w->small)
        free(w->body);
    w->body = NULL;
}

void job_wire_close(job_wire *w)
{
    drop_body(w);
    free(w->out);
    job_tls_end(w->tls);
    if (w->fd >= 0)
        close(w->fd);
    *w = (job_wire){.fd = -1};
}

static weft_status begin_body(job_wire *w)
{
    w->bytes = job_wire_get32(w->head);
    if (w->bytes > w->limit)
        return err_fail(WEFT_DATA, "a frame of %u bytes came where at most %u are allowed",
                        w->bytes, w->limit);
    w->body = w->bytes <= sizeof w->small ? w->small : mem_alloc(w->bytes);
    return WEFT_OK;
}

weft_status job_wire_take(job_wire *w, job_wire_frame *out)
{
    if (w->fd < 0)
        return err_fail(WEFT_PEER, "the connection is closed");
    if (w->whole) {
        drop_body(w);
        w->whole = false;
        w->got = 0;
    }
    while (w->got < WIRE_HEAD || w->got - WIRE_HEAD < w->bytes) {
        bool in_head = w->got < WIRE_HEAD;
        uint32_t at = in_head ? w->got : w->got - WIRE_HEAD;
        uint8_t *to = in_head ? w->head : w->body;
        uint64_t done = 0;
        weft_status st =
            job_tls_read(w->tls, to + at, (in_head ? WIRE_HEAD : w->bytes) - at, &done);
        if (st != WEFT_OK)
            return st;
        w->got += (uint32_t)done;
        if (in_head && w->got == WIRE_HEAD && (st = begin_body(w)) != WEFT_OK)
            return st;
    }
    w->whole = true;
    *out = (job_wire_frame){w->bytes, job_wire_get32(w->head + 4), job_wire_get32(w->head + 8),
                            job_wire_get32(w->head + 12), w->body};
    return WEFT_OK;
}

/* Reserve `bytes` more at the end of the queue. */
static uint8_t *reserve(job_wire *w, uint64_t bytes)
{
    if (w->sent == w->queued)
        w->sent = w->queued = 0;
    if (w->queued + bytes > w->capacity) {
        w->capacity = (w->queued + bytes) * 2;
        w->out = mem_grow(w->out, w->capacity);
    }
    uint8_t *at = w->out + w->queued;
    w->queued += bytes;
    return at;
}

void job_wire_send2(job_wire *w, uint32_t type, uint32_t arg, uint32_t seq, const void *a,
                    uint32_t a_bytes, const void *b, uint32_t b_bytes)
{
    if (w->fd < 0)
        return;
    uint8_t *to = reserve(w, (uint64_t)WIRE_HEAD + a_bytes + b_bytes);
    job_wire_put32(to, a_bytes + b_bytes);
    job_wire_put32(to + 4, type);
    job_wire_put32(to + 8, arg);
    job_wire_put32(to + 12, seq);
    if (a_bytes)
        memcpy(to + WIRE_HEAD, a, a_bytes);
    if (b_bytes)
        memcpy(to + WIRE_HEAD + a_bytes, b, b_bytes);
}

void job_wire_send(job_wire *w, uint32_t type, uint32_t arg, uint32_t seq, const void *body,
                   uint32_t bytes)
{
    job_wire_send2(w, type, arg, seq, body, bytes, NULL, 0);
}

weft_status job_wire_flush(job_wire *w)
{
    if (w->fd < 0)
        return WEFT_OK;
    while (w->sent < w->queued) {
        uint64_t done = 0;
        weft_status st = job_tls_write(w->tls, w->out + w->sent, w->queued - w->sent, &done);
        if (st != WEFT_OK)
            return st;
        w->sent += done;
    }
    if (w->capacity > OUT_KEEP) {
        free(w->out);
        w->out = NULL;
        w->capacity = 0;
    }
    w->sent = w->queued = 0;
    return WEFT_OK;
}

uint64_t job_wire_unsent(const job_wire *w)
{
    return w->queued - w->sent;
}
