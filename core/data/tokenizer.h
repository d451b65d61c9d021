/* data/tokenizer.h: a tokenizer (weft.tokenizer/1) that is open.
 *
 * These functions call the plugin and check what it answers: more bytes or ids than there are, or
 * an id outside the vocabulary, is a failure that names it. */
#ifndef DATA_TOKENIZER_H
#define DATA_TOKENIZER_H

#include <stdbool.h>
#include <weft/data.h>

#include "host/host.h"

#define DATA_TOKENIZER_WAITS 65536u /* bytes after which a tokenizer has to use some */

typedef struct data_tokenizer {
    const host_component *c;
    weft_tokenizer *t; /* NULL: not open */
    weft_tokenizer_info info;
} data_tokenizer;

/* The module of the plugin is open. [setup] */
weft_status data_tokenizer_open(const host_component *c, const weft_conf *conf,
                                data_tokenizer *out);
void data_tokenizer_close(data_tokenizer *d); /* a zeroed one is allowed [setup] */

/* Encode a prefix of `bytes` bytes of text as weft_tokenizer_table.encode() does: *used bytes are
 * *n ids, at most `capacity`. `flags` are WEFT_TEXT_..., of which WEFT_TEXT_FIRST is dropped where
 * the tokenizer does not know it. [any] */
weft_status data_tokenizer_encode(const data_tokenizer *d, const char *text, uint64_t bytes,
                                  uint32_t flags, int32_t *out, uint64_t capacity, uint64_t *used,
                                  uint64_t *n);

/* Whether it has cut(), and what cut() answers. [any] */
bool data_tokenizer_cuts(const data_tokenizer *d);
weft_status data_tokenizer_cut(const data_tokenizer *d, const char *text, uint64_t bytes,
                               uint64_t *at);

/* The bytes of one id, at most 1 KiB. [any] */
#define DATA_TOKENIZER_BYTES 1024u
weft_status data_tokenizer_decode(const data_tokenizer *d, int32_t id,
                                  char out[DATA_TOKENIZER_BYTES], uint64_t *bytes);

#endif
