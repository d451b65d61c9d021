/* read/stages.c: normalizers, pre-tokenizers and decoders of a tokenizer.json. A sequence of stages
 * becomes a list of them. */
#include <stdlib.h>

#include "read.h"
#include "utf8.h"

#define MAX_DEPTH 8

/* Calls `one` for each stage of `value`, which is null, a stage, or a sequence under `list`. */
typedef weft_status (*read_stage)(const reader *r, const json_t *value, const char *type);

static weft_status each(const reader *r, const json_t *value, const char *list, read_stage one,
                        int depth)
{
    static const char *const sequence[] = {"type", "normalizers", "pretokenizers", "decoders",
                                           NULL};
    weft_status st = WEFT_OK;
    if (!value || json_is_null(value))
        return WEFT_OK;
    if (depth > MAX_DEPTH)
        return read_bad(r, "", "sequences stand in each other more than %d deep", MAX_DEPTH);
    const char *type = read_type(r, value, &st);
    if (st != WEFT_OK || strcmp(type, "Sequence"))
        return st != WEFT_OK ? st : one(r, value, type);
    const json_t *stages = json_object_get(value, list);
    st = read_known(r, value, sequence);
    if (st == WEFT_OK && !json_is_array(stages))
        st = read_bad(r, list, "it is not a list");
    for (size_t i = 0; st == WEFT_OK && i < json_array_size(stages); i++) {
        const reader below = read_element(r, list, i);
        st = each(&below, json_array_get(stages, i), list, one, depth + 1);
    }
    return st;
}

static weft_status full(const reader *r, uint32_t n)
{
    return n < HF_MAX_STAGES ? WEFT_OK
                             : read_bad(r, "", "there are more than %d stages", HF_MAX_STAGES);
}

static weft_status unknown(const reader *r, const char *what, const char *type)
{
    return read_bad(r, "type", "%s %.60s is not supported", what, type);
}

/* --- normalizers --- */

/* Base64 of a map: its first word is the bytes of the double array that follows; then strings. */
static weft_status read_map(const reader *r, const json_t *value, hf_normalizer *k)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const json_t *text = json_object_get(value, "precompiled_charsmap");
    const char *s = json_string_value(text);
    const uint64_t n = s ? json_string_length(text) : 0;
    unsigned char *bytes = malloc(n + 8);
    uint64_t filled = 0;
    uint32_t bits = 0, have = 0, size = 0;
    if (!bytes)
        return read_no_memory(r);
    for (uint64_t i = 0; i < n && s[i] != '='; i++) {
        const char *at = memchr(letters, s[i], 64);
        bits = bits << 6 | (uint32_t)(at ? at - letters : 0);
        have += 6;
        if (!at)
            filled = UINT64_MAX / 2;
        else if (have >= 8)
            bytes[filled++] = (unsigned char)(bits >> (have -= 8));
        if (!at)
            break;
    }
    if (filled < UINT64_MAX / 2 && filled >= 8)
        memcpy(&size, bytes, 4);
    const bool right =
        size && size % 4 == 0 && size <= filled - 4 && filled - 4 - size <= INT32_MAX;
    if (right) {
        k->units = size / 4;
        k->blob_n = (uint32_t)(filled - 4 - size);
        k->trie = malloc(size);
        k->blob = read_copy((char *)bytes + 4 + size, k->blob_n);
        if (k->trie)
            memcpy(k->trie, bytes + 4, size);
    }
    free(bytes);
    if (!right)
        return read_bad(r, "precompiled_charsmap", "it is not a map of SentencePiece in base64");
    if (!k->trie || !k->blob)
        return read_no_memory(r);
    return utf8_valid(k->blob, k->blob_n) == k->blob_n
               ? WEFT_OK
               : read_bad(r, "precompiled_charsmap", "its strings are not UTF-8");
}

static weft_status read_replace(const reader *r, const json_t *value, hf_pattern *from, char **to,
                                uint32_t *n)
{
    weft_status st = read_pattern(r, value, "pattern", from);
    if (st == WEFT_OK)
        st = read_text(r, value, "content", to, n);
    if (st == WEFT_OK && !*to)
        st = read_bad(r, "content", "it is missing");
    return st;
}

