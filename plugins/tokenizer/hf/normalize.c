/* normalize.c: what changes a text before it is cut into words.
 *
 * Forms of Unicode are made with the tables of utf8proc: each character is decomposed, marks are
 * put in order, and the result is composed. utf8proc's own ordering takes time that grows with the
 * square of a run of marks, so a counting sort stands in its place. ASCII is in every form already
 * and is copied. */
#include <utf8proc.h>

#include "hf.h"
#include "utf8.h"

/* --- NFC, NFD, NFKC, NFKD --- */

static uint8_t class_of(int32_t c)
{
    return (uint8_t)utf8proc_get_property(c)->combining_class;
}

/* Marks of one run in the order of their classes, equal ones as they stood. */
static void order_run(hf_work *w, int32_t *c, uint64_t n)
{
    uint64_t count[257] = {0};
    hf_bytes *spare = &w->spare;
    spare->n = 0;
    if (n < 2 || !HF_CAPACITY(w, spare, n * sizeof *c))
        return;
    for (uint64_t i = 0; i < n; i++)
        count[class_of(c[i]) + 1]++;
    for (int k = 0; k < 256; k++)
        count[k + 1] += count[k];
    for (uint64_t i = 0; i < n; i++)
        memcpy(spare->at + sizeof *c * count[class_of(c[i])]++, &c[i], sizeof *c);
    memcpy(c, spare->at, n * sizeof *c);
}

static void order_marks(hf_work *w)
{
    int32_t *c = w->points.at;
    for (uint64_t i = 0; i < w->points.n;) {
        if (!class_of(c[i])) {
            i++;
            continue;
        }
        uint64_t end = i;
        while (end < w->points.n && class_of(c[end]))
            end++;
        order_run(w, c + i, end - i);
        i = end;
    }
}

/* s begins with a character that nothing before it composes with. */
static void form_island(hf_work *w, const char *s, uint64_t n, int options, hf_bytes *out)
{
    w->points.n = 0;
    for (uint64_t i = 0; i < n;) {
        uint32_t bytes;
        const uint32_t c = utf8_next(s + i, &bytes);
        int boundary = 0;
        if (!HF_CAPACITY(w, &w->points, 32))
            return;
        const utf8proc_ssize_t made = utf8proc_decompose_char(
            (int32_t)c, w->points.at + w->points.n, 32, (utf8proc_option_t)options, &boundary);
        if (made > 0 && made <= 32)
            w->points.n += (uint64_t)made;
        i += bytes;
    }
    order_marks(w);
    if (options & UTF8PROC_COMPOSE)
        w->points.n = (uint64_t)utf8proc_normalize_utf32(
            w->points.at, (utf8proc_ssize_t)w->points.n, (utf8proc_option_t)options);
    for (uint64_t i = 0; i < w->points.n; i++)
        hf_put_char(w, out, (uint32_t)w->points.at[i]);
}

static void form(hf_work *w, const char *s, uint64_t n, int kind, hf_bytes *out)
{
    const bool composed = kind == HF_NFC || kind == HF_NFKC;
    const int options = UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                        (kind == HF_NFKC || kind == HF_NFKD ? UTF8PROC_COMPAT : 0);
    for (uint64_t i = 0; i < n;) {
        uint64_t end = i;
        while (end < n && !((unsigned char)s[end] & 0x80))
            end++;
        if (end == n || end - i > 1) { /* the last one may take a mark */
            const uint64_t bytes = end == n ? n - i : end - 1 - i;
            hf_put(w, out, s + i, bytes);
            i += bytes;
        }
        if (end == n)
            return;
        while (end < n && (unsigned char)s[end] & 0x80)
            end++;
        form_island(w, s + i, end - i, options, out);
        i = end;
    }
}

/* --- character by character --- */

