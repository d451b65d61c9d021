/* bad/tokenizer.c: a tokenizer with an id for each byte and one for "the ", and its ways of
 * failing. Each name of tokenizer.expected breaks one rule. */
#include "faults.h"

#include <string.h>
#include <weft/data.h>

enum { THE = 256, VOCAB };
#define WORD "the "
#define WORD_BYTES 4u

struct weft_tokenizer {
    const weft_host *host;
};

static weft_status fail(const weft_tokenizer *t, weft_status code, const char *why)
{
    return (t->host->fail)(t->host->ctx, code, why);
}

static weft_status open_one(void *module, const weft_conf *conf, weft_tokenizer **out)
{
    weft_status st = WEFT_OK;
    weft_tokenizer *t = weft_new(module, sizeof *t, &st);
    (void)conf;
    if (!t)
        return st;
    t->host = module;
    *out = t;
    return WEFT_OK;
}

static void close_one(weft_tokenizer *t)
{
    if (t)
        (t->host->free)(t->host->ctx, t);
}

static weft_status info(weft_tokenizer *t, weft_tokenizer_info *out)
{
    const weft_tokenizer_info own = {
        .struct_size = sizeof own, .vocab = VOCAB, .identity = "bytes and a word"};
    (void)t;
    if (BAD == WRITES_BEHIND) {
        memcpy(out, &own, sizeof own);
        memset(out + 1, 0, 16);
        return WEFT_OK;
    }
    weft_give(out, &own);
    return WEFT_OK;
}

/* Bytes that begin the word, all of which may be there or not. */
static uint64_t begins(const char *text, uint64_t n)
{
    const uint64_t most = n < WORD_BYTES ? n : WORD_BYTES;
    return most && !memcmp(text, WORD, most) ? most : 0;
}

static weft_status encode(weft_tokenizer *t, const weft_encode_args *a, uint64_t *used, uint64_t *n)
{
    weft_status st = WEFT_OK;
    if (BAD != IGNORES_TAIL)
        st = weft_check_args(t->host, a, sizeof *a, WEFT_TEXT_LAST | WEFT_TEXT_SPECIAL);
    if (st != WEFT_OK)
        return st;
    uint64_t at = 0, ids = 0;
    while (at < a->bytes && ids < a->room) {
        const uint64_t word = begins(a->text + at, a->bytes - at);
        const unsigned char byte = (unsigned char)a->text[at];
        if (word && word < WORD_BYTES && !(a->flags & WEFT_TEXT_LAST) && BAD != USES_ALL)
            break;
        if (BAD == NEEDS_ROOM && a->room < 2)
            break;
        a->out[ids++] = word == WORD_BYTES                                ? THE
                        : BAD == LOSES_CASE && byte >= 'A' && byte <= 'Z' ? byte + 32
                                                                          : byte;
        at += word == WORD_BYTES ? WORD_BYTES : 1;
    }
    *used = at;
    *n = ids;
    return WEFT_OK;
}

static weft_status decode(weft_tokenizer *t, const weft_decode_args *a, uint64_t *used,
                          uint64_t *bytes)
{
    const weft_status st = weft_check_args(t->host, a, sizeof *a, 0);
    *used = *bytes = 0;
    for (; st == WEFT_OK && *used < a->n && *bytes + WORD_BYTES <= a->room; ++*used) {
        const int32_t id = a->ids[*used];
        if ((id < 0 || id >= VOCAB) && BAD != ANY_ID)
            return fail(t, WEFT_USAGE, "an id is not below the vocabulary");
        memcpy(a->out + *bytes, WORD, id == THE ? WORD_BYTES : 0);
        if (id != THE)
            a->out[*bytes] = (char)id;
        *bytes += id == THE ? WORD_BYTES : 1;
    }
    return st;
}

static const weft_tokenizer_table table = {.struct_size = sizeof table,
                                           .open = open_one,
                                           .close = close_one,
                                           .info = info,
                                           .encode = encode,
                                           .decode = decode};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.tokenizer/1",
                                         .name = "acme.word",
                                         .help = "bytes and a word",
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.word", "1", "MIT", components, weft_open_host, NULL);