static weft_status read_bert(const reader *r, const json_t *value, hf_normalizer *k)
{
    weft_status st = read_bool(r, value, "lowercase", &k->lower);
    k->accents = k->lower; /* where strip_accents is null */
    if (st == WEFT_OK)
        st = read_bool(r, value, "strip_accents", &k->accents);
    if (st == WEFT_OK)
        st = read_bool(r, value, "clean_text", &k->clean);
    return st == WEFT_OK ? read_bool(r, value, "handle_chinese_chars", &k->chinese) : st;
}

static weft_status fill_normalizer(const reader *r, const json_t *value, hf_normalizer *k)
{
    weft_status st = WEFT_OK;
    switch (k->kind) {
    case HF_STRIP:
        st = read_bool(r, value, "strip_left", &k->left);
        return st == WEFT_OK ? read_bool(r, value, "strip_right", &k->right) : st;
    case HF_REPLACE: return read_replace(r, value, &k->pattern, &k->text, &k->n);
    case HF_PREPEND:
        st = read_text(r, value, "prepend", &k->text, &k->n);
        return st != WEFT_OK || k->text ? st : read_bad(r, "prepend", "it is missing");
    case HF_PRECOMPILED: return read_map(r, value, k);
    case HF_BERT: return read_bert(r, value, k);
    default: return WEFT_OK;
    }
}

static weft_status one_normalizer(const reader *r, const json_t *value, const char *type)
{
    static const struct {
        const char *type;
        int kind;
        const char *fields[7];
    } all[] = {
        {"NFC", HF_NFC, {"type"}},
        {"NFD", HF_NFD, {"type"}},
        {"NFKC", HF_NFKC, {"type"}},
        {"NFKD", HF_NFKD, {"type"}},
        {"Lowercase", HF_LOWERCASE, {"type"}},
        {"StripAccents", HF_STRIP_ACCENTS, {"type"}},
        {"Strip", HF_STRIP, {"type", "strip_left", "strip_right"}},
        {"Replace", HF_REPLACE, {"type", "pattern", "content"}},
        {"Prepend", HF_PREPEND, {"type", "prepend"}},
        {"Precompiled", HF_PRECOMPILED, {"type", "precompiled_charsmap"}},
        {"Nmt", HF_NMT, {"type"}},
        {"ByteLevel", HF_BYTES, {"type"}},
        {"BertNormalizer",
         HF_BERT,
         {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}},
    };
    weft_tokenizer *t = r->t;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(type, all[i].type))
            continue;
        weft_status st = full(r, t->nnormalizers);
        if (st == WEFT_OK)
            st = read_known(r, value, all[i].fields);
        if (st != WEFT_OK)
            return st;
        hf_normalizer *k = &t->normalizer[t->nnormalizers++];
        k->kind = all[i].kind;
        return fill_normalizer(r, value, k);
    }
    return unknown(r, "the normalizer", type);
}

weft_status read_normalizers(const reader *r, const json_t *value)
{
    const reader below = read_field(r, "normalizer");
    return each(&below, value, "normalizers", one_normalizer, 0);
}

/* --- pre-tokenizers --- */

static weft_status read_choice(const reader *r, const json_t *value, const char *name,
                               const char *const *words, int *out)
{
    const json_t *v = json_object_get(value, name);
    if (!v || json_is_null(v))
        return WEFT_OK;
    for (int i = 0; json_is_string(v) && words[i]; i++)
        if (!strcmp(json_string_value(v), words[i])) {
            *out = i;
            return WEFT_OK;
        }
    return read_bad(r, name, "it is none of the known words");
}

static weft_status read_behavior(const reader *r, const json_t *value, hf_splitter *k)
{
    static const char *const words[] = {"Isolated",           "Removed",        "Contiguous",
                                        "MergedWithPrevious", "MergedWithNext", NULL};
    return read_choice(r, value, "behavior", words, &k->behavior);
}

