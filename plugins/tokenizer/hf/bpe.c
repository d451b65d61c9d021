/* bpe.c: a word becomes ids by BPE.
 *
 * The word begins as its characters, or bytes. Pairs of neighbours that a merge is for wait in a
 * heap; the one of the lowest rank, of equal ones the first, becomes one token, and the pairs that
 * this makes enter the heap. An entry that no longer fits its place is dropped, by the test that
 * the library makes: the ids would differ where two merges make one token. */
#include <stdio.h>

#include "hf.h"
#include "utf8.h"

static const hf_merge *find_merge(const weft_tokenizer *t, int32_t left, int32_t right)
{
    uint32_t i = ((uint32_t)left * 0x9e3779b1u ^ (uint32_t)right * 0x85ebca6bu);
    for (i = (i ^ i >> 15) & t->merge_mask; t->merges[i].left >= 0; i = (i + 1) & t->merge_mask)
        if (t->merges[i].left == left && t->merges[i].right == right)
            return &t->merges[i];
    return NULL;
}

/* --- the heap --- */

static void push(hf_work *w, const hf_merge *m, int32_t place)
{
    if (!m || !HF_CAPACITY(w, &w->heap, 1))
        return;
    const hf_candidate c = {(uint64_t)(uint32_t)m->rank << 32 | (uint32_t)place, m->to};
    uint64_t i = w->heap.n++;
    while (i && w->heap.at[(i - 1) / 2].order > c.order) {
        w->heap.at[i] = w->heap.at[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap.at[i] = c;
}

static hf_candidate pop(hf_work *w)
{
    hf_candidate *h = w->heap.at;
    const hf_candidate top = h[0], last = h[--w->heap.n];
    const uint64_t n = w->heap.n;
    uint64_t i = 0;
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= n)
            break;
        child += child + 1 < n && h[child + 1].order < h[child].order;
        if (h[child].order >= last.order)
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = last;
    return top;
}

static void merge_all(hf_work *w)
{
    const weft_tokenizer *t = w->t;
    hf_symbol *s = w->symbols.at;
    w->heap.n = 0;
    for (uint64_t i = 0; i + 1 < w->symbols.n; i++)
        push(w, find_merge(t, s[i].id, s[i + 1].id), (int32_t)i);
    while (w->heap.n) {
        const hf_candidate top = pop(w);
        const int32_t at = (int32_t)(uint32_t)top.order, right = s[at].next;
        if (!s[at].n || right < 0)
            continue;
        const hf_merge *m = find_merge(t, s[at].id, s[right].id);
        if (!m || m->to != top.to)
            continue;
        s[at].id = top.to;
        s[at].n += s[right].n;
        s[at].next = s[right].next;
        s[right].n = 0;
        if (s[at].next >= 0)
            s[s[at].next].prev = at;
        if (s[at].prev >= 0)
            push(w, find_merge(t, s[s[at].prev].id, s[at].id), s[at].prev);
        if (s[at].next >= 0)
            push(w, find_merge(t, s[at].id, s[s[at].next].id), at);
    }
}

/* --- what a word begins as --- */

static void add(hf_work *w, int32_t id, uint32_t n)
{
    if (!HF_CAPACITY(w, &w->symbols, 1))
        return;
    const int32_t i = (int32_t)w->symbols.n++;
    w->symbols.at[i] = (hf_symbol){id, i - 1, -1, n};
    if (i)
        w->symbols.at[i - 1].next = i;
}

/* The characters that wait for an id of the unknown: their bytes. */
static void flush(hf_work *w, uint32_t *unknown)
{
    if (*unknown)
        add(w, w->t->unknown, *unknown);
    *unknown = 0;
}

static bool add_bytes(hf_work *w, const char *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (w->t->byte_id[(unsigned char)s[i]] < 0)
            return false;
    for (uint32_t i = 0; i < n; i++)
        add(w, w->t->byte_id[(unsigned char)s[i]], 1);
    return true;
}

/* The character of a word with what a model puts around it, into `room`. */
static uint32_t affixed(const weft_tokenizer *t, const char *s, uint32_t n, bool first, bool last,
                        char room[256])
{
    const int made = snprintf(room, 256, "%s%.*s%s", first || !t->prefix ? "" : t->prefix, (int)n,
                              s, last && t->suffix ? t->suffix : "");
    return made < 0 || made > 255 ? 0 : (uint32_t)made;
}

static void begin_chars(hf_work *w, const char *s, uint32_t n)
{
    const weft_tokenizer *t = w->t;
    const bool affixes = t->prefix || t->suffix;
    uint32_t unknown = 0, bytes;
    char room[256];
    for (uint32_t i = 0; i < n; i += bytes) {
        const char *c = s + i;
        bytes = utf8_bytes((unsigned char)*c);
        uint32_t length = bytes;
        if (affixes) {
            length = affixed(t, c, bytes, !i, i + bytes == n, room);
            c = room;
        }
        const int32_t id = hf_table_get(&t->keys, c, length);
        if (id >= 0) {
            flush(w, &unknown);
            add(w, id, bytes);
        } else if (!(t->fallback && add_bytes(w, c, length)) && t->unknown >= 0) {
            if (!t->fuse)
                flush(w, &unknown);
            unknown += bytes;
        }
    }
    flush(w, &unknown);
}

/* Bytes of ByteLevel's alphabet: one that the vocabulary lacks is unknown, or nothing. */
static void begin_bytes(hf_work *w, const char *s, uint32_t n)
{
    const weft_tokenizer *t = w->t;
    uint32_t unknown = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = t->byte_id[(unsigned char)s[i]];
        if (id >= 0) {
            flush(w, &unknown);
            add(w, id, 1);
        } else if (t->unknown >= 0) {
            if (!t->fuse)
                flush(w, &unknown);
            unknown++;
        }
    }
    flush(w, &unknown);
}

