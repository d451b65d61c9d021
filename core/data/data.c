/* data/data.c: opening a token file, and the samples drawn from it. See data.h.
 *
 * The whole file is read once when it is opened, so that every token is known to be below the
 * vocabulary and no lookup needs a check. What cannot be guarded: a file that is cut short in place
 * while it is mapped ends the program with SIGBUS, and one that is rewritten in place can hold
 * tokens that were never checked. Files that are replaced by rename, as `weft data` does, are
 * safe: the mapping keeps the old one. */
#define _GNU_SOURCE
#include "data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/log.h"
#include "base/rng.h"
#include "data/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are read as they stand");

static weft_status not_tokens(const char *path, uint32_t magic)
{
    uint32_t turned = __builtin_bswap32(magic);
    if (turned == DATA_MAGIC_GPT2 || turned == DATA_MAGIC)
        return fail(WEFT_DATA,
                    "data file %s is big-endian; write it again with little-endian numbers", path);
    return fail(WEFT_DATA,
                "data file %s is no token file: it begins with %" PRIu32 " where %u or %u is "
                "expected; `weft data TEXT... -o FILE` makes one",
                path, magic, DATA_MAGIC, DATA_MAGIC_GPT2);
}

/* Vocabulary and token count from the header; the length of the file must agree. */
static weft_status read_header(data_file *f)
{
    uint32_t word[DATA_HEADER_WORDS];
    memcpy(word, f->map, sizeof word);
    if (word[0] != DATA_MAGIC && word[0] != DATA_MAGIC_GPT2)
        return not_tokens(f->path, word[0]);
    if (word[1] != 1)
        return fail(WEFT_DATA, "data file %s has format version %" PRIu32 "; this program reads 1",
                    f->path, word[1]);
    bool own = word[0] == DATA_MAGIC;
    f->vocab = own ? word[3] : DATA_VOCAB_GPT2;
    f->count = own ? (uint64_t)word[4] << 32 | word[2] : word[2];
    if (!f->vocab || f->vocab > 65536)
        return fail(WEFT_DATA,
                    "data file %s gives a vocabulary of %" PRIu32 "; tokens of 16 bits allow 1 to "
                    "65536",
                    f->path, f->vocab);
    if (!f->count)
        return fail(WEFT_DATA, "data file %s holds no tokens", f->path);
    uint64_t need;
    if (!ck_mul(f->count, 2, &need) || !ck_add(need, DATA_HEADER_BYTES, &need) ||
        need != f->map_bytes)
        return fail(WEFT_DATA,
                    "data file %s is %" PRIu64 " bytes long, but its header counts %" PRIu64
                    " tokens of 2 bytes after %u bytes: it was cut short or is damaged",
                    f->path, f->map_bytes, f->count, DATA_HEADER_BYTES);
    return WEFT_OK;
}

/* The largest token first, in a loop that a compiler turns into vector code; only a file that
 * fails is searched for the place. */
static weft_status check_tokens(const data_file *f)
{
    uint16_t largest = 0;
    for (uint64_t i = 0; i < f->count; i++)
        largest = f->tokens[i] > largest ? f->tokens[i] : largest;
    if (largest < f->vocab)
        return WEFT_OK;
    uint64_t at = 0;
    while (at < f->count - 1 && f->tokens[at] < f->vocab)
        at++;
    return fail(WEFT_DATA,
                "data file %s: token number %" PRIu64 " is %u, outside its vocabulary of %" PRIu32,
                f->path, at, f->tokens[at], f->vocab);
}

static weft_status map_file(const char *path, data_file *f)
{
    struct stat st;
    int fd = file_open_regular(AT_FDCWD, path, true, &st);
    if (fd < 0)
        return fail_errno(file_blame(errno), "cannot read data file %s", path);
    if (st.st_size < (off_t)DATA_HEADER_BYTES) {
        close(fd);
        return fail(WEFT_DATA,
                    "data file %s is %lld bytes long, shorter than the header of a token file, "
                    "which is %u; `weft data TEXT... -o FILE` makes one",
                    path, (long long)st.st_size, DATA_HEADER_BYTES);
    }
    f->path = path;
    f->map_bytes = (uint64_t)st.st_size;
    f->map = mmap(NULL, f->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
    int error = errno;
    close(fd);
    if (f->map != MAP_FAILED)
        return WEFT_OK;
    errno = error;
    return fail_errno(error == ENOMEM ? WEFT_NO_MEMORY : WEFT_IO, "cannot map data file %s", path);
}

weft_status data_open(const char *path, data_file *out)
{
    data_file f = {0};
    weft_status st = map_file(path, &f);
    if (st)
        return st;
    st = read_header(&f);
    if (!st) {
        f.tokens = (const uint16_t *)((const char *)f.map + DATA_HEADER_BYTES);
        st = check_tokens(&f);
    }
    if (st) {
        data_close(&f);
        return st;
    }
    *out = f;
    return WEFT_OK;
}

void data_close(data_file *f)
{
    if (f->map)
        munmap(f->map, f->map_bytes);
    *f = (data_file){0};
}

weft_status data_require(const data_file *f, uint64_t sequence)
{
    if (sequence && f->count > sequence)
        return WEFT_OK;
    return fail(WEFT_USAGE,
                "data file %s holds %" PRIu64 " tokens; sequences of %" PRIu64
                " need at least one more than that: give more text, or lower train.sequence",
                f->path, f->count, sequence);
}

/* tokens, targets [sequence] from the window that begins at `start`. */
static void copy_window(const data_file *f, uint64_t start, uint64_t sequence, int32_t *tokens,
                        int32_t *targets)
{
    const uint16_t *from = f->tokens + start;
    for (uint64_t i = 0; i < sequence; i++) {
        tokens[i] = from[i];
        targets[i] = from[i + 1];
    }
}

void data_samples(const data_file *f, uint64_t seed, uint64_t first, uint64_t count,
                  uint64_t sequence, int32_t *tokens, int32_t *targets)
{
    if (f->count <= sequence) { /* the caller skipped data_require() */
        log_line(WEFT_LOG_ERROR, "bug: samples of %" PRIu64 " from %" PRIu64 " tokens", sequence,
                 f->count);
        abort();
    }
    uint64_t key = rng_key(seed, "data.order");
    uint64_t starts = f->count - sequence; /* a window has sequence + 1 tokens */
    for (uint64_t i = 0; i < count; i++)
        copy_window(f, rng_below(key, first + i, starts), sequence, tokens + i * sequence,
                    targets + i * sequence);
}

uint64_t data_windows(const data_file *f, uint64_t sequence)
{
    return sequence && f->count ? (f->count - 1) / sequence : 0;
}

void data_window(const data_file *f, uint64_t w, uint64_t sequence, int32_t *tokens,
                 int32_t *targets)
{
    if (w >= data_windows(f, sequence)) {
        log_line(WEFT_LOG_ERROR, "bug: window %" PRIu64 " of %" PRIu64, w,
                 data_windows(f, sequence));
        abort();
    }
    copy_window(f, w * sequence, sequence, tokens, targets);
}
