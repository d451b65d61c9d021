/* read/model.c: the model of a tokenizer.json: its tokens, and merges or scores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "read.h"
#include "utf8.h"

/* --- tokens --- */

/* The bytes that a token in ByteLevel's alphabet stands for, into `out`; UINT32_MAX: it has a
 * character of no byte, so no word has it. */
static uint32_t raw_bytes(const char *s, uint32_t n, char *out)
{
    uint32_t made = 0, bytes;
    for (uint32_t i = 0; i < n; i += bytes) {
        const int byte = utf8_to_byte(utf8_next(s + i, &bytes));
        if (byte < 0)
            return UINT32_MAX;
        out[made++] = (char)byte;
    }
    return made;
}

/* Tables of the tokens, after all have names. */
static weft_status index_tokens(const reader *r)
{
    weft_tokenizer *t = r->t;
    if (!hf_table_make(&t->by_name, t->own) || (t->raw && !hf_table_make(&t->keys, t->own)))
        return read_no_memory(r);
    for (uint32_t i = 0; i < t->vocab; i++)
        if (t->name[i].n)
            hf_table_set(&t->by_name, t->name[i].at, t->name[i].n, (int32_t)i);
    if (!t->raw) {
        t->keys = t->by_name;
        return WEFT_OK;
    }
    char *out = t->raw_names = malloc(t->filled + 1u);
    if (!out)
        return read_no_memory(r);
    for (uint32_t i = 0; i < t->vocab; i++) {
        const uint32_t n = raw_bytes(t->name[i].at, t->name[i].n, out);
        if (n && n != UINT32_MAX) {
            hf_table_set(&t->keys, out, n, (int32_t)i);
            out += n;
        }
    }
    return WEFT_OK;
}

/* Ids of single bytes: of ByteLevel's alphabet, or of "<0x0A>". */
static void index_bytes(weft_tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        const char byte = (char)b;
        const int n = snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->byte_id[b] = t->raw        ? hf_table_get(&t->keys, &byte, 1)
                        : t->fallback ? hf_table_get(&t->by_name, name, (uint64_t)n)
                                      : -1;
    }
}

/* --- BPE --- */

static weft_status read_vocab(const reader *r, const json_t *vocab)
{
    const char *key;
    json_t *value;
    weft_status st = WEFT_OK;
    if (!json_is_object(vocab) || !json_object_size(vocab))
        return read_bad(r, "vocab", "it is not an object with tokens");
    json_object_foreach ((json_t *)(uintptr_t)vocab, key, value) {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        const reader below = read_field(r, "vocab");
        if (id < 0 || id >= INT32_MAX)
            return read_bad(&below, "", "\"%.60s\" has no whole number of at least 0", key);
        st = read_grow(&below, (uint32_t)id + 1);
        if (st == WEFT_OK && r->t->name[id].n)
            st = read_bad(&below, "", "\"%.60s\" and another token have the id %lld", key, id);
        if (st == WEFT_OK)
            st = read_name(&below, (uint32_t)id, key, (uint32_t)strlen(key));
        if (st != WEFT_OK)
            return st;
        r->t->own++;
    }
    return st;
}

/* The two tokens of a merge, "a b" or ["a", "b"]. */
static bool both(const json_t *merge, const char **a, size_t *na, const char **b, size_t *nb)
{
    if (json_is_string(merge)) {
        *a = json_string_value(merge);
        const size_t n = json_string_length(merge);
        const char *gap = memchr(*a, ' ', n);
        if (!gap || memchr(gap + 1, ' ', n - (size_t)(gap + 1 - *a)))
            return false;
        *b = gap + 1;
        *na = (size_t)(gap - *a);
        *nb = n - *na - 1;
        return true;
    }
    const json_t *x = json_array_get(merge, 0), *y = json_array_get(merge, 1);
    if (json_array_size(merge) != 2 || !json_is_string(x) || !json_is_string(y))
        return false;
    *a = json_string_value(x);
    *b = json_string_value(y);
    *na = json_string_length(x);
    *nb = json_string_length(y);
    return true;
}

static void put_merge(weft_tokenizer *t, hf_merge m)
{
    uint32_t i = (uint32_t)m.left * 0x9e3779b1u ^ (uint32_t)m.right * 0x85ebca6bu;
    for (i = (i ^ i >> 15) & t->merge_mask; t->merges[i].left >= 0; i = (i + 1) & t->merge_mask)
        if (t->merges[i].left == m.left && t->merges[i].right == m.right)
            break;
    t->merges[i] = m;
}

