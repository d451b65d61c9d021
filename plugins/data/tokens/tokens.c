/* plugins/data/tokens: samples from token files, which `weft data` makes.
 *
 * There are no epochs: a training sample is a window of sequence + 1 tokens whose start depends on
 * (seed, number of the sample) alone. Validation samples are the windows of the file one after the
 * other, without overlap. Targets are the tokens shifted by one. A window is copied once, from the
 * mapped file to the memory of the core. */
#include <inttypes.h>
#include <stdio.h>

#include "file.h"

struct weft_dataset {
    const weft_host *host;
    file_tokens file;
    uint32_t use;
    uint64_t key; /* of the order */
    char identity[160];
};

static const weft_field fields[] = {
    {.name = "tokens", .help = "ids of the tokens", .dtype = WEFT_I32},
    {.name = "targets", .help = "ids of the tokens that follow", .dtype = WEFT_I32},
};
#define FIELDS (uint32_t)(sizeof fields / sizeof *fields)

static void tokens_close(weft_dataset *d)
{
    if (!d)
        return;
    file_close(&d->file);
    (d->host->free)(d->host->ctx, d);
}

static weft_status tokens_open(void *module, const weft_data_args *args, weft_dataset **out)
{
    const weft_host *host = (const weft_host *)module;
    weft_data_args a = {0};
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_take(&a, sizeof a, args);
    if (st == WEFT_OK && a.use != WEFT_DATA_TRAIN && a.use != WEFT_DATA_VALID)
        st = weft_refuse_unknown(host);
    if (st != WEFT_OK)
        return st;
    const int train = a.use == WEFT_DATA_TRAIN;
    const char *path = a.conf->text(a.conf->ctx, train ? "train" : "valid");
    if (!*path) {
        *out = NULL;
        return WEFT_OK;
    }
    weft_dataset *d = (weft_dataset *)weft_new(host, sizeof *d, &st);
    if (!d)
        return st;
    d->host = host;
    d->use = a.use;
    d->key = source_order_key(a.seed);
    st = file_open(host, train ? "data.train" : "data.valid", path, &d->file);
    if (st != WEFT_OK)
        tokens_close(d);
    else
        *out = d;
    return st;
}

/* Windows without overlap: each begins with the last target of the one before. */
static uint64_t windows(const weft_dataset *d, uint64_t sequence)
{
    return sequence ? (d->file.count - 1) / sequence : 0;
}

static weft_status check_sequence(const weft_dataset *d, uint64_t sequence)
{
    return windows(d, sequence)
               ? WEFT_OK
               : source_fail(d->host, WEFT_USAGE,
                             "%s: data file %s has %" PRIu64 " tokens; a sequence needs %" PRIu64
                             ": give more text, or lower train.sequence",
                             d->file.key, d->file.path, d->file.count, sequence + 1);
}

static weft_status tokens_info(weft_dataset *d, uint64_t sequence, weft_data_info *out)
{
    weft_status st = check_sequence(d, sequence ? sequence : 1);
    if (st != WEFT_OK)
        return st;
    if (!*d->identity)
        file_identify(&d->file, d->identity);
    const weft_data_info info = {.struct_size = sizeof info,
                                 .samples = windows(d, sequence ? sequence : 1),
                                 .vocab = d->file.vocab,
                                 .nfields = FIELDS,
                                 .fields = fields,
                                 .identity = d->identity};
    weft_give(out, &info);
    return WEFT_OK;
}

static weft_status tokens_read(weft_dataset *d, const weft_read_args *args)
{
    weft_read_args a = {0};
    weft_status st = weft_check_args(d->host, args, sizeof *args, 0);
    weft_take(&a, sizeof a, args);
    if (st == WEFT_OK && (a.nfields != FIELDS || a.reserved))
        st = weft_refuse_unknown(d->host);
    if (st == WEFT_OK)
        st = check_sequence(d, a.sequence);
    if (st != WEFT_OK)
        return st;
    const uint64_t all = windows(d, a.sequence);
    if (d->use == WEFT_DATA_VALID && (a.count > all || a.first > all - a.count))
        return source_fail(d->host, WEFT_USAGE,
                           "%s: samples %" PRIu64 " to %" PRIu64 " of %" PRIu64 " are asked for",
                           d->file.key, a.first, a.first + a.count, all);
    int32_t *tokens = (int32_t *)a.out[0], *targets = (int32_t *)a.out[1];
    for (uint64_t i = 0; st == WEFT_OK && i < a.count; i++) {
        const uint64_t sample = a.first + i;
        const uint64_t start = d->use == WEFT_DATA_VALID
                                   ? sample * a.sequence
                                   : source_order_below(d->key, sample, d->file.count - a.sequence);
        st = file_copy_window(&d->file, start, a.sequence, tokens ? tokens + i * a.sequence : NULL,
                              targets ? targets + i * a.sequence : NULL);
    }
    return st;
}

/* --- the plugin --- */

static const weft_option train = {.struct_size = sizeof train,
                                  .type = WEFT_OPT_STRING,
                                  .key = "train",
                                  .dflt = "",
                                  .help = "token file to learn from (weft data makes one)"};
static const weft_option valid = {.struct_size = sizeof valid,
                                  .type = WEFT_OPT_STRING,
                                  .key = "valid",
                                  .dflt = "",
                                  .help = "token file to evaluate on; empty: no evaluation"};
static const weft_option *const options[] = {&train, &valid, NULL};

static const weft_data_table table = {
    .struct_size = sizeof table,
    .open = tokens_open,
    .close = tokens_close,
    .info = tokens_info,
    .read = tokens_read,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.data/1",
    .name = "tokens",
    .help = "windows of token files, which weft data makes",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.tokens", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
