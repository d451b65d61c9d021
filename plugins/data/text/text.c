/* plugins/data/text: samples from text files, encoded by the job's tokenizer as they are read.
 *
 * The files are one stream of bytes; between two files is the tokenizer's id for the end of a text,
 * if it has one. A sample begins at a place of the stream and is as many ids as it takes. Places
 * are numbers of bytes, so no file is read to find a sample, on any rank and after any resume:
 *
 *   training     a place that depends on (seed, number of the sample) alone; no epochs
 *   validation   every `span` bytes, the length of text that a sample takes on average at 16 evenly
 *                spaced places. A sample of more bytes reads into the next; one of fewer leaves a
 *                rest that is not evaluated
 *
 * `begin = line` moves a place to the next line, or past a cut character where no line ends within
 * 4 KiB. A sample that reaches the end of the stream goes on at its beginning. Where one byte is
 * one id and `begin = byte`, samples are those of the token file that weft data makes of the same
 * files, with order = starts.
 *
 * Compared with a token file, every step pays for encoding sequence + 1 ids a sample: text is for
 * trying a tokenizer or a corpus out. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <weft/host.h>

#include "files.h"

#define PIECE (128u << 10) /* most bytes of text a call */
#define SPARE 256u         /* bytes behind those that a sample takes on average */
#define PROBES 16u         /* places where the length of a sample is estimated, ... */
#define PROBE 4096u        /* ... and bytes at each */
#define LINE 4096u         /* bytes in which the next line is looked for */

struct weft_dataset {
    const weft_host *host;
    const char *key; /* "data.train" */
    files text;
    weft_component_ref of; /* the tokenizer's plugin */
    weft_tokenizer *tokenizer;
    weft_tokenizer_info info;
    uint32_t use;
    int by_line;
    uint64_t order, sequence, span;
    int32_t *ids; /* [room], of which PIECE lie behind those of a sample */
    uint64_t room;
    char identity[768];
};

static const weft_field fields[] = {
    {.name = "tokens", .help = "ids of the tokens", .dtype = WEFT_I32},
    {.name = "targets", .help = "ids of the tokens that follow", .dtype = WEFT_I32},
};
#define FIELDS (uint32_t)(sizeof fields / sizeof *fields)

static const weft_tokenizer_table *table_of(const weft_dataset *d)
{
    return (const weft_tokenizer_table *)d->of.table;
}

/* --- ids of text --- */

/* What a tokenizer answers is not trusted: memory and the model's vocabulary depend on it. */
static weft_status check_answer(const weft_dataset *d, const weft_encode_args *a, uint64_t used,
                                uint64_t n)
{
    if (used > a->bytes || n > a->room || (!used && !n))
        return source_fail(d->host, WEFT_USAGE,
                           "%s: the tokenizer answers %" PRIu64 " of %" PRIu64 " bytes and %" PRIu64
                           " ids in room for %" PRIu64,
                           d->key, used, a->bytes, n, a->room);
    for (uint64_t i = 0; i < n; i++)
        if (a->out[i] < 0 || (uint32_t)a->out[i] >= d->info.vocab)
            return source_fail(d->host, WEFT_USAGE,
                               "%s: the tokenizer gives the id %" PRId32
                               ", outside its vocabulary of %u",
                               d->key, a->out[i], d->info.vocab);
    return WEFT_OK;
}

/* At most `bytes` from place `at` on, in one file. The tokenizer leaves what it cannot cut; where
 * that is all of it, or with `last`, the text ends there. */
static weft_status encode(const weft_dataset *d, uint64_t at, uint64_t bytes, int last,
                          int32_t *out, uint64_t room, uint64_t *used, uint64_t *n)
{
    uint64_t rest;
    weft_status st = WEFT_OK;
    weft_encode_args a = {.struct_size = sizeof a, .out = out, .room = room};
    a.text = files_rest(&d->text, at, &rest);
    a.bytes = rest < bytes ? rest : bytes;
    while (a.bytes < rest && a.bytes > bytes - 3 && ((unsigned char)a.text[a.bytes] & 0xC0) == 0x80)
        a.bytes--;
    for (*used = *n = 0; st == WEFT_OK && !*used && !*n && !(a.flags & WEFT_TEXT_LAST);) {
        a.flags = last || a.bytes == rest ? WEFT_TEXT_LAST : 0;
        last = 1;
        st = table_of(d)->encode(d->tokenizer, &a, used, n);
    }
    return st == WEFT_OK ? check_answer(d, &a, *used, *n) : st;
}

/* At least `want` ids from place `at` on, in d->ids. There is room for more, so that no tokenizer
 * tries how much of a text makes the last few. */
static weft_status encode_all(const weft_dataset *d, uint64_t at, uint64_t want)
{
    weft_status st = WEFT_OK;
    for (uint64_t have = 0; st == WEFT_OK && have < want;) {
        uint64_t used, n, rest;
        const double need = (double)d->span * (double)(want - have) / (double)d->sequence;
        at = at < d->text.bytes ? at : 0;
        files_rest(&d->text, at, &rest);
        st = encode(d, at, need < PIECE - SPARE ? (uint64_t)need + SPARE : PIECE, 0, d->ids + have,
                    d->room - have, &used, &n);
        have += n;
        at += used;
        if (st == WEFT_OK && used == rest && have < want && d->info.end)
            d->ids[have++] = (int32_t)d->info.end - 1;
    }
    return st;
}

