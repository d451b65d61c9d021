/* split.c: a text is cut into words. Each stage reads the pieces of the stage before. */
#include "hf.h"
#include "utf8.h"

static void emit(hf_work *w, const hf_piece *in, uint32_t from, uint32_t to)
{
    hf_pieces *out = &w->other;
    if (from == to || !HF_CAPACITY(w, out, 1))
        return;
    hf_piece p = {.at = in->at + from, .n = to - from, .id = -1};
    p.inside = !from && in->inside;
    p.first = !from && in->first;
    out->at[out->n++] = p;
}

static void mark(hf_work *w, uint64_t from, uint64_t to, bool match)
{
    if (from < to && HF_CAPACITY(w, &w->marks, 1))
        w->marks.at[w->marks.n++] = (hf_mark){(uint32_t)from, (uint32_t)to, match};
}

/* --- which parts of a piece match --- */

static void mark_pattern(hf_work *w, const hf_splitter *k, const char *s, uint64_t n)
{
    uint64_t at = 0, start, end;
    while (at < n && hf_find(w, &k->pattern, s, n, at, &start, &end) > 0) {
        mark(w, at, start, k->invert);
        mark(w, start, end, !k->invert);
        at = end;
    }
    mark(w, at, n, k->invert);
}

static bool matches(const hf_splitter *k, uint32_t c)
{
    return k->kind == HF_DIGITS        ? utf8_is_numeric(c)
           : k->kind == HF_PUNCTUATION ? utf8_is_punctuation(c)
                                       : utf8_is_space(c);
}

/* Each character that matches by itself. */
static void mark_chars(hf_work *w, const hf_splitter *k, const char *s, uint64_t n)
{
    uint64_t at = 0;
    uint32_t bytes;
    for (uint64_t i = 0; i < n; i += bytes)
        if (matches(k, utf8_next(s + i, &bytes))) {
            mark(w, at, i, false);
            mark(w, i, i + bytes, true);
            at = i + bytes;
        }
    mark(w, at, n, false);
}

/* Whitespace: runs of word characters, and of what is neither they nor spaces. */
static void mark_words(hf_work *w, const char *s, uint64_t n)
{
    int before = 0;
    uint64_t at = 0;
    uint32_t bytes;
    for (uint64_t i = 0; i < n; i += bytes) {
        const uint32_t c = utf8_next(s + i, &bytes);
        const int kind = utf8_is_word(c) ? 1 : utf8_is_space(c) ? 2 : 3;
        if (kind != before) {
            mark(w, at, i, before == 2);
            at = i;
        }
        before = kind;
    }
    mark(w, at, n, before == 2);
}

/* --- what becomes of the matches --- */

/* Neighbours that agree are one word; of WITH_PREVIOUS a match goes to what is before it. */
static void join_forward(hf_work *w, const hf_piece *in, bool contiguous)
{
    bool before = false, any = false;
    uint32_t from = 0, to = 0;
    for (uint64_t i = 0; i < w->marks.n; i++) {
        const hf_mark *m = &w->marks.at[i];
        const bool joins = contiguous ? m->match == before : m->match && !before;
        if (!any || !joins) {
            emit(w, in, from, to);
            from = m->from;
        }
        to = m->to;
        any = true;
        before = m->match;
    }
    emit(w, in, from, to);
}

/* A match goes to what is behind it; of neighbours that match the last one. */
static void join_next(hf_work *w, const hf_piece *in)
{
    for (uint64_t i = 0; i < w->marks.n; i++) {
        const hf_mark *m = &w->marks.at[i];
        const bool joins = m->match && i + 1 < w->marks.n && !m[1].match;
        emit(w, in, m->from, joins ? m[1].to : m->to);
        i += joins;
    }
}

static void apply(hf_work *w, const hf_piece *in, int behavior)
{
    if (behavior == HF_CONTIGUOUS || behavior == HF_WITH_PREVIOUS) {
        join_forward(w, in, behavior == HF_CONTIGUOUS);
    } else if (behavior == HF_WITH_NEXT) {
        join_next(w, in);
    } else {
        for (uint64_t i = 0; i < w->marks.n; i++)
            if (behavior != HF_REMOVED || !w->marks.at[i].match)
                emit(w, in, w->marks.at[i].from, w->marks.at[i].to);
    }
}

