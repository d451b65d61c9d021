/* file.c: see file.h.
 *
 * Opening reads only the header and the end of the index, however large the file is. Each token is
 * checked against the vocabulary while it is copied, so no returned token is out of range, even if
 * the file is rewritten in place meanwhile; so is each number of the index. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "token files are read without conversion");

/* Number `i` of the index. */
static uint64_t end_of(const file_tokens *f, uint64_t i)
{
    uint64_t end;
    memcpy(&end, f->map.at + f->index + 8 * i, 8);
    return end;
}

static weft_status check_index(const file_tokens *f)
{
    const uint64_t last = f->documents ? end_of(f, f->documents - 1) : f->count;
    return last == f->count
               ? WEFT_OK
               : source_fail(f->host, WEFT_DATA,
                             "%s: data file %s: the index of documents ends at token %" PRIu64
                             ", but the file has %" PRIu64 " tokens",
                             f->key, f->path, last, f->count);
}

weft_status file_open(const weft_host *host, const char *key, const char *path, file_tokens *out)
{
    file_tokens f = {.host = host, .key = key, .path = path};
    char what[64];
    weft_tokens t;
    snprintf(what, sizeof what, "%s: data file", key);
    weft_status st = source_map_open(host, what, path, &f.map);
    if (st != WEFT_OK)
        return st;
    st = weft_tokens_read(&t, f.map.at, f.map.bytes);
    if (st != WEFT_OK)
        st = source_fail(host, st, "%s: data file %s %s", key, path, t.why);
    f.count = t.tokens;
    f.vocab = t.vocab;
    f.wide = t.bits == 32;
    f.begin = t.begin;
    f.documents = t.documents;
    f.index = t.index;
    if (st == WEFT_OK)
        st = check_index(&f);
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
    const unsigned char *from = f->map.at + WEFT_TOKENS_HEADER_BYTES;
    if (f->wide)
        memcpy(&wide, from + 4 * i, 4);
    else
        memcpy(&narrow, from + 2 * i, 2);
    return f->wide ? wide : narrow;
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

/* A copy and a maximum, each a loop that a compiler turns into vector code. The bounds are those of
 * what was written, so a file that changes meanwhile does no harm. */
weft_status file_copy(const file_tokens *f, uint64_t start, uint64_t n, int32_t *out)
{
    const unsigned char *from = f->map.at + WEFT_TOKENS_HEADER_BYTES;
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
    return largest < f->vocab ? WEFT_OK : name_token(f, start, n);
}

/* The first number of the index that is above `at`. Bounds hold for any numbers: the search stays
 * in the index, and its result is checked against the number before. */
weft_status file_document_end(const file_tokens *f, uint64_t at, uint64_t *end)
{
    uint64_t low = 0, high = f->documents - 1;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (end_of(f, middle) > at)
            high = middle;
        else
            low = middle + 1;
    }
    const uint64_t begin = low ? end_of(f, low - 1) : 0;
    *end = end_of(f, low);
    if (begin <= at && at < *end && *end <= f->count)
        return WEFT_OK;
    return source_fail(f->host, WEFT_DATA,
                       "%s: data file %s: document number %" PRIu64
                       " of the index has the tokens %" PRIu64 " to %" PRIu64
                       ", which do not rise, or the file has no such token: it is damaged",
                       f->key, f->path, low, begin, *end);
}

void file_digest(const file_tokens *f, uint64_t start, uint64_t n, uint64_t *digest)
{
    const uint64_t width = f->wide ? 4 : 2;
    source_digest(digest, f->map.at + WEFT_TOKENS_HEADER_BYTES + start * width, n * width);
}

void file_digest_index(const file_tokens *f, uint64_t *digest)
{
    enum { PLACES = 64 };
    const uint64_t step = f->documents / PLACES + 1;
    source_digest(digest, &f->documents, sizeof f->documents);
    for (uint64_t i = 0; i < f->documents; i += step) {
        const uint64_t end = end_of(f, i);
        source_digest(digest, &end, sizeof end);
    }
}