/* --- places --- */

/* The place at or behind `at` where a sample may begin. */
static uint64_t align(const weft_dataset *d, uint64_t at)
{
    uint64_t rest, before, i = 0;
    if (!d->by_line || !at)
        return at;
    const char *text = files_rest(&d->text, at, &rest);
    const char *last = files_rest(&d->text, at - 1, &before);
    if (before == 1 || *last == '\n') /* a file or a line begins here */
        return at;
    const char *end = (const char *)memchr(text, '\n', rest < LINE ? rest : LINE);
    if (end)
        i = (uint64_t)(end - text) + 1;
    while (!end && i < 3 && i < rest && ((unsigned char)text[i] & 0xC0) == 0x80)
        i++;
    return at + i < d->text.bytes ? at + i : 0;
}

/* Bytes of text that `sequence` ids take on average. */
static weft_status measure(weft_dataset *d, uint64_t sequence)
{
    int32_t ids[PROBE];
    uint64_t bytes = 0, all = 0;
    for (uint64_t i = 0; i < PROBES; i++) {
        uint64_t used, n;
        weft_status st =
            encode(d, align(d, d->text.bytes / PROBES * i), PROBE, 1, ids, PROBE, &used, &n);
        if (st != WEFT_OK)
            return st;
        bytes += used;
        all += n;
    }
    d->span = (uint64_t)(((unsigned __int128)sequence * bytes + all - 1) / (all ? all : 1));
    d->span = d->span ? d->span : 1;
    return d->text.bytes > d->span
               ? WEFT_OK
               : source_fail(d->host, WEFT_USAGE,
                             "%s: the text has %" PRIu64 " bytes, and a sequence of %" PRIu64
                             " tokens takes about %" PRIu64
                             ": give more text, or lower train.sequence",
                             d->key, d->text.bytes, sequence, d->span);
}

/* --- the table --- */

static void text_close(weft_dataset *d)
{
    if (!d)
        return;
    if (d->tokenizer)
        table_of(d)->close(d->tokenizer);
    files_close(&d->text);
    (d->host->free)(d->host->ctx, d->ids);
    (d->host->free)(d->host->ctx, d);
}

static weft_status open_tokenizer(weft_dataset *d, const char *name)
{
    const weft_host_component *h =
        (const weft_host_component *)(d->host->iface)(d->host->ctx, "weft.host.component/1");
    const weft_component_args args = {
        .struct_size = sizeof args, .iface = "weft.tokenizer/1", .name = name};
    if (!h)
        return source_fail(d->host, WEFT_UNSUPPORTED,
                           "%s: text is encoded by a tokenizer, and this host opens none "
                           "(weft.host.component/1)",
                           d->key);
    d->of.struct_size = sizeof d->of;
    weft_status st = h->open(h->ctx, &args, &d->of);
    if (st == WEFT_OK)
        st = table_of(d)->open(d->of.module, d->of.conf, &d->tokenizer);
    d->info.struct_size = sizeof d->info;
    return st == WEFT_OK ? table_of(d)->info(d->tokenizer, &d->info) : st;
}

static weft_status open_set(const weft_host *host, const weft_data_args *a, const char *list,
                            weft_dataset **out)
{
    weft_status st = WEFT_OK;
    weft_dataset *d = (weft_dataset *)weft_new(host, sizeof *d, &st);
    if (!d)
        return st;
    d->host = host;
    d->use = a->use;
    d->key = a->use == WEFT_DATA_TRAIN ? "data.train" : "data.valid";
    d->by_line = !strcmp(a->conf->text(a->conf->ctx, "begin"), "line");
    d->order = source_order_key(a->seed);
    st = files_open(host, d->key, list, &d->text);
    if (st == WEFT_OK)
        st = open_tokenizer(d, a->conf->text(a->conf->ctx, "tokenizer"));
    if (st == WEFT_OK && (!d->info.vocab || !d->info.identity || d->info.end > d->info.vocab))
        st = source_fail(host, WEFT_USAGE,
                         "%s: the tokenizer gives a vocabulary of %u, end %u and %s identity",
                         d->key, d->info.vocab, d->info.end, d->info.identity ? "an" : "no");
    if (st != WEFT_OK)
        text_close(d);
    else
        *out = d;
    return st;
}

static weft_status text_open(void *module, const weft_data_args *args, weft_dataset **out)
{
    const weft_host *host = (const weft_host *)module;
    weft_data_args a = {0};
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_take(&a, sizeof a, args);
    if (st == WEFT_OK && ((a.use != WEFT_DATA_TRAIN && a.use != WEFT_DATA_VALID) || a.reserved))
        st = weft_refuse_unknown(host);
    if (st != WEFT_OK)
        return st;
    const char *list = a.conf->text(a.conf->ctx, a.use == WEFT_DATA_TRAIN ? "train" : "valid");
    if (*list)
        return open_set(host, &a, list, out);
    *out = NULL;
    return WEFT_OK;
}

