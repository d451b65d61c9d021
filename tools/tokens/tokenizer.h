/* tokens/tokenizer.h: text to ids and back, by a tokenizer that is open (data/tokenizer.h).
 *
 * These functions call the plugin and check what it answers: more bytes or ids than there are, or
 * an id outside the vocabulary, is a failure that names it. */
#ifndef TOKENS_TOKENIZER_H
#define TOKENS_TOKENIZER_H

#include <stdbool.h>

#include "data/tokenizer.h"

#define TOKENS_WAITS 65536u /* bytes after which a tokenizer has to use some */

/* Encode a prefix of `bytes` bytes of text as weft_tokenizer_table.encode() does: *used bytes are
 * *n ids, at most `capacity`. `flags` are WEFT_TEXT_..., of which WEFT_TEXT_FIRST is dropped where
 * the tokenizer does not know it. [any] */
weft_status tokens_encode(const data_tokenizer *d, const char *text, uint64_t bytes, uint32_t flags,
                          int32_t *out, uint64_t capacity, uint64_t *used, uint64_t *n);

/* Whether it has cut(), and what cut() answers. [any] */
bool tokens_cuts(const data_tokenizer *d);
weft_status tokens_cut(const data_tokenizer *d, const char *text, uint64_t bytes, uint64_t *at);

/* The bytes of one id, at most 1 KiB. [any] */
#define TOKENS_ID_BYTES 1024u
weft_status tokens_decode(const data_tokenizer *d, int32_t id, char out[TOKENS_ID_BYTES],
                          uint64_t *bytes);

#endif
