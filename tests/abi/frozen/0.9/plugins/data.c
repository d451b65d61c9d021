/* data.c: a source: one line of text, over and over. Sample k of training begins at a place that
 * follows from the seed and k; sample k of validation at k times its length. */
#include <string.h>
#include <weft/data.h>
#include <weft/host.h>

enum { MOST = 4096 };

struct weft_dataset {
    const weft_host *host;
    uint64_t n, seed; /* ids; seed: 0 for validation */
    uint32_t vocab;
    char identity[64];
    int32_t ids[MOST];
};

static const weft_field fields[] = {{"tokens", "a token", WEFT_I32, 0, 0, 0, {{NULL, 0}}},
                                    {"targets", "the next one", WEFT_I32, 0, 0, 0, {{NULL, 0}}}};

static weft_status fail(const weft_host *host, weft_status code, const char *why)
{
    return (host->fail)(host->ctx, code, why);
}

/* The ids of the line, by the job's tokenizer. */
static weft_status encode(weft_dataset *d, const char *name, const char *text)
{
    const weft_host_component *c = d->host->iface(d->host->ctx, "weft.host.component/1");
    const weft_component_args args = {sizeof args, 0, "weft.tokenizer/1", name};
    const weft_encode_args all = {sizeof all, WEFT_TEXT_LAST, text, strlen(text), d->ids, MOST};
    weft_component_ref ref = {sizeof ref, 0, NULL, NULL, NULL};
    weft_tokenizer_info info = {.struct_size = sizeof info};
    weft_tokenizer *t = NULL;
    uint64_t used = 0;
    if (!c)
        return fail(d->host, WEFT_UNSUPPORTED, "acme.cycle needs the table weft.host.component/1");
    weft_status st = c->open(c->ctx, &args, &ref);
    if (st != WEFT_OK)
        return st;
    const weft_tokenizer_table *table = ref.table;
    st = table->open(ref.module, ref.conf, &t);
    if (st == WEFT_OK)
        st = table->info(t, &info);
    if (st == WEFT_OK)
        st = table->encode(t, &all, &used, &d->n);
    table->close(t);
    d->vocab = info.vocab;
    if (st == WEFT_OK && (!d->n || used < all.bytes))
        return fail(d->host, WEFT_USAGE, "data.text: acme.cycle takes 1 to 4096 tokens");
    return st;
}

static void close_set(weft_dataset *d)
{
    if (d)
        d->host->free(d->host->ctx, d);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

static weft_status open_set(void *module, const weft_data_args *args, weft_dataset **out)
{
    const weft_host *host = module;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    if (st == WEFT_OK && args->use != WEFT_DATA_TRAIN && args->use != WEFT_DATA_VALID)
        st = weft_refuse_unknown(host);
    if (st != WEFT_OK)
        return st;
    const weft_conf *conf = args->conf;
    weft_dataset *d = weft_new(host, sizeof *d, &st);
    if (!d)
        return st;
    d->host = host;
    d->seed = args->use == WEFT_DATA_TRAIN ? mix(args->seed + 1) | 1 : 0;
    st = encode(d, conf->text(conf->ctx, "tokenizer"), conf->text(conf->ctx, "text"));
    if (st != WEFT_OK) {
        close_set(d);
        return st;
    }
    uint64_t digest = d->n;
    for (uint64_t i = 0; i < d->n; i++)
        digest = mix(digest + (uint64_t)d->ids[i]);
    memcpy(d->identity, "acme.cycle ", 11);
    for (uint32_t i = 0; i < 16; i++)
        d->identity[11 + i] = "0123456789abcdef"[digest >> (60 - 4 * i) & 15];
    *out = d;
    return WEFT_OK;
}

static weft_status info(weft_dataset *d, uint64_t sequence, weft_data_info *out)
{
    const uint64_t length = sequence ? sequence : 1;
    const weft_data_info own = {
        .struct_size = sizeof own,
        .samples = d->n > length ? d->n / length : 1,
        .vocab = d->vocab,
        .nfields = 2,
        .fields = fields,
        .identity = d->identity,
    };
    weft_give(out, &own);
    return WEFT_OK;
}

static weft_status read_samples(weft_dataset *d, const weft_read_args *args)
{
    const weft_status st = weft_check_args(d->host, args, sizeof *args, 0);
    for (uint64_t i = 0; st == WEFT_OK && i < args->count * args->sequence; i++) {
        const uint64_t sample = args->first + i / args->sequence;
        const uint64_t from = d->seed ? mix(sample * d->seed) : sample * args->sequence;
        const uint64_t at = (from % d->n + i % args->sequence) % d->n;
        if (args->out[0])
            ((int32_t *)args->out[0])[i] = d->ids[at];
        if (args->out[1])
            ((int32_t *)args->out[1])[i] = d->ids[(at + 1) % d->n];
    }
    return st;
}

static const weft_option text = {sizeof text,
                                 WEFT_OPT_STRING,
                                 "text",
                                 "the weft is carried across the warps,",
                                 "the line to repeat",
                                 NULL,
                                 0,
                                 0};
static const weft_option tokenizer = {
    sizeof tokenizer, WEFT_OPT_STRING, "tokenizer", "bytes", "how text becomes ids", NULL, 0, 0};
static const weft_option *const options[] = {&text, &tokenizer, NULL};
static const weft_data_table table = {sizeof table, 0, open_set, close_set, info, read_samples};
static const weft_component cycle = {
    sizeof cycle, 0, "weft.data/1", "acme.cycle", "repeats a line of text", options, &table, NULL};
static const weft_component *const components[] = {&cycle, NULL};
WEFT_PLUGIN("org.acme.cycle", "1", "", components, weft_open_host, NULL);
