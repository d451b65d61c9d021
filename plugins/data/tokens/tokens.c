/* plugins/data/tokens: samples from token files (weft/tokens.h), which `weft data` and llm.c make.
 *
 * A sample is a window of sequence + 1 tokens: the rows, and the targets one further on. The
 * windows of a data set do not overlap, except that each begins with the last target of the one
 * before. Validation samples are the windows in order. Training samples are
 *
 *   order = epochs   each window once an epoch: sample k of epoch e, of N windows, is the window
 *                    that a permutation of (seed, e) makes of k; the sample's number is e N + k
 *   order = starts   what 0.1 did: any place of the data set, drawn anew for each sample
 *
 * In a mixture the weights say whose turn a sample is (mixture.h). Each data set counts its own
 * samples and has its own epochs; the mixture as a whole has none. A window is copied once, from
 * the mapped file to the memory of the core. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mixture.h"
#include "stream.h"

struct weft_dataset {
    const weft_host *host;
    const char *key; /* "data.train" */
    list names;
    stream *parts;    /* [names.nparts] */
    uint64_t *weight; /* [names.nparts] */
    uint32_t opened;  /* parts */
    mixture mix;
    uint32_t use, vocab;
    bool by_starts, separate;
    uint64_t order;   /* its key */
    int32_t *scratch; /* [room] tokens of a window that nobody asks for */
    uint64_t room;
    char identity[640];
};

#define MAX_SEQUENCE ((uint64_t)1 << 30)

static const weft_field fields[] = {
    {.name = "tokens", .help = "ids of the tokens", .dtype = WEFT_I32},
    {.name = "targets", .help = "ids of the tokens that follow", .dtype = WEFT_I32},
    {.name = "document_positions",
     .help = "tokens of the same document before it in the sample",
     .dtype = WEFT_I32},
};

static uint32_t count_fields(const weft_dataset *d)
{
    return d->separate ? 3 : 2;
}

/* --- opening --- */

static void tokens_close(weft_dataset *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->opened; i++)
        stream_close(&d->parts[i]);
    mixture_close(&d->mix);
    list_free(&d->names);
    (d->host->free)(d->host->ctx, d->parts);
    (d->host->free)(d->host->ctx, d->weight);
    (d->host->free)(d->host->ctx, d->scratch);
    (d->host->free)(d->host->ctx, d);
}

static weft_status check_vocab(const weft_dataset *d, const stream *s)
{
    char a[STREAM_NAME], b[STREAM_NAME];
    if (s->vocab == d->parts[0].vocab)
        return WEFT_OK;
    return source_fail(d->host, WEFT_USAGE,
                       "%s: %s has a vocabulary of %" PRIu32 ", and %s one of %" PRIu32
                       ": the data sets of a mixture are written by one tokenizer",
                       d->key, stream_name(s, a), s->vocab, stream_name(&d->parts[0], b),
                       d->parts[0].vocab);
}

static weft_status open_parts(weft_dataset *d, const weft_conf *conf)
{
    const uint32_t n = d->names.nparts;
    weft_status st = WEFT_OK;
    d->parts = (stream *)weft_new(d->host, n * sizeof *d->parts, &st);
    d->weight = (uint64_t *)weft_new(d->host, n * sizeof *d->weight, &st);
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
        d->weight[i] = d->names.parts[i].weight ? d->names.parts[i].weight : 1;
        st = stream_open(d->host, d->key, &d->names.parts[i], &d->parts[i]);
        d->opened += st == WEFT_OK;
        if (st == WEFT_OK)
            st = check_vocab(d, &d->parts[i]);
        if (st == WEFT_OK && d->separate)
            st = stream_set_boundary(&d->parts[i], conf->text(conf->ctx, "boundary"));
    }
    if (st == WEFT_OK && d->use == WEFT_DATA_VALID && d->names.parts[0].weight)
        st = source_fail(d->host, WEFT_USAGE,
                         "%s: weights are for training; every sample of the validation data is "
                         "evaluated once: leave them out",
                         d->key);
    if (st == WEFT_OK)
        d->vocab = d->parts[0].vocab;
    return st != WEFT_OK ? st : mixture_open(d->host, d->key, d->weight, n, &d->mix);
}

#define EPOCHS "epochs of "

/* Whether samples are those of 0.1: by the key, else by the checkpoint that the job goes on from. A
 * mixture was not possible then. */
static bool starts_as_before(const weft_dataset *d, const weft_data_args *a)
{
    const char *order = a->conf->text(a->conf->ctx, "order");
    if (!strcmp(order, "starts"))
        return true;
    return strcmp(order, "epochs") && a->resumes && !strstr(a->resumes, EPOCHS) &&
           !d->names.parts[0].weight;
}