static void cut(hf_work *w, const hf_splitter *k, const hf_piece *in)
{
    const char *s = w->text + in->at;
    w->marks.n = 0;
    if (k->kind == HF_SPLIT)
        mark_pattern(w, k, s, in->n);
    else if (k->kind == HF_WHITESPACE)
        mark_words(w, s, in->n);
    else
        mark_chars(w, k, s, in->n);
    apply(w, in, k->behavior);
}

/* --- stages that change the text --- */

/* Metaspace: a space becomes the mark, which also begins a text, and a word begins at each. */
static void metaspace(hf_work *w, const hf_splitter *k, const hf_piece *in, hf_bytes *out)
{
    const char *s = w->text + in->at;
    const bool marked = *s == ' ' || (in->n >= k->n && !memcmp(s, k->mark, k->n));
    const bool begins = k->scheme == HF_ALWAYS ? !in->inside : k->scheme == HF_FIRST && in->first;
    const hf_piece all = {.at = (uint32_t)out->n, .inside = in->inside, .first = in->first};
    if (begins && !marked)
        hf_put(w, out, k->mark, k->n);
    for (uint32_t i = 0; i < in->n;) {
        const char *space = memchr(s + i, ' ', in->n - i);
        const uint32_t end = space ? (uint32_t)(space - s) : in->n;
        hf_put(w, out, s + i, end - i);
        if (space)
            hf_put(w, out, k->mark, k->n);
        i = end + (space != NULL);
    }
    if (w->failed)
        return;
    const char *t = out->at + all.at;
    const uint32_t n = (uint32_t)out->n - all.at;
    uint32_t from = 0;
    for (uint32_t i = 1; k->cuts && i + k->n <= n; i++)
        if (t[i] == *k->mark && !memcmp(t + i, k->mark, k->n)) {
            emit(w, &all, from, i);
            from = i;
        }
    emit(w, &all, from, n);
}

static void change(hf_work *w, const hf_splitter *k, const hf_piece *in, hf_bytes *out)
{
    const char *s = w->text + in->at;
    const hf_piece all = {.at = (uint32_t)out->n, .inside = in->inside, .first = in->first};
    if (in->id >= 0) {
        if (HF_CAPACITY(w, &w->other, 1))
            w->other.at[w->other.n++] = *in;
        return;
    }
    if (k->kind == HF_METASPACE) {
        metaspace(w, k, in, out);
        return;
    }
    if (k->kind == HF_BYTE_PREFIX) {
        if (*s != ' ' && !in->inside)
            hf_put(w, out, " ", 1);
        hf_put(w, out, s, in->n);
    } else {
        for (uint32_t i = 0; i < in->n; i++)
            hf_put_char(w, out, utf8_of_byte((unsigned char)s[i]));
    }
    if (!w->failed)
        emit(w, &all, 0, (uint32_t)out->n - all.at);
}

static bool changes(int kind)
{
    return kind == HF_METASPACE || kind == HF_BYTE_PREFIX || kind == HF_BYTE_CHARS;
}

void hf_split(hf_work *w)
{
    int last = 0;
    for (uint32_t i = 0; i < w->t->nsplitters && !w->failed; i++) {
        const hf_splitter *k = &w->t->splitter[i];
        hf_bytes *out = &w->buffer[last];
        w->other.n = 0;
        out->n = 0;
        for (uint64_t p = 0; p < w->pieces.n; p++) {
            const hf_piece in = w->pieces.at[p];
            if (changes(k->kind))
                change(w, k, &in, out);
            else if (in.id < 0)
                cut(w, k, &in);
            else if (HF_CAPACITY(w, &w->other, 1))
                w->other.at[w->other.n++] = in;
        }
        if (changes(k->kind)) {
            w->text = out->at;
            last = !last;
        }
        const hf_pieces swap = w->pieces;
        w->pieces = w->other;
        w->other = swap;
    }
}
