/* plugins/tokenizer/hf: tokenizers as the library "tokenizers" of Hugging Face writes them
 * (tokenizer.json): BPE and Unigram models with what stands before and behind them.
 *
 * A text passes these stages, in this order:
 *
 *   chunk.c      pieces of the text that no rule of this tokenizer looks across
 *   hf.c         bytes that are no UTF-8 become U+FFFD
 *   added.c      added tokens are found, before and after normalizing
 *   normalize.c  the text between them is changed
 *   split.c      and cut into words
 *   bpe.c, unigram.c   words become ids
 *
 * decode.c turns ids into text. read/ reads the file. Nothing changes in an
 * hf_tokenizer after it is open, so any number of threads may use it; each call takes an hf_work
 * with memory of its own from a list. */
#ifndef HF_H
#define HF_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <weft/data.h>

#include "table.h"

/* --- patterns (pattern.c) --- */

/* Nothing; no match has a blank; each is two spaces or more; matches end before a space behind a
 * letter and behind a newline. */
enum { HF_SYNC_UNKNOWN, HF_SYNC_APART, HF_SYNC_RUNS, HF_SYNC_ENDS };

typedef struct hf_pattern {
    pcre2_code *code; /* NULL: `literal` */
    char *literal;
    uint32_t n;
    int sync; /* HF_SYNC_...: what is known of it (chunk.c) */
} hf_pattern;

/* --- normalizers (normalize.c) --- */

enum {
    HF_NFC,
    HF_NFD,
    HF_NFKC,
    HF_NFKD,
    HF_LOWERCASE,
    HF_STRIP_ACCENTS,
    HF_STRIP,
    HF_REPLACE,
    HF_PREPEND,
    HF_PRECOMPILED,
    HF_NMT,
    HF_BERT,
    HF_BYTES
};

typedef struct hf_normalizer {
    int kind;
    hf_pattern pattern;                  /* REPLACE */
    char *text;                          /* REPLACE: what stands in its place; PREPEND */
    uint32_t n;                          /* bytes of text */
    bool left, right;                    /* STRIP */
    bool clean, chinese, accents, lower; /* BERT */
    uint32_t *trie, units, blob_n;       /* PRECOMPILED: a double array, and strings that */
    char *blob;                          /* end with a byte 0 */
} hf_normalizer;

/* --- how words are cut (split.c) --- */

enum {
    HF_SPLIT,
    HF_DIGITS,
    HF_PUNCTUATION,
    HF_WHITESPACE,
    HF_WHITESPACE_SPLIT,
    HF_METASPACE,
    HF_BYTE_PREFIX, /* ByteLevel's add_prefix_space */
    HF_BYTE_CHARS   /* ByteLevel's alphabet, where it is not the last stage */
};
enum { HF_ISOLATED, HF_REMOVED, HF_CONTIGUOUS, HF_WITH_PREVIOUS, HF_WITH_NEXT };
enum { HF_NEVER, HF_ALWAYS, HF_FIRST };

typedef struct hf_splitter {
    int kind, behavior, scheme;
    bool invert, cuts; /* cuts: METASPACE splits, DIGITS one by one */
    hf_pattern pattern;
    char mark[8]; /* METASPACE */
    uint32_t n;
} hf_splitter;

/* --- added tokens --- */

typedef struct hf_added {
    char *text;
    uint32_t n;
    int32_t id;
    bool special, normalized, lstrip, rstrip, single;
} hf_added;

/* --- decoders (decode.c) --- */

enum { HF_D_JOIN, HF_D_BYTES, HF_D_METASPACE, HF_D_REPLACE, HF_D_FALLBACK, HF_D_STRIP };

typedef struct hf_decoder {
    int kind;
    bool whole;      /* it works on the text, not on each token: behind Fuse */
    hf_pattern from; /* REPLACE */
    char *to;        /* REPLACE */
    uint32_t n;
    char mark[8]; /* METASPACE, STRIP */
    uint32_t mark_n, start;
    bool first; /* METASPACE: the first token loses its marks */
} hf_decoder;

/* --- the tokenizer --- */

typedef struct hf_merge {
    int32_t left, right; /* left -1: an empty place */
    int32_t to, rank;
} hf_merge;

/* Bytes that grow. */
typedef struct hf_bytes {
    char *at;
    uint64_t n, room;
} hf_bytes;

enum { HF_MAX_STAGES = 32, HF_MAX_TOKEN = 1024 };

typedef struct hf_name { /* n 0: there is no such id */
    const char *at;
    uint32_t n;
} hf_name;

typedef struct hf_place { /* in weft_tokenizer.decoded */
    uint32_t at, n;
} hf_place;

typedef struct hf_work hf_work;

struct weft_tokenizer {
    const weft_host *host;
    char *path;
    char identity[160];
    uint32_t vocab, begin, end; /* the last two plus 1; 0: none */

    char *names;   /* of all ids, as the file writes them */
    hf_name *name; /* [vocab] in `names`; of a normalized added token its text */
    uint32_t filled;

    /* The model's own tokens as the file writes them, and by what they stand for in a word: bytes
     * where `raw`, else the same table. */
    hf_table by_name, keys;
    char *raw_names;
    uint32_t own; /* number of them */
    bool unigram, raw, fallback, fuse, whole_words;
    int32_t unknown;      /* -1: none */
    int32_t byte_id[256]; /* raw: of each byte; fallback: of "<0x..>"; -1: none */
    hf_merge *merges;
    uint32_t merge_mask;
    char *prefix, *suffix; /* of BPE: continuing_subword_prefix, end_of_word_suffix; NULL: none */
    hf_trie trie;          /* unigram */
    double *score, least;  /* [vocab] */