static weft_status open_set(const weft_host *host, const weft_data_args *a, const char *names,
                            weft_dataset **out)
{
    weft_status st = WEFT_OK;
    weft_dataset *d = (weft_dataset *)weft_new(host, sizeof *d, &st);
    if (!d)
        return st;
    d->host = host;
    d->use = a->use;
    d->key = a->use == WEFT_DATA_TRAIN ? "data.train" : "data.valid";
    d->order = source_order_key(a->seed);
    d->separate = !strcmp(a->conf->text(a->conf->ctx, "documents"), "separate");
    st = list_read(host, d->key, names, &d->names);
    if (st == WEFT_OK)
        st = open_parts(d, a->conf);
    if (st == WEFT_OK)
        d->by_starts = a->use == WEFT_DATA_TRAIN && starts_as_before(d, a);
    if (st == WEFT_OK && d->by_starts && d->names.parts[0].weight)
        st = source_fail(host, WEFT_USAGE,
                         "data.order = starts is the order of jobs of weft 0.1, which had no "
                         "mixtures: leave the key out");
    if (st != WEFT_OK)
        tokens_close(d);
    else
        *out = d;
    return st;
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
    const char *names = a.conf->text(a.conf->ctx, a.use == WEFT_DATA_TRAIN ? "train" : "valid");
    if (*names)
        return open_set(host, &a, names, out);
    *out = NULL;
    return WEFT_OK;
}

/* --- description --- */

static uint64_t windows(const stream *s, uint64_t sequence)
{
    return sequence && sequence <= MAX_SEQUENCE ? (s->count - 1) / sequence : 0;
}

/* Windows of all parts; 0, with a message, where a part has none. */
static uint64_t count_windows(const weft_dataset *d, uint64_t sequence)
{
    char name[STREAM_NAME];
    uint64_t all = 0;
    for (uint32_t i = 0; i < d->opened; i++) {
        const uint64_t n = windows(&d->parts[i], sequence);
        if (!n) {
            (void)source_fail(d->host, WEFT_USAGE,
                              "%s: %s has %" PRIu64 " tokens; a sequence needs %" PRIu64
                              ": give more text, or lower train.sequence",
                              d->key, stream_name(&d->parts[i], name), d->parts[i].count,
                              sequence + 1);
            return 0;
        }
        all += n;
    }
    return all;
}

/* What a mixture's parts are is a digest: 64 of their lines would be too long. */
static void identify(weft_dataset *d)
{
    const uint32_t n = d->opened;
    uint64_t digest = SOURCE_DIGEST_BEGIN, tokens = 0;
    char one[STREAM_IDENTITY], documents[STREAM_IDENTITY];
    for (uint32_t i = 0; i < n; i++) {
        stream_identify(&d->parts[i], one);
        stream_identify_documents(&d->parts[i], documents);
        source_digest(&digest, one, strlen(one));
        source_digest(&digest, documents, strlen(documents));
        source_digest(&digest, &d->weight[i], sizeof *d->weight);
        tokens += d->parts[i].count;
    }
    if (d->names.parts[0].weight)
        snprintf(one, sizeof one,
                 "a mixture of %" PRIu32 " sets, %" PRIu64 " tokens of %" PRIu32
                 " kinds, digest %016" PRIx64,
                 n, tokens, d->vocab, digest);
    if (d->names.parts[0].weight && d->separate)
        snprintf(documents, sizeof documents, "documents apart, ");
    snprintf(d->identity, sizeof d->identity, "%s%s%s", documents,
             d->use == WEFT_DATA_TRAIN && !d->by_starts ? EPOCHS : "", one);
}

static weft_status tokens_info(weft_dataset *d, uint64_t sequence, weft_data_info *out)
{
    const uint64_t rows = sequence ? sequence : 1, samples = count_windows(d, rows);
    weft_status st = samples ? WEFT_OK : WEFT_USAGE;
    if (st == WEFT_OK && d->separate && d->room < rows) {
        int32_t *scratch = (int32_t *)weft_new(d->host, rows * sizeof *scratch, &st);
        if (!scratch)
            return st;
        (d->host->free)(d->host->ctx, d->scratch);
        d->scratch = scratch;
        d->room = rows;
    }
    if (st != WEFT_OK)
        return st;
    if (!*d->identity)
        identify(d);
    const weft_data_info info = {.struct_size = sizeof info,
                                 .samples = samples,
                                 .vocab = d->vocab,
                                 .nfields = count_fields(d),
                                 .fields = fields,
                                 .identity = d->identity};
    weft_give(out, &info);
    return WEFT_OK;
}

