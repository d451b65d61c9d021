/* bad/data.c: a source of rows that follow from the number of the sample, and its ways of failing.
 * Each name of data.expected breaks one rule. */
#include "faults.h"

#include <stdio.h>
#include <string.h>
#include <weft/data.h>

enum { VOCAB = 50, SAMPLES = 20 };

struct weft_dataset {
    const weft_host *host;
    uint64_t seed, next, sequence;
    FILE *file;
};

static const weft_field fields[] = {
    {.name = "tokens", .help = "ids", .dtype = WEFT_I32},
    {.name = "targets", .help = "ids that follow", .dtype = WEFT_I32},
};

static weft_status open_set(void *module, const weft_data_args *args, weft_dataset **out)
{
    static uint64_t opened;
    const weft_host *host = module;
    weft_status st = WEFT_OK;
    if (BAD != IGNORES_TAIL)
        st = weft_check_args(host, args, sizeof *args, 0);
    if (st == WEFT_OK && args->use != WEFT_DATA_TRAIN && args->use != WEFT_DATA_VALID)
        st = weft_refuse_unknown(host);
    if (st != WEFT_OK)
        return st;
    weft_dataset *d = weft_new(host, sizeof *d, &st);
    if (!d)
        return st;
    const weft_conf *conf = args->conf;
    d->host = host;
    if (BAD == OWN_FORMAT && !(d->file = fopen(conf->text(conf->ctx, "train"), "re"))) {
        (host->free)(host->ctx, d);
        return (host->fail)(host->ctx, WEFT_USAGE, "data.train: there is no such file");
    }
    d->seed = args->seed * 7 + (BAD == NEW_SEED ? ++opened : 0);
    *out = d;
    return WEFT_OK;
}

static void close_set(weft_dataset *d)
{
    if (d && d->file)
        fclose(d->file);
    if (d)
        (d->host->free)(d->host->ctx, d);
}

static weft_status info(weft_dataset *d, uint64_t sequence, weft_data_info *out)
{
    const weft_data_info own = {.struct_size = sizeof own,
                                .samples = SAMPLES,
                                .vocab = VOCAB,
                                .nfields = 2,
                                .fields = fields,
                                .identity = "numbers"};
    d->sequence = sequence;
    weft_give(out, &own);
    return WEFT_OK;
}

/* Number `at` of a sample. */
static int32_t id_of(const weft_dataset *d, uint64_t sample, uint64_t at)
{
    const uint64_t x = (d->seed + sample) * 0x9e3779b97f4a7c15u + at * 11;
    return BAD == BEYOND_VOCABULARY && at == 3 ? VOCAB : (int32_t)((x >> 7) % VOCAB);
}

static weft_status read_set(weft_dataset *d, const weft_read_args *args)
{
    weft_status st = weft_check_args(d->host, args, sizeof *args, 0);
    int32_t *tokens = args->out[0], *targets = args->out[1];
    char word[8] = "";
    if (st == WEFT_OK && d->file) {
        rewind(d->file);
        if (!fgets(word, sizeof word, d->file) || strcmp(word, "numbers") != 0)
            st = (d->host->fail)(d->host->ctx, WEFT_DATA, "byte 0: the word numbers is missing");
    }
    for (uint64_t k = 0; st == WEFT_OK && k < args->count; k++) {
        const uint64_t sample = BAD == IN_ORDER ? d->next++ : args->first + k;
        for (uint64_t i = 0; i < args->sequence; i++) {
            if (tokens)
                tokens[k * args->sequence + i] = id_of(d, sample, i);
            if (targets)
                targets[k * args->sequence + i] =
                    id_of(d, sample, i + 1 + (BAD == UNWANTED && !tokens));
        }
    }
    if (st == WEFT_OK && BAD == BEHIND_FIELD && targets && args->count > 1)
        targets[args->count * args->sequence] = 0;
    if (st == WEFT_OK && BAD == ALLOCATES) {
        void *p = weft_new(d->host, 64, &st);
        (d->host->free)(d->host->ctx, p);
    }
    return st;
}

static const weft_option train = {.struct_size = sizeof train,
                                  .type = WEFT_OPT_STRING,
                                  .key = "train",
                                  .dflt = "",
                                  .help = "a file of numbers"};
static const weft_option *const options[] = {BAD == OWN_FORMAT ? &train : NULL, NULL};
static const weft_data_table table = {sizeof table, 0, open_set, close_set, info, read_set};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.data/1",
                                         .name = "acme.numbers",
                                         .help = "numbers",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.numbers", "1", "MIT", components, weft_open_host, NULL);
