/* decode.c: ids become the bytes of a text.
 *
 * What an id becomes inside a text is made once, when the tokenizer is opened. At the beginning of
 * a text (WEFT_TEXT_FIRST) what the tokenizer puts in front of one is taken away again. Bytes that
 * are no UTF-8 come out as they are, so that a caller which has half a character can wait for the
 * rest; the library writes U+FFFD for them. */
#include <stdlib.h>

#include "read.h"
#include "utf8.h"

/* "<0x0A>": its byte, or -1. */
static int byte_of(const char *s, uint64_t n)
{
    char digits[3] = {0};
    char *end;
    if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>')
        return -1;
    memcpy(digits, s + 3, 2);
    const long byte = strspn(digits, "0123456789abcdefABCDEF") == 2 ? strtol(digits, &end, 16) : -1;
    return (int)byte;
}

static void put_replaced(hf_work *w, const hf_decoder *d, const char *s, uint64_t n, hf_bytes *out)
{
    uint64_t at = 0, start, end;
    while (at < n && hf_find(w, &d->from, s, n, at, &start, &end) > 0) {
        hf_put(w, out, s + at, start - at);
        hf_put(w, out, d->to, d->n);
        at = end;
    }
    hf_put(w, out, s + at, n - at);
}

static void put_unmarked(hf_work *w, const hf_decoder *d, const char *s, uint64_t n, bool first,
                         hf_bytes *out)
{
    for (uint64_t i = 0; i < n;) {
        const bool mark = n - i >= d->mark_n && !memcmp(s + i, d->mark, d->mark_n);
        if (!mark)
            hf_put(w, out, s + i, 1);
        else if (!first || !d->first)
            hf_put(w, out, " ", 1);
        i += mark ? d->mark_n : 1;
    }
}

/* Characters of ByteLevel's alphabet; a token with another one stays as it is. */
static void put_bytes(hf_work *w, const char *s, uint64_t n, hf_bytes *out)
{
    const uint64_t before = out->n;
    uint32_t bytes;
    for (uint64_t i = 0; i < n; i += bytes) {
        const int byte = utf8_to_byte(utf8_next(s + i, &bytes));
        if (byte < 0) {
            out->n = before;
            hf_put(w, out, s, n);
            return;
        }
        hf_put(w, out, &(char){(char)byte}, 1);
    }
}

static void put_stripped(hf_work *w, const hf_decoder *d, const char *s, uint64_t n, hf_bytes *out)
{
    uint64_t from = 0;
    while (from < n && from < d->start && s[from] == *d->mark)
        from++;
    hf_put(w, out, s + from, n - from);
}

/* One token through the decoders that work on tokens; what comes out is in *s. */
static void decode_token(hf_work *w, const char **s, uint64_t *n, bool first)
{
    const weft_tokenizer *t = w->t;
    int last = 0;
    for (uint32_t i = 0; i < t->ndecoders && !t->decoder[i].whole; i++) {
        const hf_decoder *d = &t->decoder[i];
        hf_bytes *out = &w->buffer[last];
        const int byte = d->kind == HF_D_FALLBACK ? byte_of(*s, *n) : -1;
        if (d->kind == HF_D_JOIN || (d->kind == HF_D_FALLBACK && byte < 0))
            continue;
        last = !last;
        out->n = 0;
        if (d->kind == HF_D_METASPACE)
            put_unmarked(w, d, *s, *n, first, out);
        else if (d->kind == HF_D_REPLACE)
            put_replaced(w, d, *s, *n, out);
        else if (d->kind == HF_D_BYTES)
            put_bytes(w, *s, *n, out);
        else if (d->kind == HF_D_STRIP)
            put_stripped(w, d, *s, *n, out);
        else
            hf_put(w, out, &(char){(char)byte}, 1);
        *s = out->at ? out->at : "";
        *n = out->n;
        if (byte >= 0)
            return;
    }
}

/* Without a decoder a space stands between tokens. */
static void decode_id(hf_work *w, uint32_t id, bool first, hf_bytes *out)
{
    const weft_tokenizer *t = w->t;
    const char *s = t->name[id].at;
    uint64_t n = t->name[id].n;
    if (!n)
        return;
    if (!t->ndecoders && !first)
        hf_put(w, out, " ", 1);
    decode_token(w, &s, &n, first);
    hf_put(w, out, s, n);
}

weft_status hf_decode_settle(weft_tokenizer *t)
{
    const reader r = {.t = t};
    hf_work *w = hf_work_take(t);
    weft_status st = WEFT_OK;
    t->decodes = malloc((t->vocab + 1u) * sizeof *t->decodes);
    for (uint32_t i = 0; i < t->nadded; i++) /* as it stands in a normalized text */
        if (t->added[i].normalized)
            t->name[t->added[i].id] = (hf_name){t->added[i].text, t->added[i].n};
    for (uint32_t i = 0; st == WEFT_OK && w && t->decodes && i < t->vocab; i++) {
        t->decodes[i].at = (uint32_t)t->decoded.n;
        decode_id(w, i, false, &t->decoded);
        t->decodes[i].n = (uint32_t)t->decoded.n - t->decodes[i].at;
        if (t->decodes[i].n > HF_MAX_TOKEN)
            st = read_bad(&r, "decoder", "the id %u becomes more than %d bytes", i, HF_MAX_TOKEN);
    }
    if (st == WEFT_OK && (!w || !t->decodes || w->failed))
        st = read_no_memory(&r);
    if (w)
        hf_work_give(t, w);
    return st;
}

/* The characters that Strip behind Fuse takes from the beginning of a text. */
static uint64_t strip_whole(const weft_tokenizer *t, const char *s, uint64_t n, uint64_t taken)
{
    uint64_t from = 0;
    for (uint32_t i = 0; i < t->ndecoders; i++)
        if (t->decoder[i].whole && t->decoder[i].kind == HF_D_STRIP)
            while (from < n && taken + from < t->decoder[i].start && s[from] == *t->decoder[i].mark)
                from++;
    return from;
}

weft_status hf_decode(weft_tokenizer *t, const weft_decode_args *a, uint64_t *used, uint64_t *bytes)
{
    bool first = a->flags & WEFT_TEXT_FIRST, beginning = first;
    uint64_t taken = 0;
    hf_work *w = first ? hf_work_take(t) : NULL;
    weft_status st = first && !w ? WEFT_NO_MEMORY : WEFT_OK;
    for (*used = *bytes = 0; st == WEFT_OK && *used < a->n; ++*used) {
        const int32_t id = a->ids[*used];
        if (id < 0 || (uint32_t)id >= t->vocab) {
            st = WEFT_USAGE;
            break;
        }
        const char *s = t->decoded.at ? t->decoded.at + t->decodes[id].at : "";
        uint64_t n = t->decodes[id].n;
        if (first) {
            w->spare.n = 0;
            decode_id(w, (uint32_t)id, true, &w->spare);
            s = w->spare.n ? w->spare.at : "";
            n = w->spare.n;
        }
        const uint64_t strip = beginning ? strip_whole(t, s, n, taken) : 0;
        if (n - strip > a->room - *bytes)
            break;
        memcpy(a->out + *bytes, s + strip, n - strip);
        *bytes += n - strip;
        taken += strip;
        beginning &= strip == n;
        first = first && !t->name[id].n;
    }
    if (w)
        hf_work_give(t, w);
    return st == WEFT_OK
               ? st
               : (t->host->fail)(t->host->ctx, st,
                                 st == WEFT_USAGE ? "decode(): an id is not below the vocabulary"
                                                  : "there is no memory to decode in");
}