/* `add_prefix_space` is what older files have for `prepend_scheme`. */
static weft_status read_metaspace(const reader *r, const json_t *value, char mark[8], uint32_t *n,
                                  int *scheme, bool *cuts)
{
    static const char *const words[] = {"never", "always", "first", NULL};
    bool prefix = true;
    *scheme = HF_ALWAYS;
    *cuts = true;
    weft_status st = read_char(r, value, "replacement", mark, n);
    if (st == WEFT_OK)
        st = read_bool(r, value, "add_prefix_space", &prefix);
    if (st == WEFT_OK)
        st = read_choice(r, value, "prepend_scheme", words, scheme);
    if (st == WEFT_OK && !prefix && json_object_get(value, "prepend_scheme") && *scheme)
        return read_bad(r, "add_prefix_space", "it contradicts prepend_scheme");
    if (!prefix)
        *scheme = HF_NEVER;
    return st == WEFT_OK ? read_bool(r, value, "split", cuts) : st;
}

/* Up to three stages: the space in front, the pattern of GPT-2, and the alphabet, which is left out
 * where this is the last stage (read_splitters()). */
static weft_status read_bytes(const reader *r, const json_t *value)
{
    weft_tokenizer *t = r->t;
    bool prefix = true, cuts = true, trim;
    weft_status st = read_bool(r, value, "add_prefix_space", &prefix);
    if (st == WEFT_OK)
        st = read_bool(r, value, "use_regex", &cuts);
    if (st == WEFT_OK)
        st = read_bool(r, value, "trim_offsets", &trim);
    if (st == WEFT_OK)
        st = full(r, t->nsplitters + 2);
    if (st == WEFT_OK && prefix)
        t->splitter[t->nsplitters++].kind = HF_BYTE_PREFIX;
    if (st == WEFT_OK && cuts)
        st = read_regex(r, "use_regex", gpt2_pattern, &t->splitter[t->nsplitters++].pattern);
    if (st == WEFT_OK)
        t->splitter[t->nsplitters++].kind = HF_BYTE_CHARS;
    return st;
}

/* CharDelimiterSplit: the character is dropped. */
static weft_status read_delimiter(const reader *r, const json_t *value, hf_splitter *k)
{
    char mark[8];
    weft_status st = read_char(r, value, "delimiter", mark, &k->pattern.n);
    k->behavior = HF_REMOVED;
    k->pattern.literal = st == WEFT_OK ? read_copy(mark, k->pattern.n) : NULL;
    return st != WEFT_OK || k->pattern.literal ? st : read_no_memory(r);
}

static weft_status fill_splitter(const reader *r, const json_t *value, const char *type,
                                 hf_splitter *k)
{
    weft_status st = WEFT_OK;
    if (!strcmp(type, "CharDelimiterSplit"))
        return read_delimiter(r, value, k);
    switch (k->kind) {
    case HF_SPLIT:
        st = read_pattern(r, value, "pattern", &k->pattern);
        if (st == WEFT_OK)
            st = read_bool(r, value, "invert", &k->invert);
        return st == WEFT_OK ? read_behavior(r, value, k) : st;
    case HF_DIGITS: {
        bool alone = false;
        st = read_bool(r, value, "individual_digits", &alone);
        k->behavior = alone ? HF_ISOLATED : HF_CONTIGUOUS;
        return st;
    }
    case HF_PUNCTUATION: return read_behavior(r, value, k);
    case HF_METASPACE: return read_metaspace(r, value, k->mark, &k->n, &k->scheme, &k->cuts);
    default: k->behavior = HF_REMOVED; return WEFT_OK;
    }
}

static weft_status one_splitter(const reader *r, const json_t *value, const char *type)
{
    static const struct {
        const char *type;
        int kind;
        const char *fields[7];
    } all[] = {
        {"Split", HF_SPLIT, {"type", "pattern", "behavior", "invert"}},
        {"CharDelimiterSplit", HF_SPLIT, {"type", "delimiter"}},
        {"Digits", HF_DIGITS, {"type", "individual_digits"}},
        {"Punctuation", HF_PUNCTUATION, {"type", "behavior"}},
        {"Whitespace", HF_WHITESPACE, {"type"}},
        {"WhitespaceSplit", HF_WHITESPACE_SPLIT, {"type"}},
        {"BertPreTokenizer", HF_WHITESPACE_SPLIT, {"type"}},
        {"Metaspace",
         HF_METASPACE,
         {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}},
        {"ByteLevel", HF_BYTE_CHARS, {"type", "add_prefix_space", "trim_offsets", "use_regex"}},
    };
    weft_tokenizer *t = r->t;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(type, all[i].type))
            continue;
        weft_status st = full(r, t->nsplitters + 1);
        if (st == WEFT_OK)
            st = read_known(r, value, all[i].fields);
        if (st != WEFT_OK || all[i].kind == HF_BYTE_CHARS)
            return st != WEFT_OK ? st : read_bytes(r, value);
        hf_splitter *k = &t->splitter[t->nsplitters++];
        k->kind = all[i].kind;
        st = fill_splitter(r, value, type, k);
        if (!strcmp(type, "BertPreTokenizer"))
            t->splitter[t->nsplitters++].kind = HF_PUNCTUATION;
        return st;
    }
    return unknown(r, "the pre-tokenizer", type);
}

