/* Any bytes as a token file: refused with words, or every sample and window from it is lawful or
 * refused with words. The first 20 bytes of the input are the first five words of the header, whose
 * rest is zero, unless the input is as long as a header: then it is the file. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../data/lone.h"
#include "file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(int holds)
{
    if (!holds)
        abort();
}

static void check_window(const file_tokens *f, weft_status st, const int32_t *tokens,
                         const int32_t *targets, uint64_t n)
{
    if (st != WEFT_OK) {
        must(st == WEFT_DATA && *lone_why);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        must(tokens[i] >= 0 && (uint32_t)tokens[i] < f->vocab);
        must(targets[i] >= 0 && (uint32_t)targets[i] < f->vocab);
        must(i + 1 == n || targets[i] == tokens[i + 1]);
    }
}

static void use(const file_tokens *f, uint64_t sequence)
{
    int32_t tokens[16], targets[16];
    char identity[160];
    file_identify(f, identity);
    must(strlen(identity) < sizeof identity - 1);
    for (uint64_t w = 0; f->count && w < (f->count - 1) / sequence; w++) {
        lone_clear();
        check_window(f, file_copy_window(f, w * sequence, sequence, tokens, targets), tokens,
                     targets, sequence);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint8_t zeros[FILE_HEADER_BYTES];
    char path[64];
    file_tokens f;
    int fd = memfd_create("tokens", MFD_CLOEXEC);
    must(fd >= 0);
    bool whole = bytes >= FILE_HEADER_BYTES || bytes < 20;
    size_t head = whole ? bytes : 20;
    must(write(fd, data, head) == (ssize_t)head);
    if (!whole)
        must(write(fd, zeros, sizeof zeros - 20) == (ssize_t)sizeof zeros - 20 &&
             write(fd, data + head, bytes - head) == (ssize_t)(bytes - head));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    lone_clear();
    if (file_open(&lone_host, "data.train", path, &f) != WEFT_OK) {
        must(*lone_why);
    } else {
        must(f.count == (f.map.bytes - FILE_HEADER_BYTES) / (f.wide ? 4 : 2));
        use(&f, 1);
        use(&f, 16);
        file_close(&f);
    }
    close(fd);
    return 0;
}