static weft_status read_merge(const reader *r, const json_t *merge, uint32_t rank)
{
    weft_tokenizer *t = r->t;
    const char *a, *b;
    size_t na, nb;
    char joined[2 * HF_MAX_TOKEN];
    if (!both(merge, &a, &na, &b, &nb))
        return read_bad(r, "", "a merge is two tokens: \"a b\" or [\"a\", \"b\"]");
    const size_t skip = t->prefix ? strlen(t->prefix) : 0;
    if (na > HF_MAX_TOKEN || nb > HF_MAX_TOKEN || nb < skip)
        return read_bad(r, "", "a token of the merge is too long or lacks its prefix");
    memcpy(joined, a, na);
    memcpy(joined + na, b + skip, nb - skip);
    const hf_merge m = {.left = hf_table_get(&t->by_name, a, na),
                        .right = hf_table_get(&t->by_name, b, nb),
                        .to = hf_table_get(&t->by_name, joined, na + nb - skip),
                        .rank = (int32_t)rank};
    if (m.left < 0 || m.right < 0 || m.to < 0)
        return read_bad(r, "", "%s is not in model.vocab",
                        m.left < 0    ? "its first token"
                        : m.right < 0 ? "its second token"
                                      : "what it makes");
    put_merge(t, m);
    return WEFT_OK;
}

static weft_status read_merges(const reader *r, const json_t *merges)
{
    weft_tokenizer *t = r->t;
    const size_t n = json_array_size(merges);
    uint64_t room = 16;
    if (!json_is_array(merges))
        return read_bad(r, "merges", "it is not a list");
    while (room < 2 * (uint64_t)n + 2)
        room *= 2;
    t->merges = room > INT32_MAX ? NULL : malloc(room * sizeof *t->merges);
    if (!t->merges)
        return read_no_memory(r);
    t->merge_mask = (uint32_t)room - 1;
    for (uint64_t i = 0; i < room; i++)
        t->merges[i].left = -1;
    uint32_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *merge = json_array_get(merges, i);
        const reader below = read_element(r, "merges", i);
        if (json_is_string(merge) && !strncmp(json_string_value(merge), "#version", 8))
            continue;
        weft_status st = read_merge(&below, merge, rank++);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

static bool has_all_bytes(const weft_tokenizer *t)
{
    for (int b = 0; b < 256; b++)
        if (t->byte_id[b] < 0)
            return false;
    return true;
}

static weft_status read_unknown(const reader *r, const json_t *value)
{
    weft_tokenizer *t = r->t;
    const json_t *unknown = json_object_get(value, "unk_token");
    t->unknown = -1;
    if (!unknown || json_is_null(unknown))
        return WEFT_OK;
    if (!json_is_string(unknown))
        return read_bad(r, "unk_token", "it is not a text");
    t->unknown = hf_table_get(&t->by_name, json_string_value(unknown), json_string_length(unknown));
    return t->unknown >= 0 || has_all_bytes(t)
               ? WEFT_OK
               : read_bad(r, "unk_token", "the vocabulary has no such token");
}

static weft_status read_bpe_flags(const reader *r, const json_t *value)
{
    weft_tokenizer *t = r->t;
    uint32_t n;
    weft_status st = read_text(r, value, "continuing_subword_prefix", &t->prefix, &n);
    if (st == WEFT_OK)
        st = read_text(r, value, "end_of_word_suffix", &t->suffix, &n);
    if (st == WEFT_OK &&
        ((t->prefix && strlen(t->prefix) > 64) || (t->suffix && strlen(t->suffix) > 64)))
        st = read_bad(r, "end_of_word_suffix", "it or the prefix has more than 64 bytes");
    if (st == WEFT_OK)
        st = read_bool(r, value, "fuse_unk", &t->fuse);
    if (st == WEFT_OK)
        st = read_bool(r, value, "byte_fallback", &t->fallback);
    if (st == WEFT_OK)
        st = read_bool(r, value, "ignore_merges", &t->whole_words);
    for (char **affix = &t->prefix;; affix = &t->suffix) { /* an empty one is none */
        if (*affix && !**affix) {
            free(*affix);
            *affix = NULL;
        }
        if (affix == &t->suffix)
            return st;
    }
}

static weft_status read_bpe(const reader *r, const json_t *value)
{
    static const char *const fields[] = {"vocab",
                                         "merges",
                                         "dropout",
                                         "continuing_subword_prefix",
                                         "fuse_unk",
                                         "byte_fallback",
                                         "ignore_merges",
                                         "end_of_word_suffix",
                                         "unk_token",
                                         "type",
                                         NULL};
    weft_tokenizer *t = r->t;
    const double dropout = json_number_value(json_object_get(value, "dropout"));
    weft_status st = read_known(r, value, fields);
    if (st == WEFT_OK && dropout != 0)
        st = read_bad(r, "dropout", "it makes ids a matter of chance; set it to null");
    if (st == WEFT_OK)
        st = read_bpe_flags(r, value);
    t->raw = t->raw && !t->prefix && !t->suffix;
    if (st == WEFT_OK)
        st = read_vocab(r, json_object_get(value, "vocab"));
    if (st == WEFT_OK)
        st = index_tokens(r);
    if (st != WEFT_OK)
        return st;
    index_bytes(t);
    st = read_unknown(r, value);
    return st == WEFT_OK ? read_merges(r, json_object_get(value, "merges")) : st;
}

/* --- Unigram --- */

static weft_status read_scores(const reader *r, const json_t *vocab)
{
    weft_tokenizer *t = r->t;
    const size_t n = json_array_size(vocab);
    if (!n || n >= INT32_MAX)
        return read_bad(r, "vocab", "it is not a list with tokens");
    weft_status st = read_grow(r, (uint32_t)n);
    t->score = st == WEFT_OK ? calloc(n, sizeof *t->score) : NULL;
    if (st == WEFT_OK && !t->score)
        st = read_no_memory(r);
    t->least = INFINITY;
    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        const json_t *pair = json_array_get(vocab, i), *text = json_array_get(pair, 0),
                     *score = json_array_get(pair, 1);
        const reader below = read_element(r, "vocab", i);
        if (json_array_size(pair) != 2 || !json_is_string(text) || !json_is_number(score))
            return read_bad(&below, "", "it is not [token, score]");
        t->score[i] = json_number_value(score);
        t->least = t->score[i] < t->least ? t->score[i] : t->least;
        st = read_name(&below, (uint32_t)i, json_string_value(text),
                       (uint32_t)json_string_length(text));
    }
    t->own = (uint32_t)n;
    return st;
}