static void encode(hf_work *w, const char *s, uint32_t n)
{
    const weft_tokenizer *t = w->t;
    const int32_t whole = t->whole_words ? hf_table_get(&t->keys, s, n) : -1;
    if (whole >= 0) {
        hf_put_id(w, whole);
        return;
    }
    w->symbols.n = 0;
    if (t->raw)
        begin_bytes(w, s, n);
    else
        begin_chars(w, s, n);
    if (!w->failed)
        merge_all(w);
    if (!w->failed && HF_CAPACITY(w, &w->ids, w->symbols.n))
        for (uint64_t i = 0; i < w->symbols.n; i++)
            if (w->symbols.at[i].n)
                w->ids.at[w->ids.n++] = w->symbols.at[i].id;
}

/* Short words are looked up among those that came before. */
void hf_bpe(hf_work *w, const char *s, uint32_t n)
{
    if (n > HF_CACHE_KEY) {
        encode(w, s, n);
        return;
    }
    const uint32_t hash = table_hash(s, n);
    hf_cached *set = w->cache + (uint64_t)(hash & (HF_CACHE_SETS - 1)) * HF_CACHE_WAYS;
    for (int i = 0; i < HF_CACHE_WAYS; i++)
        if (set[i].hash == hash && set[i].n == n && !memcmp(set[i].key, s, n)) {
            if (HF_CAPACITY(w, &w->ids, HF_CACHE_IDS)) {
                memcpy(w->ids.at + w->ids.n, set[i].id, sizeof set[i].id);
                w->ids.n += set[i].ids;
            }
            return;
        }
    const uint64_t before = w->ids.n;
    encode(w, s, n);
    const uint64_t made = w->ids.n - before;
    if (w->failed || made > HF_CACHE_IDS)
        return;
    set[1] = set[0];
    set[0] = (hf_cached){.hash = hash, .n = (uint8_t)n, .ids = (uint8_t)made};
    memcpy(set[0].key, s, n);
    memcpy(set[0].id, w->ids.at + before, made * sizeof *w->ids.at);
}
