/* saved/stream.c: see stream.h. */
#include "saved/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The bounds of the second byte exclude overlong forms, surrogates and what is above U+10FFFF. */
int saved_stream_character(const char *bytes, uint64_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (!n)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return -1;
    const int length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    const unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < length; i++) {
        if ((uint64_t)i == n)
            return 0;
        if (p[i] < (i == 1 ? low : 0x80) || p[i] > (i == 1 ? high : 0xbf))
            return -i;
    }
    return length;
}

static void put(saved_stream *s, const char *text, uint64_t n)
{
    if (s->to && !s->error && fwrite(text, 1, n, s->to) < n)
        s->error = errno;
    for (uint64_t i = 0; s->keep && i < n; i++)
        *vec_push(&s->text) = text[i];
}

/* Write the first `n` bytes that wait, except for the beginning of a character at their end. */
static void write_certain(saved_stream *s, uint64_t n, bool last)
{
    uint64_t at = 0;
    while (at < n) {
        const int length = saved_stream_character(s->wait.at + at, n - at);
        if (!length && !last)
            break;
        if (length > 0)
            put(s, s->wait.at + at, (uint64_t)length);
        else
            put(s, "\xef\xbf\xbd", 3);
        at += length ? (uint64_t)abs(length) : n - at;
    }
    if (at)
        memmove(s->wait.at, s->wait.at + at, s->wait.n - at);
    s->wait.n -= (uint32_t)at;
    if (s->to && !s->error && fflush(s->to))
        s->error = errno;
}

/* The first place at which a text to stop at stands; the bytes that wait otherwise. */
static uint64_t find_stop(const saved_stream *s)
{
    for (uint64_t at = 0; at < s->wait.n; at++)
        for (uint32_t k = 0; k < s->nstop; k++) {
            const size_t n = strlen(s->stop[k]);
            if (n <= s->wait.n - at && !memcmp(s->wait.at + at, s->stop[k], n))
                return at;
        }
    return s->wait.n;
}

/* Bytes at the end that may begin a text to stop at. */
static uint64_t may_stop(const saved_stream *s)
{
    uint64_t max = 0;
    for (uint32_t k = 0; k < s->nstop; k++) {
        const uint64_t whole = strlen(s->stop[k]);
        uint64_t n = whole - 1 < s->wait.n ? whole - 1 : s->wait.n;
        while (n > max && memcmp(s->wait.at + s->wait.n - n, s->stop[k], n))
            n--;
        max = n > max ? n : max;
    }
    return max;
}

bool saved_stream_add(saved_stream *s, const char *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        *vec_push(&s->wait) = bytes[i];
    const uint64_t stop = find_stop(s);
    const bool found = stop < s->wait.n;
    write_certain(s, found ? stop : s->wait.n - may_stop(s), found);
    if (found)
        s->wait.n = 0;
    return found;
}

void saved_stream_end(saved_stream *s)
{
    write_certain(s, s->wait.n, true);
}

void saved_stream_free(saved_stream *s)
{
    free(s->wait.at);
    free(s->text.at);
    *s = (saved_stream){0};
}