weft_status read_splitters(const reader *r, const json_t *value)
{
    weft_tokenizer *t = r->t;
    const reader below = read_field(r, "pre_tokenizer");
    const weft_status st = each(&below, value, "pretokenizers", one_splitter, 0);
    t->raw = t->nsplitters && t->splitter[t->nsplitters - 1].kind == HF_BYTE_CHARS;
    return st;
}

/* --- decoders --- */

static weft_status read_strip(const reader *r, const json_t *value, hf_decoder *d)
{
    const json_int_t start = json_integer_value(json_object_get(value, "start"));
    const json_int_t stop = json_integer_value(json_object_get(value, "stop"));
    if (stop)
        return read_bad(r, "stop", "only what begins a text can be taken away");
    if (start < 0 || start > HF_MAX_TOKEN)
        return read_bad(r, "start", "it is not a number of characters from 0 to %d", HF_MAX_TOKEN);
    d->start = (uint32_t)start;
    weft_status st = read_char(r, value, "content", d->mark, &d->mark_n);
    return st == WEFT_OK && d->mark_n > 1 ? read_bad(r, "content", "it is no character of ASCII")
                                          : st;
}

static weft_status fill_decoder(const reader *r, const json_t *value, hf_decoder *d)
{
    int scheme;
    bool cuts;
    weft_status st = WEFT_OK;
    switch (d->kind) {
    case HF_D_METASPACE:
        st = read_metaspace(r, value, d->mark, &d->mark_n, &scheme, &cuts);
        d->first = scheme != HF_NEVER;
        return st;
    case HF_D_REPLACE: return read_replace(r, value, &d->from, &d->to, &d->n);
    case HF_D_STRIP: return read_strip(r, value, d);
    default: return WEFT_OK;
    }
}

static weft_status one_decoder(const reader *r, const json_t *value, const char *type)
{
    static const struct {
        const char *type;
        int kind;
        const char *fields[7];
    } all[] = {
        {"ByteLevel", HF_D_BYTES, {"type", "add_prefix_space", "trim_offsets", "use_regex"}},
        {"Metaspace",
         HF_D_METASPACE,
         {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}},
        {"Replace", HF_D_REPLACE, {"type", "pattern", "content"}},
        {"ByteFallback", HF_D_FALLBACK, {"type"}},
        {"Strip", HF_D_STRIP, {"type", "content", "start", "stop"}},
        {"Fuse", HF_D_JOIN, {"type"}},
    };
    weft_tokenizer *t = r->t;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(type, all[i].type))
            continue;
        weft_status st = full(r, t->ndecoders);
        if (st == WEFT_OK)
            st = read_known(r, value, all[i].fields);
        if (st != WEFT_OK)
            return st;
        hf_decoder *d = &t->decoder[t->ndecoders];
        d->kind = all[i].kind;
        d->whole =
            t->ndecoders && (d[-1].whole || d[-1].kind == HF_D_JOIN || d[-1].kind == HF_D_BYTES);
        t->ndecoders++;
        if (d->whole && d->kind != HF_D_STRIP && d->kind != HF_D_JOIN)
            return read_bad(r, "type", "%s behind Fuse or ByteLevel is not supported", type);
        return fill_decoder(r, value, d);
    }
    return unknown(r, "the decoder", type);
}

weft_status read_decoders(const reader *r, const json_t *value)
{
    const reader below = read_field(r, "decoder");
    return each(&below, value, "decoders", one_decoder, 0);
}
