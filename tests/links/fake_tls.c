/* fake_tls.c: a stand-in for the host's TLS. Each side sends eight bytes made of label and key and
 * compares; afterwards a session flips the bits of what it moves, so that a test can tell payload
 * in the clear from payload in the session. */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { TOKEN = 8, FLIP = 0x5a };

struct weft_tls {
    node *owner;
    int fd, wants;
    uint64_t mine, theirs;
    size_t sent, got;
};

static weft_status job_tls_start(void *ctx, int32_t fd, int32_t server, const char *label,
                                 weft_tls **out)
{
    weft_tls *t = calloc(1, sizeof *t);
    uint64_t hash = 1469598103934665603u;
    (void)server;
    t->owner = ctx;
    t->fd = fd;
    for (; *label != '\0'; label++)
        hash = (hash ^ (uint8_t)*label) * 1099511628211u;
    t->mine = (hash ^ t->owner->key) * 1099511628211u;
    *out = t;
    return WEFT_OK;
}

static weft_status end_of(weft_tls *t, ssize_t n, int wants)
{
    t->wants = wants;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WEFT_BUSY;
    return (t->owner->host.fail)(t->owner->host.ctx, WEFT_PEER, "the peer hung up on the fake TLS");
}

/* The same before the peer has shown a key. */
static weft_status cut_off(weft_tls *t, ssize_t n, int wants)
{
    return end_of(t, n, wants) == WEFT_BUSY ? WEFT_BUSY : WEFT_IO;
}

static weft_status job_tls_handshake(weft_tls *t)
{
    while (t->sent < TOKEN) {
        ssize_t n = send(t->fd, (uint8_t *)&t->mine + t->sent, TOKEN - t->sent, MSG_NOSIGNAL);
        if (n <= 0)
            return cut_off(t, n, 2);
        t->sent += (size_t)n;
    }
    while (t->got < TOKEN) {
        ssize_t n = recv(t->fd, (uint8_t *)&t->theirs + t->got, TOKEN - t->got, 0);
        if (n <= 0)
            return cut_off(t, n, 1);
        t->got += (size_t)n;
    }
    if (t->mine != t->theirs)
        return (t->owner->host.fail)(t->owner->host.ctx, WEFT_PEER, "the peer holds another key");
    return WEFT_OK;
}

static int32_t job_tls_wants(const weft_tls *t)
{
    return t->wants;
}

static weft_status job_tls_read(weft_tls *t, void *to, uint64_t bytes, uint64_t *done)
{
    uint8_t *at = to;
    ssize_t n = recv(t->fd, to, bytes < 16384 ? bytes : 16384, 0);
    *done = 0;
    if (n <= 0)
        return end_of(t, n, 1);
    for (ssize_t i = 0; i < n; i++)
        at[i] ^= FLIP;
    *done = (uint64_t)n;
    return WEFT_OK;
}

static weft_status job_tls_write(weft_tls *t, const void *from, uint64_t bytes, uint64_t *done)
{
    uint8_t flipped[16384];
    const uint8_t *at = from;
    size_t size = bytes < sizeof flipped ? bytes : sizeof flipped;
    for (size_t i = 0; i < size; i++)
        flipped[i] = at[i] ^ FLIP;
    ssize_t n = send(t->fd, flipped, size, MSG_NOSIGNAL);
    *done = 0;
    if (n <= 0)
        return end_of(t, n, 2);
    *done = (uint64_t)n;
    return WEFT_OK;
}

static void job_tls_end(weft_tls *t)
{
    free(t);
}

const weft_host_tls *fake_tls(node *n)
{
    static _Thread_local weft_host_tls tables[64]; /* one a rank: the rank is the context */
    weft_host_tls *t = &tables[n->rank % 64];
    *t = (weft_host_tls){.struct_size = sizeof *t,
                         .ctx = n,
                         .start = job_tls_start,
                         .handshake = job_tls_handshake,
                         .wants = job_tls_wants,
                         .read = job_tls_read,
                         .write = job_tls_write,
                         .end = job_tls_end};
    return t;
}
