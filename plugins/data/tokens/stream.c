/* stream.c: see stream.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

const char *stream_name(const stream *s, char out[STREAM_NAME])
{
    char more[32] = "";
    if (s->n > 1)
        snprintf(more, sizeof more, " and %" PRIu32 " more", s->n - 1);
    snprintf(out, STREAM_NAME, "data file %s%s", s->files[0].path, more);
    return out;
}

static weft_status add_file(stream *s, const char *path)
{
    file_tokens *f = &s->files[s->n];
    weft_status st = file_open(s->host, s->key, path, f);
    if (st != WEFT_OK)
        return st;
    s->count += f->count; /* files of less than 2^63 bytes each, at most 2^14 */
    s->ends[s->n++] = s->count;
    s->vocab = s->files[0].vocab;
    if (f->vocab == s->vocab)
        return WEFT_OK;
    return source_fail(s->host, WEFT_USAGE,
                       "%s: data file %s has a vocabulary of %" PRIu32 ", and %s one of %" PRIu32
                       ": files of one data set are written by one tokenizer",
                       s->key, path, f->vocab, s->files[0].path, s->vocab);
}

weft_status stream_open(const weft_host *host, const char *key, const list_part *part, stream *out)
{
    weft_status st = WEFT_OK;
    stream s = {.host = host, .key = key};
    s.files = (file_tokens *)weft_new(host, part->n * sizeof *s.files, &st);
    s.ends = (uint64_t *)weft_new(host, part->n * sizeof *s.ends, &st);
    for (uint32_t i = 0; st == WEFT_OK && i < part->n; i++)
        st = add_file(&s, part->paths[i]);
    if (st != WEFT_OK)
        stream_close(&s);
    else
        *out = s;
    return st;
}

void stream_close(stream *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        file_close(&s->files[i]);
    if (s->host) {
        (s->host->free)(s->host->ctx, s->files);
        (s->host->free)(s->host->ctx, s->ends);
    }
    *s = (stream){0};
}

/* The file that has token `at` of the stream, and that token's number in it. */
static const file_tokens *file_at(const stream *s, uint64_t at, uint64_t *number)
{
    uint32_t low = 0, high = s->n - 1; /* the first file that ends behind `at` */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->ends[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    *number = at - (s->ends[low] - s->files[low].count);
    return &s->files[low];
}

weft_status stream_copy(const stream *s, uint64_t start, uint64_t n, int32_t *out)
{
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && n) {
        uint64_t from;
        const file_tokens *f = file_at(s, start, &from);
        const uint64_t now = n < f->count - from ? n : f->count - from;
        st = file_copy(f, from, now, out);
        out += now;
        start += now;
        n -= now;
    }
    return st;
}

/* --- documents --- */

static weft_status wrong_boundary(const stream *s, const char *value)
{
    return source_fail(
        s->host, WEFT_USAGE,
        "data.boundary is '%s'; auto, index, begin:ID and end:ID are possible, where "
        "ID is the id of the token, below %" PRIu32,
        value, s->vocab);
}

static weft_status by_id(stream *s, const char *value)
{
    const int begins = !strncmp(value, "begin:", 6), ends = !strncmp(value, "end:", 4);
    const char *id = begins ? value + 6 : value + 4;
    if ((!begins && !ends) || !*id || strlen(id) > 10 || id[strspn(id, "0123456789")])
        return wrong_boundary(s, value);
    const uint64_t number = strtoull(id, NULL, 10);
    if (number >= s->vocab)
        return wrong_boundary(s, value);
    s->boundary = begins ? STREAM_BEGIN : STREAM_END;
    s->id = (uint32_t)number;
    return WEFT_OK;
}