/* --- samples --- */

/* The set of a sample and the token of it where the sample begins. */
static const stream *place_of(const weft_dataset *d, uint64_t sample, uint64_t sequence,
                              uint64_t *start)
{
    uint64_t number;
    const uint32_t part = mixture_turn(&d->mix, sample, &number);
    const stream *s = &d->parts[part];
    const uint64_t n = windows(s, sequence), key = d->order + part * 0x9E3779B97F4A7C15u;
    if (d->use == WEFT_DATA_VALID)
        *start = sample * sequence;
    else if (d->by_starts)
        *start = source_order_below(d->order, sample, s->count - sequence);
    else
        *start = source_order_permute(key, number / n, n, number % n) * sequence;
    return s;
}

/* Any of the outputs may be NULL. */
static weft_status read_one(weft_dataset *d, uint64_t sample, uint64_t sequence, int32_t *tokens,
                            int32_t *targets, int32_t *places)
{
    uint64_t start;
    const stream *s = place_of(d, sample, sequence, &start);
    int32_t *own = tokens ? tokens : d->scratch;
    weft_status st = WEFT_OK;
    if (tokens || (places && s->boundary != STREAM_INDEX))
        st = stream_copy(s, start, sequence, own);
    if (st == WEFT_OK && targets)
        st = stream_copy(s, start + 1, sequence, targets);
    return st == WEFT_OK && places ? stream_places(s, start, sequence, own, places) : st;
}

static weft_status check_read(const weft_dataset *d, const weft_read_args *a)
{
    if (a->nfields != count_fields(d) || a->reserved)
        return weft_refuse_unknown(d->host);
    const uint64_t all = count_windows(d, a->sequence);
    if (!all)
        return WEFT_USAGE;
    if (d->separate && a->sequence > d->room)
        return source_fail(d->host, WEFT_USAGE,
                           "%s: samples of %" PRIu64
                           " rows are asked for; info() was asked for %" PRIu64,
                           d->key, a->sequence, d->room);
    if (d->use == WEFT_DATA_VALID && (a->count > all || a->first > all - a->count))
        return source_fail(d->host, WEFT_USAGE,
                           "%s: samples %" PRIu64 " to %" PRIu64 " of %" PRIu64 " are asked for",
                           d->key, a->first, a->first + a->count, all);
    return WEFT_OK;
}

static weft_status tokens_read(weft_dataset *d, const weft_read_args *args)
{
    weft_read_args a = {0};
    weft_status st = weft_check_args(d->host, args, sizeof *args, 0);
    weft_take(&a, sizeof a, args);
    if (st == WEFT_OK)
        st = check_read(d, &a);
    for (uint64_t i = 0; st == WEFT_OK && i < a.count; i++) {
        int32_t *out[3] = {0};
        for (uint32_t k = 0; k < a.nfields; k++)
            if (a.out[k])
                out[k] = (int32_t *)a.out[k] + i * a.sequence;
        st = read_one(d, a.first + i, a.sequence, out[0], out[1], out[2]);
    }
    return st;
}

/* --- the plugin --- */

#define OPTION(member, kind, words, name, value, text)                                             \
    static const weft_option member = {.struct_size = sizeof member,                               \
                                       .type = kind,                                               \
                                       .key = name,                                                \
                                       .dflt = value,                                              \
                                       .choices = words,                                           \
                                       .help = text}
OPTION(train, WEFT_OPT_STRING, NULL, "train", "",
       "token files to learn from (weft data makes them): names, folders or patterns, separated by "
       "commas, and a comma of a name is written \\,; each NAME:WEIGHT in a mixture");
OPTION(valid, WEFT_OPT_STRING, NULL, "valid", "",
       "token files to evaluate on, without weights; empty: no evaluation");
OPTION(
    order, WEFT_OPT_CHOICE, "auto|epochs|starts", "order", "auto",
    "epochs: each sample once an epoch; starts: samples begin at any token, as in weft 0.1; auto: "
    "epochs, and what it did in a job that is resumed");
OPTION(documents, WEFT_OPT_CHOICE, "joined|separate", "documents", "joined",
       "separate: attention does not cross from one document into another");
OPTION(boundary, WEFT_OPT_STRING, NULL, "boundary", "auto",
       "how documents are told apart: index, begin:ID or end:ID of a token; auto: the index of the "
       "files, or the first token of llm.c's documents");
static const weft_option *const options[] = {&train, &valid, &order, &documents, &boundary, NULL};

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
