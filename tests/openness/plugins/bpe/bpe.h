/* bpe.h: a byte-level BPE tokenizer with the files of GPT-2. load.c reads vocab.json and
 * merges.txt, words.c cuts a text into words, bpe.c merges the bytes of each word. */
#ifndef BPE_H
#define BPE_H

#include <weft/data.h>

#define BPE_WORD 4096u  /* a longer word is cut: bytes */
#define BPE_TOKEN 1024u /* bytes of a token */
#define BPE_AHEAD 16u   /* bytes behind a place that can change what is there */
#define BPE_SPECIAL "<|endoftext|>"

typedef struct bpe_token {
    uint32_t at, bytes; /* in weft_tokenizer.bytes; bytes 0: no token has this id */
} bpe_token;

typedef struct bpe_merge {
    int32_t left, right, to, rank; /* rank 0: an empty place of the table */
} bpe_merge;

struct weft_tokenizer {
    const weft_host *host;
    unsigned char *bytes; /* of all tokens */
    bpe_token *tokens;    /* [vocab] */
    uint32_t vocab, nmerges;
    int32_t *names; /* hash table of tokens by their bytes: id + 1, or 0 */
    uint32_t name_mask, merge_mask;
    bpe_merge *merges; /* hash table of pairs */
    int32_t byte[256]; /* ids of single bytes */
    int32_t special;   /* id of BPE_SPECIAL, or -1 */
    char identity[96];
};

weft_status bpe_load(weft_tokenizer *t, const char *vocab, const char *merges);

/* The merge of two ids, or NULL. */
const bpe_merge *bpe_find(const weft_tokenizer *t, int32_t left, int32_t right);

/* Bytes of the word that begins the text; 0: text that follows decides. */
uint64_t bpe_word(const unsigned char *text, uint64_t bytes, int last);

#endif
