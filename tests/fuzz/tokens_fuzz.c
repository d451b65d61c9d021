/* Any bytes as a token file, and as the names of some: refused with words, or every window from it,
 * its documents included, is lawful or refused with words. The first 32 bytes of the input are the
 * first eight words of the header, whose rest is zero, unless the input is as long as a header or
 * shorter than these: then it is the file. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../data/lone.h"
#include "must.h"
#include "stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Tokens of the window and one more, and their places. */
static void check_window(const stream *s, uint64_t start, uint64_t n)
{
    int32_t tokens[17], places[17];
    lone_clear();
    weft_status st = stream_copy(s, start, n + 1, tokens);
    must(st == WEFT_OK || (st == WEFT_DATA && *lone_why));
    for (uint64_t i = 0; st == WEFT_OK && i <= n; i++)
        must(tokens[i] >= 0 && (uint32_t)tokens[i] < s->vocab);
    if (st == WEFT_OK)
        st = stream_places(s, start, n, tokens, places);
    must(st == WEFT_OK || (st == WEFT_DATA && *lone_why));
    for (uint64_t i = 0; st == WEFT_OK && i < n; i++)
        must(places[i] >= 0 && (uint64_t)places[i] <= i);
}

static void use(stream *s, uint64_t sequence)
{
    char identity[STREAM_IDENTITY];
    stream_identify(s, identity);
    must(strlen(identity) < sizeof identity - 1);
    for (uint64_t w = 0; s->count && w < (s->count - 1) / sequence; w++)
        check_window(s, w * sequence, sequence);
}

static void use_file(char *path)
{
    static const char *const boundaries[] = {"index", "begin:0", "end:1"};
    list_part part = {.paths = &path, .n = 1};
    stream s;
    lone_clear();
    if (stream_open(&lone_host, "data.train", &part, &s) != WEFT_OK) {
        must(*lone_why);
        return;
    }
    for (size_t i = 0; i < 3; i++)
        if (stream_set_boundary(&s, boundaries[i]) == WEFT_OK) {
            use(&s, 1);
            use(&s, 16);
        }
    stream_close(&s);
}

/* The bytes as the value of data.train. Names of folders are not tried: they would be read. */
static void use_names(const uint8_t *data, size_t bytes)
{
    char value[256];
    list l;
    if (bytes >= sizeof value || memchr(data, '/', bytes) || memchr(data, '.', bytes))
        return;
    memcpy(value, data, bytes);
    value[bytes] = 0;
    lone_clear();
    if (list_read(&lone_host, "data.train", value, &l) != WEFT_OK) {
        must(*lone_why);
        return;
    }
    must(l.nparts >= 1 && l.nparts <= LIST_PARTS && l.files >= 1);
    for (uint32_t i = 0; i < l.nparts; i++)
        must(l.parts[i].n >= 1 && !l.parts[i].weight == !l.parts[0].weight);
    list_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint8_t zeros[WEFT_TOKENS_HEADER_BYTES];
    char path[64];
    int fd = memfd_create("tokens", MFD_CLOEXEC);
    must(fd >= 0);
    bool whole = bytes >= WEFT_TOKENS_HEADER_BYTES || bytes < 32;
    size_t head = whole ? bytes : 32;
    must(write(fd, data, head) == (ssize_t)head);
    if (!whole)
        must(write(fd, zeros, sizeof zeros - head) == (ssize_t)(sizeof zeros - head) &&
             write(fd, data + head, bytes - head) == (ssize_t)(bytes - head));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    use_file(path);
    use_names(data, bytes);
    must(!lone_blocks);
    close(fd);
    return 0;
}
