/* source.h: what the sources of tokens share: lists of names, mapped files, the order of samples,
 * and digests for their identity.
 *
 * Truncating a mapped file in place ends the program with SIGBUS. Replacing it by rename, as `weft
 * data` does, is safe: the mapping keeps the old one. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdbool.h>

#include <weft/data.h>

/* Record a failure with the text and return `code`. [any] */
weft_status source_fail(const weft_host *host, weft_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct source_map {
    const unsigned char *at;
    uint64_t bytes; /* 0: an empty file, which is not mapped */
} source_map;

/* Map a regular file, read-only. `what` names it and its key in messages: "data.train: data file".
 * [setup] */
weft_status source_map_open(const weft_host *host, const char *what, const char *path,
                            source_map *out);
void source_map_close(source_map *m); /* a zeroed one is allowed [setup] */

/* Names between commas, at least one. A comma or backslash behind a backslash is one of a name.
 * [any] */
uint32_t source_names_count(const char *list);

/* The next name without blanks around it, which may be empty; *list is then behind its comma.
 * False: it has `size` bytes or more. [any] */
bool source_names_next(const char **list, char *out, size_t size);

/* The status of an errno about a file that the user named. [any] */
weft_status source_status(int error);

/* A number below `n`, which is not 0, for sample `sample` under `seed`: where it begins. Uniform,
 * and for every layout and after every resume the same. [any] */
uint64_t source_order_key(uint64_t seed);
uint64_t source_order_below(uint64_t key, uint64_t sample, uint64_t n);

/* Where number `i`, which is below `n`, comes to in a permutation of the numbers below `n`, one for
 * each key and epoch: needs no memory, and a few calls of the generator. [any] */
uint64_t source_order_permute(uint64_t key, uint64_t epoch, uint64_t n, uint64_t i);

/* 64-bit FNV-1a: detects accidents, not attacks. [any] */
#define SOURCE_DIGEST_BEGIN 1469598103934665603ull
void source_digest(uint64_t *digest, const void *bytes, uint64_t n);

#endif
