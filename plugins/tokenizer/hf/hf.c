/* hf.c: the plugin: see hf.h. */
#include <stdlib.h>

#include "hf.h"
#include "utf8.h"

/* Bytes of a piece that is encoded at once where the text can be cut, and where it cannot; those
 * after which some have to be used though text follows. */
enum { PIECE = 8 << 10, MAX_PIECE = 64 << 20, WAITS = 64 << 10 };

/* --- one piece of a text --- */

/* Python's bytes.decode("utf-8", "replace"). */
static const char *clean(hf_work *w, const char *s, uint64_t *n)
{
    uint64_t at = utf8_valid(s, *n);
    if (at == *n)
        return s;
    w->clean.n = 0;
    hf_put(w, &w->clean, s, at);
    while (at < *n) {
        hf_put(w, &w->clean, "\xef\xbf\xbd", 3);
        at += utf8_wrong(s + at, *n - at);
        const uint64_t right = utf8_valid(s + at, *n - at);
        hf_put(w, &w->clean, s + at, right);
        at += right;
    }
    *n = w->clean.n;
    return w->clean.at;
}

static void swap_pieces(hf_work *w)
{
    const hf_pieces swap = w->pieces;
    w->pieces = w->other;
    w->other = swap;
    w->other.n = 0;
}

/* Normalizes what is no added token, and looks for the added tokens of normalized text. */
static void normalize_pieces(hf_work *w, bool special)
{
    w->normal.n = 0;
    for (uint64_t i = 0; w->t->nnormalizers && i < w->pieces.n && !w->failed; i++) {
        hf_piece *p = &w->pieces.at[i];
        if (p->id >= 0)
            continue;
        const uint64_t at = w->normal.n;
        hf_normalize(w, w->text + p->at, p->n, p, &w->normal);
        p->at = (uint32_t)at;
        p->n = (uint32_t)(w->normal.n - at);
    }
    if (w->t->nnormalizers)
        w->text = w->normal.at ? w->normal.at : "";
    for (uint64_t i = 0; i < w->pieces.n && !w->failed; i++)
        if (w->pieces.at[i].id < 0)
            hf_find_added(w, &w->pieces.at[i], true, special);
        else if (HF_CAPACITY(w, &w->other, 1))
            w->other.at[w->other.n++] = w->pieces.at[i];
    swap_pieces(w);
}

static void encode_piece(hf_work *w, const char *s, uint64_t n, bool first, bool special)
{
    w->ids.n = 0;
    s = clean(w, s, &n);
    if (w->failed || n > UINT32_MAX / 4) {
        w->failed = true;
        return;
    }
    const hf_piece whole = {.n = (uint32_t)n, .id = -1, .inside = !first, .first = first};
    w->text = s;
    w->other.n = 0;
    hf_find_added(w, &whole, false, special);
    swap_pieces(w);
    normalize_pieces(w, special);
    if (!w->failed)
        hf_split(w);
    for (uint64_t i = 0; i < w->pieces.n && !w->failed && !w->limit; i++) {
        const hf_piece *p = &w->pieces.at[i];
        if (p->id >= 0)
            hf_put_id(w, p->id);
        else if (w->t->unigram)
            hf_unigram(w, w->text + p->at, p->n);
        else
            hf_bpe(w, w->text + p->at, p->n);
    }
}

/* --- a text --- */

/* Without the beginning of a character at the end. */
static uint64_t whole_chars(const char *s, uint64_t n)
{
    uint64_t end = n;
    while (end > 1 && n - end < 4 && ((unsigned char)s[end - 1] & 0xc0) == 0x80)
        end--;
    return end > 1 && (unsigned char)s[end - 1] >= 0xc0 ? end - 1 : n;
}

/* Bytes of the next piece; 0: text that follows decides. */
static uint64_t next_piece(const weft_tokenizer *t, const char *s, uint64_t n, bool last)
{
    for (uint64_t window = PIECE;; window *= 2) {
        if (window >= n && last && n <= MAX_PIECE)
            return n;
        const uint64_t cut = hf_cut(t, s, window < n ? window : n);
        if (cut)
            return cut;
        if (window >= MAX_PIECE)
            return whole_chars(s, MAX_PIECE < n ? MAX_PIECE : n);
        if (window >= n)
            return n < WAITS ? 0 : whole_chars(s, n);
    }
}

/* A shorter piece of s, for fewer ids: half of it, at a character; n where it is one. */
static uint64_t half(const char *s, uint64_t n)
{
    uint64_t at = n / 2;
    while (at && ((unsigned char)s[at] & 0xc0) == 0x80)
        at--;
    for (at = at ? at : 1; at < n && ((unsigned char)s[at] & 0xc0) == 0x80;)
        at++;
    return at;
}

