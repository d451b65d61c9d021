/* data/tokenizer.c: see tokenizer.h. */
#include "data/tokenizer.h"

#include "base/err.h"
#include "host/call.h"

#include <inttypes.h>

#define MAX_VOCAB (1u << 30)

static weft_status check_info(const data_tokenizer *d)
{
    const weft_tokenizer_info *i = &d->info;
    if (i->flags & ~(WEFT_TOKENIZER_NORMALIZES | WEFT_TOKENIZER_FIRST) || i->reserved)
        return err_fail(
            WEFT_UNSUPPORTED,
            "tokenizer %s: info() sets flags or a reserved word that this version of weft "
            "does not know",
            d->c->name);
    if (!i->vocab || i->vocab > MAX_VOCAB || i->begin > i->vocab || i->end > i->vocab)
        return err_fail(WEFT_USAGE,
                        "tokenizer %s: info() gives a vocabulary of %u, begin %u and end %u; 1 to "
                        "%u, and ids in it plus 1, are possible",
                        d->c->name, i->vocab, i->begin, i->end, MAX_VOCAB);
    return WEFT_OK;
}

weft_status data_tokenizer_open(const host_component *c, const weft_conf *conf, data_tokenizer *out)
{
    const weft_tokenizer_table *table = c->table;
    *out = (data_tokenizer){.c = c, .info = {.struct_size = sizeof out->info}};
    weft_status st = PLUGIN_CALL(table, open, c->module, conf, &out->t);
    if (st != WEFT_OK)
        return st;
    st = PLUGIN_CALL(table, info, out->t, &out->info);
    if (st == WEFT_OK)
        st = check_info(out);
    if (st != WEFT_OK)
        data_tokenizer_close(out);
    return st;
}

void data_tokenizer_close(data_tokenizer *d)
{
    if (d->t) {
        const weft_tokenizer_table *table = d->c->table;
        PLUGIN_DO(table, close, d->t);
    }
    *d = (data_tokenizer){0};
}

weft_status data_tokenizer_encode(const data_tokenizer *d, const char *text, uint64_t bytes,
                                  uint32_t flags, int32_t *out, uint64_t room, uint64_t *used,
                                  uint64_t *n)
{
    const weft_tokenizer_table *table = d->c->table;
    const bool last = flags & WEFT_TEXT_LAST;
    if (!(d->info.flags & WEFT_TOKENIZER_FIRST))
        flags &= ~WEFT_TEXT_FIRST;
    const weft_encode_args args = {.struct_size = sizeof args,
                                   .flags = flags,
                                   .text = text,
                                   .bytes = bytes,
                                   .out = out,
                                   .room = room};
    *used = *n = 0;
    weft_status st = PLUGIN_CALL(table, encode, d->t, &args, used, n);
    if (st != WEFT_OK)
        return st;
    if (*used > bytes || *n > room)
        return err_fail(WEFT_USAGE,
                        "tokenizer %s: encode() answers %" PRIu64 " of %" PRIu64
                        " bytes and %" PRIu64 " ids in room for %" PRIu64,
                        d->c->name, *used, bytes, *n, room);
    if (!*used && bytes && room && (last || bytes >= DATA_TOKENIZER_WAITS))
        return err_fail(WEFT_USAGE, "tokenizer %s: encode() uses none of %" PRIu64 " bytes",
                        d->c->name, bytes);
    for (uint64_t i = 0; i < *n; i++)
        if (out[i] < 0 || (uint32_t)out[i] >= d->info.vocab)
            return err_fail(WEFT_USAGE,
                            "tokenizer %s: encode() gives the id %" PRId32
                            ", outside its vocabulary of %u",
                            d->c->name, out[i], d->info.vocab);
    return WEFT_OK;
}

weft_status data_tokenizer_decode(const data_tokenizer *d, int32_t id,
                                  char out[DATA_TOKENIZER_BYTES], uint64_t *bytes)
{
    const weft_tokenizer_table *table = d->c->table;
    const weft_decode_args args = {
        .struct_size = sizeof args, .ids = &id, .n = 1, .out = out, .room = DATA_TOKENIZER_BYTES};
    uint64_t used = 0;
    *bytes = 0;
    weft_status st = PLUGIN_CALL(table, decode, d->t, &args, &used, bytes);
    if (st == WEFT_OK && (used != 1 || *bytes > DATA_TOKENIZER_BYTES))
        st = err_fail(WEFT_USAGE,
                      "tokenizer %s: decode() answers %" PRIu64 " ids and %" PRIu64
                      " bytes for one id in room for %u",
                      d->c->name, used, *bytes, DATA_TOKENIZER_BYTES);
    return st;
}

weft_status data_tokenizer_cut(const data_tokenizer *d, const char *text, uint64_t bytes,
                               uint64_t *at)
{
    const weft_tokenizer_table *table = d->c->table;
    *at = 0;
    weft_status st = PLUGIN_CALL(table, cut, d->t, text, bytes, at);
    if (st == WEFT_OK && *at > bytes)
        st = err_fail(WEFT_USAGE,
                      "tokenizer %s: cut() answers %" PRIu64 " of a text of %" PRIu64 " bytes",
                      d->c->name, *at, bytes);
    return st;
}

bool data_tokenizer_cuts(const data_tokenizer *d)
{
    const weft_tokenizer_table *table = d->c->table;
    return WEFT_HAS(table, cut);
}
