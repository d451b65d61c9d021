/* data/data.c: opens a token file, and draws samples from it. See data.h.
 *
 * Opening reads only the header, however large the file is. Each token is checked against the
 * vocabulary while its window is copied, so no returned token is out of range, even if the file is
 * rewritten in place meanwhile. Not handled: truncating a mapped file in place ends the program
 * with SIGBUS. Replacing it by rename, as `weft data` does, is safe: the mapping keeps the old
 * one. */
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

#include "base/err.h"
#include "base/log.h"
#include "base/number/check.h"
#include "base/number/rng.h"
#include "base/version.h"
#include "data/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "token files are read without conversion");

static weft_status not_tokens(const char *path, uint32_t magic)
{
    uint32_t turned = __builtin_bswap32(magic);
    if (turned == DATA_MAGIC_GPT2 || turned == DATA_MAGIC)
        return err_fail(WEFT_DATA,
                        "data file %s is big-endian; write it again with little-endian numbers",
                        path);
    return err_fail(WEFT_DATA,
                    "data file %s is not a token file: it begins with %" PRIu32
                    " where %u or %u is "
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
    weft_status st = version_check("the token file", word[1], DATA_VERSION);
    if (st != WEFT_OK) {
        err_context("data file %s", f->path);
        return st;
    }
    bool own = word[0] == DATA_MAGIC;
    f->vocab = own ? word[3] : DATA_VOCAB_GPT2;
    f->count = own ? (uint64_t)word[4] << 32 | word[2] : word[2];
    if (!f->vocab || f->vocab > 65536)
        return err_fail(WEFT_DATA,
                        "data file %s gives a vocabulary of %" PRIu32
                        "; tokens of 16 bits allow 1 to "
                        "65536",
                        f->path, f->vocab);
    if (!f->count)
        return err_fail(WEFT_DATA, "data file %s holds no tokens", f->path);
    uint64_t need;
    if (!check_mul(f->count, 2, &need) || !check_add(need, DATA_HEADER_BYTES, &need) ||
        need != f->map_bytes)
        return err_fail(WEFT_DATA,
                        "data file %s is %" PRIu64 " bytes long, but its header counts %" PRIu64
                        " tokens of 2 bytes after %u bytes: it is truncated or damaged",
                        f->path, f->map_bytes, f->count, DATA_HEADER_BYTES);
    return WEFT_OK;
}

static weft_status map_file(const char *path, data_file *f)
{
    struct stat st;
    int fd = data_file_open_regular(AT_FDCWD, path, true, &st);
    if (fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot read data file %s", path);
    if (st.st_size < (off_t)DATA_HEADER_BYTES) {
        close(fd);
        return err_fail(WEFT_DATA,
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
    return err_fail_errno(error == ENOMEM ? WEFT_NO_MEMORY : WEFT_IO, "cannot map data file %s",
                          path);
}

weft_status data_open(const char *path, data_file *out)
{
    data_file f = {0};
    weft_status st = map_file(path, &f);
    if (st != WEFT_OK)
        return st;
    st = read_header(&f);
    if (st != WEFT_OK) {
        data_close(&f);
        return st;
    }
    f.tokens = (const uint16_t *)((const char *)f.map + DATA_HEADER_BYTES);
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
    return err_fail(WEFT_USAGE,
                    "data file %s holds %" PRIu64 " tokens; sequences of %" PRIu64
                    " need at least one more than that: give more text, or lower train.sequence",
                    f->path, f->count, sequence);
}

static weft_status name_token(const data_file *f, uint64_t at, int32_t token)
{
    return err_fail(WEFT_DATA,
                    "data file %s: token number %" PRIu64 " is %" PRId32
                    ", outside its vocabulary of %" PRIu32,
                    f->path, at, token, f->vocab);
}

/* tokens, targets [sequence] from the window that begins at `start`. The largest is found in a
 * loop that a compiler turns into vector code; only a window that fails is searched for the place.
 */
static weft_status copy_window(const data_file *f, uint64_t start, uint64_t sequence,
                               int32_t *tokens, int32_t *targets)
{
    const uint16_t *from = f->tokens + start;
    const int32_t vocab = (int32_t)f->vocab;
    int32_t largest = 0;
    for (uint64_t i = 0; i < sequence; i++) {
        tokens[i] = from[i];
        targets[i] = from[i + 1];
    }
    for (uint64_t i = 0; i < sequence; i++) {
        const int32_t one = tokens[i] > targets[i] ? tokens[i] : targets[i];
        largest = one > largest ? one : largest;
    }
    for (uint64_t i = 0; largest >= vocab && i < sequence; i++) {
        if (tokens[i] >= vocab)
            return name_token(f, start + i, tokens[i]);
        if (targets[i] >= vocab)
            return name_token(f, start + i + 1, targets[i]);
    }
    return WEFT_OK;
}

weft_status data_samples(const data_file *f, uint64_t seed, uint64_t first, uint64_t count,
                         uint64_t sequence, int32_t *tokens, int32_t *targets)
{
    if (f->count <= sequence) { /* the caller skipped data_require() */
        log_line(WEFT_LOG_ERROR, "bug: samples of %" PRIu64 " from %" PRIu64 " tokens", sequence,
                 f->count);
        abort();
    }
    uint64_t key = rng_key(seed, "data.order");
    uint64_t starts = f->count - sequence; /* a window has sequence + 1 tokens */
    weft_status st = WEFT_OK;
    for (uint64_t i = 0; st == WEFT_OK && i < count; i++)
        st = copy_window(f, rng_below(key, first + i, starts), sequence, tokens + i * sequence,
                         targets + i * sequence);
    return st;
}

uint64_t data_windows(const data_file *f, uint64_t sequence)
{
    return sequence && f->count ? (f->count - 1) / sequence : 0;
}

weft_status data_window(const data_file *f, uint64_t w, uint64_t sequence, int32_t *tokens,
                        int32_t *targets)
{
    if (w >= data_windows(f, sequence)) {
        log_line(WEFT_LOG_ERROR, "bug: window %" PRIu64 " of %" PRIu64, w,
                 data_windows(f, sequence));
        abort();
    }
    return copy_window(f, w * sequence, sequence, tokens, targets);
}

void data_describe(uint32_t vocab, weft_data_info *out)
{
    static const weft_field fields[] = {
        {.name = "tokens", .help = "ids of the tokens", .dtype = WEFT_I32},
        {.name = "targets", .help = "ids of the tokens that follow", .dtype = WEFT_I32},
    };
    *out = (weft_data_info){.struct_size = sizeof *out,
                            .vocab = vocab,
                            .nfields = sizeof fields / sizeof *fields,
                            .fields = fields};
}