static weft_status give_piece(hf_work *w, const weft_encode_args *a, uint64_t *used, uint64_t *n,
                              bool *full)
{
    const weft_tokenizer *t = w->t;
    const char *s = a->text + *used;
    const bool first = !*used && a->flags & WEFT_TEXT_FIRST;
    uint64_t bytes = next_piece(t, s, a->bytes - *used, a->flags & WEFT_TEXT_LAST);
    *full = !bytes;
    while (bytes) {
        encode_piece(w, s, bytes, first, a->flags & WEFT_TEXT_SPECIAL);
        if (w->failed)
            return (t->host->fail)(t->host->ctx, WEFT_NO_MEMORY, "no memory to encode a text in");
        if (w->limit)
            return (t->host->fail)(t->host->ctx, WEFT_DATA,
                                   "a pattern of the tokenizer takes too many steps for this text");
        const uint64_t less = half(s, bytes);
        if (w->ids.n <= a->room - *n || less == bytes)
            break;
        *full = true; /* there may be room for a shorter piece, if only for one id */
        if (*n)
            return WEFT_OK;
        bytes = less;
    }
    const uint64_t made = w->ids.n < a->room - *n ? w->ids.n : a->room - *n;
    if (bytes && made)
        memcpy(a->out + *n, w->ids.at, made * sizeof *a->out);
    *n += bytes ? made : 0;
    *used += bytes;
    return WEFT_OK;
}

static weft_status hf_encode(weft_tokenizer *t, const weft_encode_args *args, uint64_t *used,
                             uint64_t *n)
{
    weft_encode_args a = {0};
    weft_status st = weft_check_args(t->host, args, sizeof *args,
                                     WEFT_TEXT_LAST | WEFT_TEXT_SPECIAL | WEFT_TEXT_FIRST);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    *used = *n = 0;
    hf_work *w = hf_work_take(t);
    if (!w)
        return (t->host->fail)(t->host->ctx, WEFT_NO_MEMORY, "no memory to encode a text in");
    for (bool full = false; st == WEFT_OK && !full && *used < a.bytes && *n < a.room;)
        st = give_piece(w, &a, used, n, &full);
    hf_work_give(t, w);
    return st;
}

static weft_status hf_decode_args(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used,
                                  uint64_t *bytes)
{
    weft_decode_args a = {0};
    weft_status st = weft_check_args(t->host, args, sizeof *args, WEFT_TEXT_FIRST);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    return hf_decode(t, &a, used, bytes);
}

/* --- the table --- */

static void hf_close(weft_tokenizer *t)
{
    if (!t)
        return;
    hf_unload(t);
    pthread_mutex_destroy(&t->lock);
    (t->host->free)(t->host->ctx, t);
}

static weft_status hf_open(void *module, const weft_conf *conf, weft_tokenizer **out)
{
    const weft_host *host = (const weft_host *)module;
    weft_status st = WEFT_OK;
    weft_tokenizer *t = (weft_tokenizer *)weft_new(host, sizeof *t, &st);
    if (!t)
        return st;
    t->host = host;
    pthread_mutex_init(&t->lock, NULL);
    st = hf_load(t, conf);
    if (st != WEFT_OK)
        hf_close(t);
    else
        *out = t;
    return st;
}

static weft_status hf_info(weft_tokenizer *t, weft_tokenizer_info *out)
{
    const weft_tokenizer_info info = {.struct_size = sizeof info,
                                      .flags = WEFT_TOKENIZER_NORMALIZES | WEFT_TOKENIZER_FIRST,
                                      .vocab = t->vocab,
                                      .begin = t->begin,
                                      .end = t->end,
                                      .identity = t->identity};
    weft_give(out, &info);
    return WEFT_OK;
}

static weft_status hf_cut_text(weft_tokenizer *t, const char *text, uint64_t bytes, uint64_t *at)
{
    *at = hf_cut(t, text, bytes);
    return WEFT_OK;
}

static const weft_option file = {.struct_size = sizeof file,
                                 .type = WEFT_OPT_STRING,
                                 .key = "file",
                                 .dflt = "tokenizer.json",
                                 .help = "tokenizer.json of a model, as Hugging Face writes it"};
static const weft_option begin = {.struct_size = sizeof begin,
                                  .type = WEFT_OPT_STRING,
                                  .key = "begin",
                                  .dflt = "auto",
                                  .help = "token that begins a text; auto: that of the "
                                          "post-processor; none"};
static const weft_option end = {.struct_size = sizeof end,
                                .type = WEFT_OPT_STRING,
                                .key = "end",
                                .dflt = "auto",
                                .help = "token that ends a text; auto: that of the "
                                        "post-processor, else <|endoftext|>, <|end_of_text|>, "
                                        "</s> or <eos>; none"};
static const weft_option *const options[] = {&file, &begin, &end, NULL};

static const weft_tokenizer_table table = {.struct_size = sizeof table,
                                           .open = hf_open,
                                           .close = hf_close,
                                           .info = hf_info,
                                           .encode = hf_encode,
                                           .decode = hf_decode_args,
                                           .cut = hf_cut_text};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.tokenizer/1",
    .name = "hf",
    .help = "tokenizer.json of Hugging Face: BPE and Unigram",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.hf", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
