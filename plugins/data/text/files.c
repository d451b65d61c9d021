/* files.c: see files.h. */
#include <stdio.h>
#include <string.h>

#include "files.h"

#define RUNS 64u   /* of the digest, ... */
#define RUN 1024u  /* ... and bytes of each */
#define PATH 4096u /* bytes of a path at most */

static weft_status map_one(files *f, const char *key, const char **list)
{
    char path[PATH], what[64];
    snprintf(what, sizeof what, "%s: text", key);
    if (!source_names_next(list, path, sizeof path) || !*path)
        return source_fail(f->host, WEFT_USAGE,
                           "%s: a name in the list of text files is empty, or longer than %u bytes",
                           key, PATH - 1);
    source_map *m = &f->maps[f->n];
    weft_status st = source_map_open(f->host, what, path, m);
    if (st != WEFT_OK)
        return st;
    f->bytes += m->bytes;
    f->ends[f->n++] = f->bytes;
    return m->bytes ? WEFT_OK : source_fail(f->host, WEFT_DATA, "%s: text %s is empty", key, path);
}

weft_status files_open(const weft_host *host, const char *key, const char *list, files *out)
{
    const uint32_t n = source_names_count(list);
    files f = {.host = host};
    weft_status st = WEFT_OK;
    if (n > FILES_MAX)
        return source_fail(host, WEFT_USAGE, "%s: %u text files; at most %u are possible", key, n,
                           FILES_MAX);
    f.maps = (source_map *)weft_new(host, n * sizeof *f.maps, &st);
    f.ends = st == WEFT_OK ? (uint64_t *)weft_new(host, n * sizeof *f.ends, &st) : NULL;
    while (st == WEFT_OK && f.n < n)
        st = map_one(&f, key, &list);
    if (st != WEFT_OK)
        files_close(&f);
    else
        *out = f;
    return st;
}

void files_close(files *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        source_map_close(&f->maps[i]);
    if (f->host) {
        (f->host->free)(f->host->ctx, f->maps);
        (f->host->free)(f->host->ctx, f->ends);
    }
    *f = (files){0};
}

const char *files_rest(const files *f, uint64_t at, uint64_t *bytes)
{
    uint32_t low = 0, high = f->n - 1; /* the first file that ends behind `at` */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (f->ends[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    *bytes = f->ends[low] - at;
    return (const char *)f->maps[low].at + (f->maps[low].bytes - *bytes);
}

static void mix(const files *f, uint64_t *digest, uint64_t at, uint64_t n)
{
    while (n) {
        uint64_t rest;
        const char *text = files_rest(f, at, &rest);
        rest = rest < n ? rest : n;
        source_digest(digest, text, rest);
        at += rest;
        n -= rest;
    }
}

uint64_t files_digest(const files *f)
{
    uint64_t digest = SOURCE_DIGEST_BEGIN;
    const uint64_t whole = (uint64_t)RUNS * RUN,
                   last = f->bytes - (f->bytes < RUN ? f->bytes : RUN);
    source_digest(&digest, f->ends, f->n * sizeof *f->ends);
    if (f->bytes <= whole)
        mix(f, &digest, 0, f->bytes);
    for (uint32_t i = 0; f->bytes > whole && i < RUNS; i++)
        mix(f, &digest, last * i / (RUNS - 1), RUN);
    return digest;
}