static weft_status make_trie(const reader *r)
{
    weft_tokenizer *t = r->t;
    hf_key *keys = malloc(t->own * sizeof *keys);
    bool made = keys != NULL;
    for (uint32_t i = 0; made && i < t->own; i++)
        keys[i] = (hf_key){t->name[i].at, t->name[i].n, i, (int32_t)i};
    made = made && hf_trie_make(&t->trie, keys, t->own);
    free(keys);
    return made ? WEFT_OK : read_no_memory(r);
}

static weft_status read_unigram(const reader *r, const json_t *value)
{
    static const char *const fields[] = {"vocab", "unk_id", "byte_fallback", "type", NULL};
    weft_tokenizer *t = r->t;
    const json_t *unknown = json_object_get(value, "unk_id");
    weft_status st = read_known(r, value, fields);
    t->unigram = true;
    t->raw = false;
    if (st == WEFT_OK)
        st = read_bool(r, value, "byte_fallback", &t->fallback);
    if (st == WEFT_OK)
        st = read_scores(r, json_object_get(value, "vocab"));
    if (st == WEFT_OK && (!json_is_integer(unknown) || json_integer_value(unknown) < 0 ||
                          json_integer_value(unknown) >= t->own))
        st = read_bad(r, "unk_id", "it is not the id of a token, so not every text can be encoded");
    if (st == WEFT_OK)
        st = index_tokens(r);
    if (st != WEFT_OK)
        return st;
    t->unknown = (int32_t)json_integer_value(unknown);
    index_bytes(t);
    return make_trie(r);
}

/* Files of before 2020 have no "type"; merges say what they are. */
weft_status read_model(const reader *r, const json_t *value)
{
    weft_tokenizer *t = r->t;
    const reader below = read_field(r, "model");
    const json_t *type = json_object_get(value, "type");
    const char *name = json_is_string(type)               ? json_string_value(type)
                       : json_object_get(value, "merges") ? "BPE"
                                                          : "";
    weft_status st;
    if (!strcmp(name, "BPE"))
        st = read_bpe(&below, value);
    else if (!strcmp(name, "Unigram"))
        st = read_unigram(&below, value);
    else
        st = read_bad(&below, "type", "the model %.60s is not supported; BPE and Unigram are",
                      *name ? name : "without a type");
    t->nsplitters -= t->raw; /* the alphabet is in the keys */
    return st;
}
