/* check/harness/tokenizer.c: "weft.host.component/1" of a check: it opens a tokenizer, for sources
 * of text. Whatever its name is, every byte is an id, and 256 ends a text. See harness.h. */
#include "base/err.h"
#include "check/harness/harness.h"

#include <string.h>
#include <weft/data.h>

#define VOCAB 257u

struct weft_tokenizer {
    uint32_t unused;
};

static weft_status open_one(void *module, const weft_conf *conf, weft_tokenizer **out)
{
    static weft_tokenizer only;
    (void)module, (void)conf;
    *out = &only;
    return WEFT_OK;
}

static void close_one(weft_tokenizer *t)
{
    (void)t;
}

static weft_status describe(weft_tokenizer *t, weft_tokenizer_info *out)
{
    static const weft_tokenizer_info own = {
        .struct_size = sizeof own, .vocab = VOCAB, .end = VOCAB, .identity = "bytes of a check"};
    (void)t;
    weft_give(out, &own);
    return WEFT_OK;
}

static weft_status encode(weft_tokenizer *t, const weft_encode_args *args, uint64_t *used,
                          uint64_t *n)
{
    (void)t;
    *used = *n = args->bytes < args->room ? args->bytes : args->room;
    for (uint64_t i = 0; i < *n; i++)
        args->out[i] = (unsigned char)args->text[i];
    return WEFT_OK;
}

static weft_status decode(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used,
                          uint64_t *bytes)
{
    (void)t;
    *used = *bytes = 0;
    for (; *used < args->n && *bytes < args->room; ++*used) {
        const int32_t id = args->ids[*used];
        if (id < 0 || id >= (int32_t)VOCAB)
            return err_fail(WEFT_USAGE, "the id %d is not below %u", (int)id, VOCAB);
        if (id < 256)
            args->out[(*bytes)++] = (char)id;
    }
    return WEFT_OK;
}

static const weft_tokenizer_table table = {.struct_size = sizeof table,
                                           .open = open_one,
                                           .close = close_one,
                                           .info = describe,
                                           .encode = encode,
                                           .decode = decode};

static weft_status open_component(void *ctx, const weft_component_args *args,
                                  weft_component_ref *out)
{
    check_host *h = ctx;
    static const weft_option *const none[] = {NULL};
    static const weft_component own_plain = {.struct_size = sizeof own_plain,
                                             .iface = "weft.tokenizer/1",
                                             .name = "bytes",
                                             .help = "bytes of a check",
                                             .options = none,
                                             .table = &table};
    static config *empty; /* as long as the process */
    if (!args->iface || !args->name || strcmp(args->iface, own_plain.iface) != 0)
        return h->own.fail(h, WEFT_UNSUPPORTED,
                           "weft.host.component/1 of the checker opens tokenizers only");
    if (!empty && config_load_text("", "the check", &empty) != WEFT_OK)
        check_fail("the checker cannot make options without keys: %s", err_text());
    const weft_component_ref own = {.struct_size = sizeof own,
                                    .table = &table,
                                    .conf = config_conf(empty, "check", &own_plain)};
    weft_give(out, &own);
    return WEFT_OK;
}

void check_host_components(check_host *h)
{
    h->components = (weft_host_component){
        .struct_size = sizeof h->components, .ctx = h, .open = open_component};
}