static uint32_t nmt(uint32_t c)
{
    if ((c >= 1 && c <= 8) || c == 11 || (c >= 14 && c <= 31) || c == 127 || c == 0x8f || c == 0x9f)
        return UINT32_MAX;
    const bool space = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 ||
                       (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xfeff || c == 0xfffd;
    return space ? ' ' : c;
}

/* BertNormalizer's clean_text and handle_chinese_chars. */
static void bert(hf_work *w, const hf_normalizer *k, uint32_t c, hf_bytes *out)
{
    const bool blank = utf8_is_space(c);
    if (k->clean && (!c || c == 0xfffd || (!(c == 9 || c == 10 || c == 13) && utf8_is_other(c))))
        return;
    const bool chinese = k->chinese && utf8_is_chinese(c);
    if (chinese)
        hf_put(w, out, " ", 1);
    hf_put_char(w, out, k->clean && blank ? ' ' : c);
    if (chinese)
        hf_put(w, out, " ", 1);
}

static void lower(hf_work *w, uint32_t c, hf_bytes *out)
{
    if (c == 0x130) { /* the one character whose small form is two */
        hf_put(w, out, "i\xcc\x87", 3);
        return;
    }
    hf_put_char(w, out, (uint32_t)utf8proc_tolower((int32_t)c));
}

static void each_char(hf_work *w, const hf_normalizer *k, int kind, const char *s, uint64_t n,
                      hf_bytes *out)
{
    for (uint64_t i = 0; i < n;) {
        uint32_t bytes;
        const uint32_t c = utf8_next(s + i, &bytes);
        if (kind == HF_LOWERCASE)
            lower(w, c, out);
        else if (kind == HF_BERT)
            bert(w, k, c, out);
        else if (kind == HF_NMT && nmt(c) != UINT32_MAX)
            hf_put_char(w, out, nmt(c));
        else if (kind == HF_BYTES)
            for (uint32_t b = 0; b < bytes; b++)
                hf_put_char(w, out, utf8_of_byte((unsigned char)s[i + b]));
        else if (kind == HF_STRIP_ACCENTS &&
                 !(k->kind == HF_BERT ? utf8_is_nonspacing(c) : utf8_is_mark(c)))
            hf_put(w, out, s + i, bytes);
        i += bytes;
    }
}

/* --- Precompiled: a map of SentencePiece, a double array of darts-clone --- */

/* The string that the shortest key which begins s[0..n) leads to; NULL: none does. */
static const char *mapped(const hf_normalizer *k, const char *s, uint64_t n)
{
    uint32_t node = 0, unit = k->trie[0];
    for (uint64_t i = 0;; i++) {
        node ^= (unit >> 10) << ((unit & 1u << 9) >> 6);
        if (i && unit >> 8 & 1) {
            const uint32_t at = node < k->units ? k->trie[node] & 0x7fffffffu : UINT32_MAX;
            return at < k->blob_n ? k->blob + at : NULL;
        }
        if (i == n || !s[i])
            return NULL;
        node ^= (unsigned char)s[i];
        if (node >= k->units)
            return NULL;
        unit = k->trie[node];
        if ((unit & (1u << 31 | 0xff)) != (unsigned char)s[i])
            return NULL;
    }
}

static uint64_t grapheme(const char *s, uint64_t n)
{
    uint32_t bytes;
    utf8proc_int32_t state = 0;
    uint32_t c = utf8_next(s, &bytes);
    uint64_t at = bytes;
    if (c < 0x80 && c != 13 && (at == n || (unsigned char)s[at] < 0x80))
        return at;
    while (at < n) {
        const uint32_t next = utf8_next(s + at, &bytes);
        if (utf8proc_grapheme_break_stateful((int32_t)c, (int32_t)next, &state))
            break;
        c = next;
        at += bytes;
    }
    return at;
}

static void precompiled(hf_work *w, const hf_normalizer *k, const char *s, uint64_t n,
                        hf_bytes *out)
{
    for (uint64_t i = 0, end; i < n; i = end) {
        end = i + grapheme(s + i, n - i);
        const char *to = end - i < 6 ? mapped(k, s + i, end - i) : NULL;
        if (to) {
            hf_put(w, out, to, strlen(to));
            continue;
        }
        for (uint64_t j = i; j < end;) {
            const uint32_t bytes = utf8_bytes((unsigned char)s[j]);
            to = mapped(k, s + j, bytes);
            hf_put(w, out, to ? to : s + j, to ? strlen(to) : bytes);
            j += bytes;
        }
    }
}

/* --- all of them --- */

static void replace(hf_work *w, const hf_normalizer *k, const char *s, uint64_t n, hf_bytes *out)
{
    uint64_t at = 0, start, end;
    while (at < n && hf_find(w, &k->pattern, s, n, at, &start, &end) > 0) {
        hf_put(w, out, s + at, start - at);
        hf_put(w, out, k->text, k->n);
        at = end;
    }
    hf_put(w, out, s + at, n - at);
}

static void strip(hf_work *w, const hf_normalizer *k, const char *s, uint64_t n, bool inside,
                  hf_bytes *out)
{
    uint32_t bytes;
    uint64_t from = 0, to = n;
    while (k->left && !inside && from < n && utf8_is_space(utf8_next(s + from, &bytes)))
        from += bytes;
    while (k->right && to > from) {
        uint64_t i = to - 1;
        while (i > from && ((unsigned char)s[i] & 0xc0) == 0x80)
            i--;
        if (!utf8_is_space(utf8_next(s + i, &bytes)))
            break;
        to = i;
    }
    hf_put(w, out, s + from, to - from);
}

static void one(hf_work *w, const hf_normalizer *k, const char *s, uint64_t n, bool inside,
                hf_bytes *out)
{
    switch (k->kind) {
    case HF_NFC:
    case HF_NFD:
    case HF_NFKC:
    case HF_NFKD: form(w, s, n, k->kind, out); return;
    case HF_STRIP: strip(w, k, s, n, inside, out); return;
    case HF_REPLACE: replace(w, k, s, n, out); return;
    case HF_PRECOMPILED: precompiled(w, k, s, n, out); return;
    case HF_PREPEND:
        if (n && !inside)
            hf_put(w, out, k->text, k->n);
        hf_put(w, out, s, n);
        return;
    default: each_char(w, k, k->kind, s, n, out); return;
    }
}

/* BertNormalizer is up to four steps: step 0 its own, then NFD, marks, case. */
static bool wanted(const hf_normalizer *k, int step)
{
    return k->kind != HF_BERT ? step == 0
                              : step == 0 || (step < 3 && k->accents) || (step == 3 && k->lower);
}

void hf_normalize(hf_work *w, const char *s, uint64_t n, const hf_piece *of, hf_bytes *out)
{
    static const int steps[] = {0, HF_NFD, HF_STRIP_ACCENTS, HF_LOWERCASE};
    hf_bytes *const turn = w->buffer;
    int last = 0;
    for (uint32_t i = 0; i < w->t->nnormalizers; i++)
        for (int step = 0; step < 4; step++) {
            const hf_normalizer *k = &w->t->normalizer[i];
            if (!wanted(k, step))
                continue;
            last = !last;
            turn[last].n = 0;
            if (!step)
                one(w, k, s, n, of->inside, &turn[last]);
            else if (step == 1)
                form(w, s, n, HF_NFD, &turn[last]);
            else
                each_char(w, k, steps[step], s, n, &turn[last]);
            s = turn[last].at;
            n = turn[last].n;
        }
    hf_put(w, out, s, n);
}
