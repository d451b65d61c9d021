/* file.h: a memory-mapped token file.
 *
 * A file is a header of 256 int32 and then ids of tokens, little endian. Magic 20240520 is the
 * public GPT-2 token format (vocabulary 50257): words magic, version 1, tokens; ids of 16 bits.
 * Ours, 20261121, is the same with the vocabulary in word 3 and, for files of 2^32 tokens and more,
 * the upper half of their number in word 4; version 2 has ids of 32 bits. */
#ifndef FILE_H
#define FILE_H

#include "source.h"

#define FILE_MAGIC_GPT2 20240520u
#define FILE_MAGIC 20261121u
#define FILE_VERSION 2u /* the highest that is read */
#define FILE_VOCAB_GPT2 50257u
#define FILE_HEADER_WORDS 256u
#define FILE_HEADER_BYTES 1024u

typedef struct file_tokens {
    const weft_host *host;
    const char *key;  /* "data.train" */
    const char *path; /* borrowed */
    source_map map;
    uint64_t count; /* tokens */
    uint32_t vocab; /* tokens are below it, or not handed out */
    uint32_t wide;  /* 1: 32 bits a token, else 16 */
} file_tokens;

/* Map the file and check its header and length; no token is read. Missing, truncated or foreign
 * files fail with a message. [setup] */
weft_status file_open(const weft_host *host, const char *key, const char *path, file_tokens *out);
void file_close(file_tokens *f);

/* tokens and targets [sequence] from the window of sequence + 1 tokens that begins at `start`,
 * which the file has; either may be NULL. A token outside the vocabulary is WEFT_DATA and named
 * with its place. [any] */
weft_status file_copy_window(const file_tokens *f, uint64_t start, uint64_t sequence,
                             int32_t *tokens, int32_t *targets);

/* "4000 tokens of 251 kinds, digest 0123456789abcdef, content 0123456789abcdef" [setup] */
void file_identify(const file_tokens *f, char out[160]);

#endif
