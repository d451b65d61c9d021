/* file.h: a memory-mapped token file; weft/tokens.h has the layout. */
#ifndef FILE_H
#define FILE_H

#include <weft/tokens.h>

#include "source.h"

typedef struct file_tokens {
    const weft_host *host;
    const char *key;  /* "data.train" */
    const char *path; /* borrowed */
    source_map map;
    uint64_t count; /* tokens */
    uint32_t vocab; /* tokens are below it, or not handed out */
    uint32_t wide;  /* 1: 32 bits a token, else 16 */
    uint32_t begin; /* the id that begins a document by the custom of the format, plus 1; 0: none */
    uint64_t documents, index; /* 0: no index; byte where it begins */
} file_tokens;

/* Map the file and check its header, its length and the last number of its index; no token is read.
 * Missing, truncated or foreign files fail with a message. [setup] */
weft_status file_open(const weft_host *host, const char *key, const char *path, file_tokens *out);
void file_close(file_tokens *f);

/* n tokens from number `start` on, which the file has. A token outside the vocabulary is WEFT_DATA
 * and named with its place. [any] */
weft_status file_copy(const file_tokens *f, uint64_t start, uint64_t n, int32_t *out);

/* *end: where the document that has token `at` ends. A number of the index that does not rise or
 * points outside is WEFT_DATA. The file has an index. [any] */
weft_status file_document_end(const file_tokens *f, uint64_t at, uint64_t *end);

/* Add the bytes of n tokens from number `start` on to a digest. [setup] */
void file_digest(const file_tokens *f, uint64_t start, uint64_t n, uint64_t *digest);

/* Add 64 evenly spaced numbers of the index. [setup] */
void file_digest_index(const file_tokens *f, uint64_t *digest);

#endif
