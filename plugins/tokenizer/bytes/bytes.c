/* plugins/tokenizer/bytes: every byte is a token, and its value the id. There are no ids that begin
 * or end a text. */
#include <weft/data.h>

struct weft_tokenizer {
    const weft_host *host;
};

static weft_status bytes_open(void *module, const weft_conf *conf, weft_tokenizer **out)
{
    const weft_host *host = (const weft_host *)module;
    weft_status st = WEFT_OK;
    weft_tokenizer *t = (weft_tokenizer *)weft_new(host, sizeof *t, &st);
    (void)conf;
    if (!t)
        return st;
    t->host = host;
    *out = t;
    return WEFT_OK;
}

static void bytes_close(weft_tokenizer *t)
{
    if (t)
        (t->host->free)(t->host->ctx, t);
}

static weft_status bytes_info(weft_tokenizer *t, weft_tokenizer_info *out)
{
    const weft_tokenizer_info info = {
        .struct_size = sizeof info, .vocab = 256, .identity = "bytes"};
    (void)t;
    weft_give(out, &info);
    return WEFT_OK;
}

static weft_status bytes_encode(weft_tokenizer *t, const weft_encode_args *args, uint64_t *used,
                                uint64_t *n)
{
    weft_encode_args a = {0};
    weft_status st =
        weft_check_args(t->host, args, sizeof *args, WEFT_TEXT_LAST | WEFT_TEXT_SPECIAL);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    const uint64_t done = a.bytes < a.room ? a.bytes : a.room;
    for (uint64_t i = 0; i < done; i++)
        a.out[i] = (unsigned char)a.text[i];
    *used = *n = done;
    return WEFT_OK;
}

static weft_status bytes_decode(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used,
                                uint64_t *bytes)
{
    weft_decode_args a = {0};
    weft_status st = weft_check_args(t->host, args, sizeof *args, 0);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    const uint64_t done = a.n < a.room ? a.n : a.room;
    for (uint64_t i = 0; i < done; i++) {
        if (a.ids[i] < 0 || a.ids[i] > 255)
            return (t->host->fail)(t->host->ctx, WEFT_USAGE,
                                   "decode(): an id is not below 256, the vocabulary of bytes");
        a.out[i] = (char)a.ids[i];
    }
    *used = *bytes = done;
    return WEFT_OK;
}

static weft_status bytes_cut(weft_tokenizer *t, const char *text, uint64_t bytes, uint64_t *at)
{
    (void)t, (void)text;
    *at = bytes;
    return WEFT_OK;
}

static const weft_tokenizer_table table = {
    .struct_size = sizeof table,
    .open = bytes_open,
    .close = bytes_close,
    .info = bytes_info,
    .encode = bytes_encode,
    .decode = bytes_decode,
    .cut = bytes_cut,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.tokenizer/1",
    .name = "bytes",
    .help = "every byte is a token; the vocabulary has 256",
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.bytes", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
