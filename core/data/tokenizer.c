/* data/tokenizer.c: see tokenizer.h. */
#include "data/tokenizer.h"

#include "base/err.h"
#include "host/call.h"

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