    hf_added *added;
    uint32_t nadded;
    hf_trie plain, normal; /* added tokens in the text, and in the normalized text */
    uint8_t starts_plain[256], starts_normal[256];

    hf_normalizer normalizer[HF_MAX_STAGES];
    hf_splitter splitter[HF_MAX_STAGES];
    hf_decoder decoder[HF_MAX_STAGES];
    uint32_t nnormalizers, nsplitters, ndecoders;
    hf_place *decodes; /* [vocab] what an id becomes inside a text */
    hf_bytes decoded;
    bool cuts_space, cuts_line; /* chunk.c */

    pthread_mutex_t lock;
    hf_work *idle;
};

/* --- a call's memory (work.c) --- */

typedef struct hf_piece {
    uint32_t at, n;
    int32_t id;  /* of an added token; -1: text */
    bool inside; /* it begins where the text that was given begins, and that is inside a text */
    bool first;  /* it begins a text */
} hf_piece;

typedef struct hf_pieces {
    hf_piece *at;
    uint64_t n, room;
} hf_pieces;

typedef struct hf_mark { /* a match, or what stands between matches */
    uint32_t from, to;
    bool match;
} hf_mark;

typedef struct hf_symbol {
    int32_t id, prev, next;
    uint32_t n;
} hf_symbol;

typedef struct hf_candidate {
    uint64_t order; /* rank, then place */
    int32_t to;
} hf_candidate;

typedef struct hf_best {
    double score;
    int32_t id;
    uint32_t from; /* UINT32_MAX: not reached */
} hf_best;

enum { HF_CACHE_KEY = 24, HF_CACHE_IDS = 8, HF_CACHE_SETS = 1 << 14, HF_CACHE_WAYS = 2 };

typedef struct hf_cached {
    uint32_t hash;
    uint8_t n, ids; /* n 0: empty */
    char key[HF_CACHE_KEY];
    int32_t id[HF_CACHE_IDS];
} hf_cached;

struct hf_work {
    hf_work *next;
    const weft_tokenizer *t;
    bool failed; /* no memory */
    bool limit;  /* a pattern took too long */
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    const char *text; /* what the pieces are in */
    hf_bytes clean, normal, buffer[2], spare;
    hf_pieces pieces, other;
    struct {
        hf_mark *at;
        uint64_t n, room;
    } marks;
    struct {
        hf_symbol *at;
        uint64_t n, room;
    } symbols;
    struct {
        hf_candidate *at;
        uint64_t n, room;
    } heap;
    struct {
        hf_best *at;
        uint64_t n, room;
    } best;
    struct {
        int32_t *at;
        uint64_t n, room;
    } ids, points;
    hf_cached *cache;
};

/* Room for `more` elements behind those of a growing array; 0 with failed set where there is no
 * memory. */
bool hf_more(hf_work *w, void *at, uint64_t n, uint64_t *room, uint64_t more, size_t size);
#define HF_CAPACITY(w, a, more)                                                                    \
    ((a)->room - (a)->n >= (more) ||                                                               \
     hf_more(w, &(a)->at, (a)->n, &(a)->room, more, sizeof *(a)->at))

hf_work *hf_work_take(weft_tokenizer *t); /* NULL: no memory */
void hf_work_give(weft_tokenizer *t, hf_work *w);
void hf_work_free(hf_work *w);

static inline void hf_put(hf_work *w, hf_bytes *b, const void *from, uint64_t n)
{
    if (n && HF_CAPACITY(w, b, n)) {
        memcpy(b->at + b->n, from, n);
        b->n += n;
    }
}
void hf_put_char(hf_work *w, hf_bytes *b, uint32_t c);

static inline void hf_put_id(hf_work *w, int32_t id)
{
    if (HF_CAPACITY(w, &w->ids, 1))
        w->ids.at[w->ids.n++] = id;
}

/* --- the stages --- */

/* pattern.c: find a match in s[from..n): 1, 0, or -1 with w->failed or w->limit. */
int hf_find(hf_work *w, const hf_pattern *p, const char *s, uint64_t n, uint64_t from,
            uint64_t *start, uint64_t *end);
void hf_pattern_free(hf_pattern *p);

void hf_find_added(hf_work *w, const hf_piece *in, bool normalized, bool special);
void hf_normalize(hf_work *w, const char *s, uint64_t n, const hf_piece *of, hf_bytes *out);
void hf_split(hf_work *w);
void hf_bpe(hf_work *w, const char *s, uint32_t n);
void hf_unigram(hf_work *w, const char *s, uint32_t n);

/* chunk.c */
void hf_chunks_settle(weft_tokenizer *t);
uint64_t hf_cut(const weft_tokenizer *t, const char *text, uint64_t bytes);

/* decode.c */
weft_status hf_decode_settle(weft_tokenizer *t);
weft_status hf_decode(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used,
                      uint64_t *bytes);

/* read/load.c */
weft_status hf_load(weft_tokenizer *t, const weft_conf *conf);
void hf_unload(weft_tokenizer *t);

#endif