/* Text, where samples begin, and tokenizer. A tokenizer's own line may be long. */
static void identify(weft_dataset *d)
{
    uint64_t digest = SOURCE_DIGEST_BEGIN;
    source_digest(&digest, d->info.identity, strlen(d->info.identity));
    snprintf(d->identity, sizeof d->identity,
             "%" PRIu64 " bytes of text, content %016" PRIx64
             ", samples begin at a %s, tokenizer %016" PRIx64 " (%.500s)",
             d->text.bytes, files_digest(&d->text), d->by_line ? "line" : "byte", digest,
             d->info.identity);
}

static weft_status text_info(weft_dataset *d, uint64_t sequence, weft_data_info *out)
{
    const uint64_t rows = sequence ? sequence : 1;
    weft_status st = rows > UINT32_MAX ? weft_refuse_unknown(d->host) : measure(d, rows);
    if (st == WEFT_OK && d->room < rows + 1 + PIECE) {
        int32_t *ids = (int32_t *)weft_new(d->host, (rows + 1 + PIECE) * sizeof *ids, &st);
        if (!ids)
            return st;
        (d->host->free)(d->host->ctx, d->ids);
        d->ids = ids;
        d->room = rows + 1 + PIECE;
    }
    if (st != WEFT_OK)
        return st;
    d->sequence = rows;
    if (!*d->identity)
        identify(d);
    const weft_data_info info = {.struct_size = sizeof info,
                                 .samples = (d->text.bytes - 1) / d->span,
                                 .vocab = d->info.vocab,
                                 .nfields = FIELDS,
                                 .fields = fields,
                                 .identity = d->identity};
    weft_give(out, &info);
    return WEFT_OK;
}

static weft_status read_one(weft_dataset *d, uint64_t sample, int32_t *tokens, int32_t *targets)
{
    const uint64_t place = d->use == WEFT_DATA_VALID
                               ? sample * d->span
                               : source_order_below(d->order, sample, d->text.bytes - d->span);
    weft_status st = encode_all(d, align(d, place), d->sequence + 1);
    if (st == WEFT_OK && tokens)
        memcpy(tokens, d->ids, d->sequence * sizeof *tokens);
    if (st == WEFT_OK && targets)
        memcpy(targets, d->ids + 1, d->sequence * sizeof *targets);
    return st;
}

static weft_status text_read(weft_dataset *d, const weft_read_args *args)
{
    weft_read_args a = {0};
    weft_status st = weft_check_args(d->host, args, sizeof *args, 0);
    weft_take(&a, sizeof a, args);
    if (st == WEFT_OK && (a.nfields != FIELDS || a.reserved))
        st = weft_refuse_unknown(d->host);
    if (st != WEFT_OK)
        return st;
    const uint64_t all = d->span ? (d->text.bytes - 1) / d->span : 0;
    if (!a.sequence || a.sequence != d->sequence ||
        (d->use == WEFT_DATA_VALID && (a.count > all || a.first > all - a.count)))
        return source_fail(d->host, WEFT_USAGE,
                           "%s: samples %" PRIu64 " to %" PRIu64 " of %" PRIu64 ", of %" PRIu64
                           " rows, are asked for; info() was asked for %" PRIu64 " rows",
                           d->key, a.first, a.first + a.count, all, a.sequence, d->sequence);
    int32_t *tokens = (int32_t *)a.out[0], *targets = (int32_t *)a.out[1];
    for (uint64_t i = 0; st == WEFT_OK && i < a.count; i++)
        st = read_one(d, a.first + i, tokens ? tokens + i * a.sequence : NULL,
                      targets ? targets + i * a.sequence : NULL);
    return st;
}

/* --- the plugin --- */

static const weft_option train = {.struct_size = sizeof train,
                                  .type = WEFT_OPT_STRING,
                                  .key = "train",
                                  .dflt = "",
                                  .help = "text files to learn from, separated by commas; a "
                                          "comma of a name is written \\,"};
static const weft_option valid = {.struct_size = sizeof valid,
                                  .type = WEFT_OPT_STRING,
                                  .key = "valid",
                                  .dflt = "",
                                  .help = "text files to evaluate on; empty: no evaluation"};
static const weft_option begin = {.struct_size = sizeof begin,
                                  .type = WEFT_OPT_CHOICE,
                                  .key = "begin",
                                  .dflt = "line",
                                  .choices = "line|byte",
                                  .help = "where a sample may begin"};
static const weft_option tokenizer = {.struct_size = sizeof tokenizer,
                                      .type = WEFT_OPT_STRING,
                                      .key = "tokenizer",
                                      .dflt = "bytes",
                                      .help = "how text becomes ids"};
static const weft_option *const options[] = {&train, &valid, &begin, &tokenizer, NULL};

static const weft_data_table table = {
    .struct_size = sizeof table,
    .open = text_open,
    .close = text_close,
    .info = text_info,
    .read = text_read,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.data/1",
    .name = "text",
    .help = "windows of text files, encoded by the tokenizer of the job",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.text", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
