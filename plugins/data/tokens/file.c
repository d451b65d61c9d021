/* file.c: see file.h.
 *
 * Opening reads only the header, however large the file is. Each token is checked against the
 * vocabulary while its window is copied, so no returned token is out of range, even if the file is
 * rewritten in place meanwhile. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "token files are read without conversion");

static weft_status not_tokens(const file_tokens *f, uint32_t magic)
{
    const uint32_t turned = __builtin_bswap32(magic);
    if (turned == FILE_MAGIC_GPT2 || turned == FILE_MAGIC)
        return source_fail(f->host, WEFT_DATA,
                           "%s: data file %s is big-endian; write it again with little-endian "
                           "numbers",
                           f->key, f->path);
    return source_fail(f->host, WEFT_DATA,
                       "%s: data file %s is not a token file: it begins with %" PRIu32
                       " where %u or %u is expected; `weft data TEXT... -o FILE` makes one",
                       f->key, f->path, magic, FILE_MAGIC, FILE_MAGIC_GPT2);
}

static weft_status check_version(const file_tokens *f, uint32_t version, uint32_t known)
{
    if (!version)
        return source_fail(f->host, WEFT_DATA,
                           "%s: data file %s: the token file has version 0; versions begin with 1",
                           f->key, f->path);
    return version <= known
               ? WEFT_OK
               : source_fail(f->host, WEFT_UNSUPPORTED,
                             "%s: data file %s: the token file has version %" PRIu32
                             ", and this program reads versions up to %u: use a weft as new as the "
                             "one that wrote it",
                             f->key, f->path, version, known);
}

static weft_status check_length(const file_tokens *f)
{
    const uint64_t width = f->wide ? 4 : 2;
    if (!f->count)
        return source_fail(f->host, WEFT_DATA, "%s: data file %s holds no tokens", f->key, f->path);
    if (f->count <= (UINT64_MAX - FILE_HEADER_BYTES) / width &&
        f->count * width + FILE_HEADER_BYTES == f->map.bytes)
        return WEFT_OK;
    return source_fail(f->host, WEFT_DATA,
                       "%s: data file %s is %" PRIu64 " bytes long, but its header counts %" PRIu64
                       " tokens of %" PRIu64 " bytes after %u bytes: it is truncated or damaged",
                       f->key, f->path, f->map.bytes, f->count, width, FILE_HEADER_BYTES);
}

/* Vocabulary and token count from the header; the length of the file must agree. */
static weft_status read_header(file_tokens *f)
{
    uint32_t word[FILE_HEADER_WORDS];
    memcpy(word, f->map.at, sizeof word);
    if (word[0] != FILE_MAGIC && word[0] != FILE_MAGIC_GPT2)
        return not_tokens(f, word[0]);
    const int own = word[0] == FILE_MAGIC;
    weft_status st = check_version(f, word[1], own ? FILE_VERSION : 1);
    if (st != WEFT_OK)
        return st;
    f->wide = word[1] == 2;
    f->vocab = own ? word[3] : FILE_VOCAB_GPT2;
    f->count = own ? (uint64_t)word[4] << 32 | word[2] : word[2];
    const uint32_t most = f->wide ? 1u << 30 : 65536;
    if (!f->vocab || f->vocab > most)
        return source_fail(f->host, WEFT_DATA,
                           "%s: data file %s gives a vocabulary of %" PRIu32
                           "; tokens of %d bits allow 1 to %" PRIu32,
                           f->key, f->path, f->vocab, f->wide ? 32 : 16, most);
    return check_length(f);
}

weft_status file_open(const weft_host *host, const char *key, const char *path, file_tokens *out)
{
    file_tokens f = {.host = host, .key = key, .path = path};
    char what[64];
    snprintf(what, sizeof what, "%s: data file", key);
    weft_status st = source_map_open(host, what, path, &f.map);
    if (st != WEFT_OK)
        return st;
    if (f.map.bytes < FILE_HEADER_BYTES)
        st = source_fail(host, WEFT_DATA,
                         "%s: data file %s is %" PRIu64
                         " bytes long, shorter than the header of a token file, which is %u; `weft "
                         "data TEXT... -o FILE` makes one",
                         key, path, f.map.bytes, FILE_HEADER_BYTES);
    if (st == WEFT_OK)
        st = read_header(&f);
    if (st != WEFT_OK)
        file_close(&f);
    else
        *out = f;
    return st;
}

