/* launch/hosts/frame.c: see frame.h. */
#define _GNU_SOURCE
#include "launch/hosts/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define HEADER offsetof(launch_frame, text)

void launch_frame_open(launch_frame_link *l, int in, int out)
{
    *l = (launch_frame_link){.in = in, .out = out};
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

void launch_frame_close(launch_frame_link *l)
{
    if (l->in >= 0)
        close(l->in);
    if (l->out >= 0 && l->out != l->in)
        close(l->out);
    if (l->queue)
        explicit_bzero(l->queue, l->capacity); /* a key may be in it */
    free(l->queue);
    *l = (launch_frame_link){.in = -1, .out = -1, .broken = true, .deaf = true};
}

static void append(launch_frame_link *l, const void *from, size_t bytes)
{
    if (l->queued + bytes > l->capacity) {
        const size_t capacity = 2 * (l->queued + bytes);
        char *q = mem_alloc(capacity);
        memcpy(q, l->queue ? l->queue : q, l->queued);
        if (l->queue)
            explicit_bzero(l->queue, l->capacity);
        free(l->queue);
        l->queue = q;
        l->capacity = capacity;
    }
    if (bytes)
        memcpy(l->queue + l->queued, from, bytes);
    l->queued += bytes;
}

void launch_frame_send(launch_frame_link *l, uint32_t kind, uint32_t from, uint32_t rank,
                       uint32_t code, const void *text, uint32_t bytes)
{
    const uint32_t header[] = {kind, from, rank, code, bytes, FRAME_MAGIC};
    if (l->deaf || bytes > FRAME_TEXT)
        return;
    append(l, header, sizeof header);
    append(l, text, bytes);
    launch_frame_flush(l);
}

bool launch_frame_flush(launch_frame_link *l)
{
    while (!l->deaf && l->sent < l->queued) {
        const ssize_t n = write(l->out, l->queue + l->sent, l->queued - l->sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        l->deaf = n <= 0;
        l->sent += n > 0 ? (size_t)n : 0;
    }
    l->sent = l->queued = 0;
    return false;
}

/* Bytes until `part` has `want`; false: not yet. */
static bool fill(launch_frame_link *l, size_t want)
{
    while (l->have < want) {
        const ssize_t n = read(l->in, l->part + l->have, want - l->have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return false;
        if (n <= 0) {
            l->broken = true;
            return false;
        }
        l->have += (size_t)n;
    }
    return true;
}

bool launch_frame_receive(launch_frame_link *l, launch_frame *out)
{
    if (l->broken || !fill(l, HEADER))
        return false;
    memcpy(out, l->part, HEADER);
    if (out->magic != FRAME_MAGIC || !out->kind || out->kind >= FRAME_KINDS ||
        out->bytes > FRAME_TEXT) {
        l->broken = l->alien = true;
        return false;
    }
    if (!fill(l, HEADER + out->bytes))
        return false;
    memcpy(out->text, l->part + HEADER, out->bytes);
    out->text[out->bytes] = 0;
    l->have = 0;
    return true;
}
