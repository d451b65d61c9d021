/* tokens/tokenizer.c: see tokenizer.h. */
#include "tokens/tokenizer.h"

#include "base/err.h"
#include "host/call.h"

#include <inttypes.h>

weft_status tokens_encode(const data_tokenizer *d, const char *text, uint64_t bytes, uint32_t flags,
                          int32_t *out, uint64_t room, uint64_t *used, uint64_t *n)
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
    if (!*used && bytes && room && (last || bytes >= TOKENS_WAITS))
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

weft_status tokens_decode(const data_tokenizer *d, int32_t id, char out[TOKENS_ID_BYTES],
                          uint64_t *bytes)
{
    const weft_tokenizer_table *table = d->c->table;
    const weft_decode_args args = {
        .struct_size = sizeof args, .ids = &id, .n = 1, .out = out, .room = TOKENS_ID_BYTES};
    uint64_t used = 0;
    *bytes = 0;
    weft_status st = PLUGIN_CALL(table, decode, d->t, &args, &used, bytes);
    if (st == WEFT_OK && (used != 1 || *bytes > TOKENS_ID_BYTES))
        st = err_fail(WEFT_USAGE,
                      "tokenizer %s: decode() answers %" PRIu64 " ids and %" PRIu64
                      " bytes for one id in room for %u",
                      d->c->name, used, *bytes, TOKENS_ID_BYTES);
    return st;
}

weft_status tokens_cut(const data_tokenizer *d, const char *text, uint64_t bytes, uint64_t *at)
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

bool tokens_cuts(const data_tokenizer *d)
{
    const weft_tokenizer_table *table = d->c->table;
    return WEFT_HAS(table, cut);
}