void file_close(file_tokens *f)
{
    source_map_close(&f->map);
    *f = (file_tokens){0};
}

static uint32_t token_at(const file_tokens *f, uint64_t i)
{
    uint16_t narrow;
    uint32_t wide;
    const unsigned char *from = f->map.at + FILE_HEADER_BYTES;
    if (f->wide)
        memcpy(&wide, from + 4 * i, 4);
    else
        memcpy(&narrow, from + 2 * i, 2);
    return f->wide ? wide : narrow;
}

/* n tokens from number `start` on; returns the largest. A copy and a maximum, each a loop that a
 * compiler turns into vector code. The bounds are those of what was written, so a file that changes
 * meanwhile does no harm. */
static uint32_t copy(const file_tokens *f, uint64_t start, uint64_t n, int32_t *out)
{
    const unsigned char *from = f->map.at + FILE_HEADER_BYTES;
    uint32_t largest = 0;
    if (f->wide) {
        memcpy(out, from + 4 * start, 4 * n);
    } else {
        const uint16_t *narrow = (const uint16_t *)(const void *)(from + 2 * start);
        for (uint64_t i = 0; i < n; i++)
            out[i] = narrow[i];
    }
    for (uint64_t i = 0; i < n; i++)
        largest = (uint32_t)out[i] > largest ? (uint32_t)out[i] : largest;
    return largest;
}

/* The first token of those that is outside the vocabulary. */
static weft_status name_token(const file_tokens *f, uint64_t start, uint64_t n)
{
    uint64_t at = start;
    while (at + 1 < start + n && token_at(f, at) < f->vocab)
        at++;
    return source_fail(f->host, WEFT_DATA,
                       "%s: data file %s: token number %" PRIu64 " is %" PRIu32
                       ", outside its vocabulary of %" PRIu32,
                       f->key, f->path, at, token_at(f, at), f->vocab);
}

weft_status file_copy_window(const file_tokens *f, uint64_t start, uint64_t sequence,
                             int32_t *tokens, int32_t *targets)
{
    const uint32_t a = tokens ? copy(f, start, sequence, tokens) : 0;
    const uint32_t b = targets ? copy(f, start + 1, sequence, targets) : 0;
    if (a >= f->vocab)
        return name_token(f, start, sequence);
    return b >= f->vocab ? name_token(f, start + 1, sequence) : WEFT_OK;
}

/* --- identity --- */

#define SAMPLES 64u   /* the digest: so many evenly spaced places of the file, ... */
#define SAMPLE 16u    /* ... and tokens at each place */
#define PROBES 65536u /* the content: so many tokens, ... */
#define RUNS 64u      /* ... in this many evenly spaced runs */

static void mix(const file_tokens *f, uint64_t *digest, uint64_t at, uint64_t n)
{
    const uint64_t width = f->wide ? 4 : 2;
    source_digest(digest, f->map.at + FILE_HEADER_BYTES + at * width, n * width);
}

/* Two digests, since checkpoints of 0.1 have only the first. */
void file_identify(const file_tokens *f, char out[160])
{
    uint64_t digest = SOURCE_DIGEST_BEGIN, content = SOURCE_DIGEST_BEGIN;
    const uint64_t step = f->count / SAMPLES + 1;
    for (uint64_t i = 0; i < f->count; i += step)
        mix(f, &digest, i, f->count - i < SAMPLE ? f->count - i : SAMPLE);
    const uint64_t length = f->count <= PROBES ? f->count : PROBES / RUNS,
                   runs = f->count <= PROBES ? 1 : RUNS, last = f->count - length;
    for (uint64_t i = 0; i < runs; i++)
        mix(f, &content, runs > 1 ? last / (RUNS - 1) * i : 0, length);
    snprintf(out, 160,
             "%" PRIu64 " tokens of %" PRIu32 " kinds, digest %016" PRIx64 ", content %016" PRIx64,
             f->count, f->vocab, digest, content);
}
