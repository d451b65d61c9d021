/* bpe.c: a byte-level BPE. A word is its bytes; the pair of neighbours that comes first in
 * merges.txt becomes one token everywhere in the word, again and again until no pair is there. With
 * room for fewer ids than a word has, the word ends where the room does. */
#include <string.h>

#include "bpe.h"

static void bpe_close(weft_tokenizer *t)
{
    if (!t)
        return;
    const weft_host *host = t->host;
    void *const own[] = {t->bytes, t->tokens, t->names, t->merges, t};
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        (host->free)(host->ctx, own[i]);
}

static weft_status bpe_open(void *module, const weft_conf *conf, weft_tokenizer **out)
{
    const weft_host *host = (const weft_host *)module;
    weft_status st = WEFT_OK;
    weft_tokenizer *t = weft_new(host, sizeof *t, &st);
    if (!t)
        return st;
    t->host = host;
    st = bpe_load(t, conf->text(conf->ctx, "vocab"), conf->text(conf->ctx, "merges"));
    if (st != WEFT_OK)
        bpe_close(t);
    else
        *out = t;
    return st;
}

static weft_status bpe_info(weft_tokenizer *t, weft_tokenizer_info *out)
{
    const weft_tokenizer_info info = {.struct_size = sizeof info,
                                      .vocab = t->vocab,
                                      .begin = (uint32_t)(t->special + 1),
                                      .end = (uint32_t)(t->special + 1),
                                      .identity = t->identity};
    weft_give(out, &info);
    return WEFT_OK;
}

/* The ids of a word of at most BPE_WORD bytes. */
static uint32_t encode_word(const weft_tokenizer *t, const unsigned char *s, uint64_t bytes,
                            int32_t *ids)
{
    uint32_t n = (uint32_t)bytes;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = t->byte[s[i]];
    for (;;) {
        const bpe_merge *best = NULL;
        for (uint32_t i = 0; i + 1 < n; i++) {
            const bpe_merge *m = bpe_find(t, ids[i], ids[i + 1]);
            if (m && (!best || m->rank < best->rank))
                best = m;
        }
        if (!best)
            return n;
        uint32_t to = 0;
        for (uint32_t i = 0; i < n; to++) {
            const int pair = i + 1 < n && ids[i] == best->left && ids[i + 1] == best->right;
            ids[to] = pair ? best->to : ids[i];
            i += pair ? 2 : 1;
        }
        n = to;
    }
}

static const char *find_special(const weft_encode_args *a, const weft_tokenizer *t, uint64_t from)
{
    if (!(a->flags & WEFT_TEXT_SPECIAL) || t->special < 0)
        return NULL;
    for (uint64_t i = from; i + sizeof BPE_SPECIAL - 1 <= a->bytes; i++)
        if (!memcmp(a->text + i, BPE_SPECIAL, sizeof BPE_SPECIAL - 1))
            return a->text + i;
    return NULL;
}

static weft_status bpe_encode(weft_tokenizer *t, const weft_encode_args *args, uint64_t *used,
                              uint64_t *n)
{
    weft_encode_args a = {0};
    weft_status st =
        weft_check_args(t->host, args, sizeof *args, WEFT_TEXT_LAST | WEFT_TEXT_SPECIAL);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    *used = *n = 0;
    const char *special = find_special(&a, t, 0);
    while (*used < a.bytes && *n < a.room) {
        const char *at = a.text + *used;
        if (at == special) {
            a.out[(*n)++] = t->special;
            *used += sizeof BPE_SPECIAL - 1;
            special = find_special(&a, t, *used);
            continue;
        }
        int32_t ids[BPE_WORD];
        const uint64_t end = special ? (uint64_t)(special - a.text) : a.bytes;
        const uint64_t bytes =
            bpe_word((const unsigned char *)at, end - *used, special || a.flags & WEFT_TEXT_LAST);
        if (!bytes)
            break;
        const uint32_t count = encode_word(t, (const unsigned char *)at, bytes, ids);
        if (count > a.room - *n && *n)
            break;
        for (uint32_t i = 0; i < count && *n < a.room; i++) {
            a.out[(*n)++] = ids[i];
            *used += t->tokens[ids[i]].bytes;
        }
    }
    return WEFT_OK;
}

static weft_status bpe_decode(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used,
                              uint64_t *bytes)
{
    weft_decode_args a = {0};
    weft_status st = weft_check_args(t->host, args, sizeof *args, 0);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    for (*used = *bytes = 0; *used < a.n; ++*used) {
        const int32_t id = a.ids[*used];
        if (id < 0 || (uint32_t)id >= t->vocab)
            return (t->host->fail)(t->host->ctx, WEFT_USAGE,
                                   "decode(): an id is not below the vocabulary of vocab.json");
        const bpe_token *k = &t->tokens[id];
        if (k->bytes > a.room - *bytes)
            break;
        memcpy(a.out + *bytes, t->bytes + k->at, k->bytes);
        *bytes += k->bytes;
    }
    return WEFT_OK;
}

static const weft_option vocab = {.struct_size = sizeof vocab,
                                  .type = WEFT_OPT_STRING,
                                  .key = "vocab",
                                  .dflt = "vocab.json",
                                  .help = "file of the tokens and their ids"};
static const weft_option merge_file = {.struct_size = sizeof merge_file,
                                       .type = WEFT_OPT_STRING,
                                       .key = "merges",
                                       .dflt = "merges.txt",
                                       .help = "file of the pairs that become one token, in order"};
static const weft_option *const options[] = {&vocab, &merge_file, NULL};

static const weft_tokenizer_table table = {
    .struct_size = sizeof table,
    .open = bpe_open,
    .close = bpe_close,
    .info = bpe_info,
    .encode = bpe_encode,
    .decode = bpe_decode,
};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.tokenizer/1",
                                         .name = "acme.bpe",
                                         .help = "byte-level BPE with the files of GPT-2",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("com.acme.bpe", "1.0", "Apache-2.0", components, weft_open_host, NULL);