weft_status stream_set_boundary(stream *s, const char *value)
{
    const int is_auto = !*value || !strcmp(value, "auto");
    uint32_t without = s->n, other = s->n; /* a file without index, and one without a custom */
    if (!is_auto && strcmp(value, "index"))
        return by_id(s, value);
    for (uint32_t i = s->n; i-- > 0;) {
        without = s->files[i].documents ? without : i;
        other = s->files[i].begin && s->files[i].begin == s->files[0].begin ? other : i;
    }
    if (without == s->n) {
        s->boundary = STREAM_INDEX;
        return WEFT_OK;
    }
    if (is_auto && other == s->n) {
        s->boundary = STREAM_BEGIN;
        s->id = s->files[0].begin - 1;
        return WEFT_OK;
    }
    return source_fail(
        s->host, WEFT_USAGE,
        "%s: data.documents = separate, but data file %s does not say where its documents end: "
        "write it with an index, or say by which token they are told apart (data.boundary = end:ID "
        "or begin:ID)",
        s->key, s->files[without].path);
}

static weft_status places_by_index(const stream *s, uint64_t start, uint64_t n, int32_t *places)
{
    uint64_t left = 0; /* tokens of this document that are still to come */
    int32_t place = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!left) {
            uint64_t from, end;
            const file_tokens *f = file_at(s, start + i, &from);
            weft_status st = file_document_end(f, from, &end);
            if (st != WEFT_OK)
                return st;
            left = end - from;
            place = 0;
        }
        places[i] = place++;
        left--;
    }
    return WEFT_OK;
}

weft_status stream_places(const stream *s, uint64_t start, uint64_t n, const int32_t *tokens,
                          int32_t *places)
{
    const int32_t id = (int32_t)s->id;
    if (s->boundary == STREAM_INDEX)
        return places_by_index(s, start, n, places);
    for (uint64_t i = 0; i < n; i++) {
        const int begins =
            !i || (s->boundary == STREAM_BEGIN ? tokens[i] == id : tokens[i - 1] == id);
        places[i] = begins ? 0 : places[i - 1] + 1;
    }
    return WEFT_OK;
}

/* --- identity --- */

#define SAMPLES 64u   /* the digest: so many evenly spaced places of the stream, ... */
#define SAMPLE 16u    /* ... and tokens at each place */
#define PROBES 65536u /* the content: so many tokens, ... */
#define RUNS 64u      /* ... in this many evenly spaced runs */

static void mix(const stream *s, uint64_t *digest, uint64_t at, uint64_t n)
{
    while (n) {
        uint64_t from;
        const file_tokens *f = file_at(s, at, &from);
        const uint64_t now = n < f->count - from ? n : f->count - from;
        file_digest(f, from, now, digest);
        at += now;
        n -= now;
    }
}

void stream_identify_documents(const stream *s, char out[STREAM_IDENTITY])
{
    *out = 0;
    uint64_t digest = SOURCE_DIGEST_BEGIN;
    for (uint32_t i = 0; s->boundary == STREAM_INDEX && i < s->n; i++)
        file_digest_index(&s->files[i], &digest);
    if (s->boundary == STREAM_INDEX)
        snprintf(out, STREAM_IDENTITY, "documents by index %016" PRIx64 ", ", digest);
    else if (s->boundary)
        snprintf(out, STREAM_IDENTITY, "documents by %s:%" PRIu32 ", ",
                 s->boundary == STREAM_BEGIN ? "begin" : "end", s->id);
}

/* Two digests, since checkpoints of 0.1 have only the first. */
void stream_identify(const stream *s, char out[STREAM_IDENTITY])
{
    uint64_t digest = SOURCE_DIGEST_BEGIN, content = SOURCE_DIGEST_BEGIN;
    const uint64_t step = s->count / SAMPLES + 1;
    for (uint64_t i = 0; i < s->count; i += step)
        mix(s, &digest, i, s->count - i < SAMPLE ? s->count - i : SAMPLE);
    const uint64_t length = s->count <= PROBES ? s->count : PROBES / RUNS,
                   runs = s->count <= PROBES ? 1 : RUNS, last = s->count - length;
    for (uint64_t i = 0; i < runs; i++)
        mix(s, &content, runs > 1 ? last / (RUNS - 1) * i : 0, length);
    snprintf(out, STREAM_IDENTITY,
             "%" PRIu64 " tokens of %" PRIu32 " kinds, digest %016" PRIx64 ", content %016" PRIx64,
             s->count, s->vocab, digest, content);
}
