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

#include "base/err.h"
#include "data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(int holds)
{
    if (!holds)
        abort();
}

static void check_window(const data_file *f, weft_status st, const int32_t *tokens,
                         const int32_t *targets, uint64_t n)
{
    if (st != WEFT_OK) {
        must(st == WEFT_DATA && err_text()[0]);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        must(tokens[i] >= 0 && (uint32_t)tokens[i] < f->vocab);
        must(targets[i] >= 0 && (uint32_t)targets[i] < f->vocab);
        must(i + 1 == n || targets[i] == tokens[i + 1]);
    }
}

static void use(const data_file *f, uint64_t sequence)
{
    int32_t tokens[16], targets[16];
    if (data_require(f, sequence) != WEFT_OK)
        return;
    for (uint64_t s = 0; s < 8; s++) {
        check_window(f, data_samples(f, f->count, s << 61, 1, sequence, tokens, targets), tokens,
                     targets, sequence);
    }
    uint64_t windows = data_windows(f, sequence);
    must(windows > 0);
    for (uint64_t w = 0; w < windows; w++) {
        check_window(f, data_window(f, w, sequence, tokens, targets), tokens, targets, sequence);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint8_t zeros[DATA_HEADER_BYTES];
    char path[64];
    data_file f;
    int fd = memfd_create("tokens", MFD_CLOEXEC);
    must(fd >= 0);
    bool whole = bytes >= DATA_HEADER_BYTES || bytes < 20;
    size_t head = whole ? bytes : 20;
    must(write(fd, data, head) == (ssize_t)head);
    if (!whole)
        must(write(fd, zeros, sizeof zeros - 20) == (ssize_t)sizeof zeros - 20 &&
             write(fd, data + head, bytes - head) == (ssize_t)(bytes - head));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    err_clear();
    if (data_open(path, &f) != WEFT_OK) {
        must(err_text()[0]);
    } else {
        must(f.count == (f.map_bytes - DATA_HEADER_BYTES) / 2);
        use(&f, 1);
        use(&f, 16);
        data_close(&f);
    }
    close(fd);
    return 0;
}
