/* data/source.c: see source.h. */
#include "data/source.h"

#include "base/err.h"
#include "graph/inputs.h"
#include "host/call.h"

#include <inttypes.h>
#include <string.h>

#define MAX_IDENTITY 1024u /* bytes */
#define MAX_VOCAB (1u << 30)

static weft_status check_identity(const char *name, const char *identity)
{
    const size_t n = identity ? strnlen(identity, MAX_IDENTITY) : 0;
    if (!n || n == MAX_IDENTITY)
        return err_fail(WEFT_USAGE,
                        "source %s: info() gives no identity of 1 to %u bytes; checkpoints record "
                        "it",
                        name, MAX_IDENTITY - 1);
    for (const char *p = identity; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            return err_fail(WEFT_USAGE, "source %s: the identity of info() is not one line of text",
                            name);
    return WEFT_OK;
}

static weft_status check_info(const char *name, const weft_data_info *info)
{
    if (info->flags)
        return err_fail(WEFT_UNSUPPORTED,
                        "source %s: info() sets the flags 0x%x; this version of weft knows none",
                        name, info->flags);
    if (!info->samples || info->vocab > MAX_VOCAB)
        return err_fail(WEFT_USAGE,
                        "source %s: info() gives %" PRIu64 " samples and a vocabulary of %u; at "
                        "least 1 and at most %u are possible",
                        name, info->samples, info->vocab, MAX_VOCAB);
    weft_status st = graph_check_fields(info->fields, info->nfields);
    if (st != WEFT_OK)
        err_context("source %s", name);
    return st == WEFT_OK ? check_identity(name, info->identity) : st;
}

static weft_status ask(data_set *d, uint64_t sequence, weft_data_info *out)
{
    const weft_data_table *table = d->source->table;
    *out = (weft_data_info){.struct_size = sizeof *out};
    weft_status st = PLUGIN_CALL(table, info, d->set, sequence, out);
    return st == WEFT_OK ? check_info(d->source->name, out) : st;
}

static weft_status open_set(const host_component *source, const weft_data_args *args, data_set *out)
{
    const weft_data_table *table = source->table;
    *out = (data_set){.source = source};
    weft_status st = PLUGIN_CALL(table, open, source->module, args, &out->set);
    if (st != WEFT_OK || !out->set)
        return st;
    st = ask(out, 0, &out->info);
    if (st != WEFT_OK)
        data_set_close(out);
    return st;
}

weft_status data_set_open(const host_component *source, const weft_conf *conf, uint32_t use,
                          uint64_t seed, data_set *out)
{
    const weft_data_args args = {
        .struct_size = sizeof args, .use = use, .seed = seed, .conf = conf};
    return open_set(source, &args, out);
}

void data_set_close(data_set *d)
{
    if (d->set) {
        const weft_data_table *table = d->source->table;
        PLUGIN_DO(table, close, d->set);
    }
    *d = (data_set){0};
}

static bool same_field(const weft_field *a, const weft_field *b)
{
    bool same = !strcmp(a->name, b->name) && a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t k = 0; same && k < a->rank; k++)
        same = !strcmp(a->axes[k].name, b->axes[k].name) && a->axes[k].size == b->axes[k].size;
    return same;
}

/* Both answers are checked. */
static weft_status compare(const char *source, const weft_data_info *a, const char *name_a,
                           const weft_data_info *b, const char *name_b)
{
    if (a->vocab != b->vocab)
        return err_fail(WEFT_USAGE, "source %s: %s has a vocabulary of %u, %s of %u", source,
                        name_b, b->vocab, name_a, a->vocab);
    if (a->rows != b->rows)
        return err_fail(WEFT_USAGE,
                        "source %s: a sample of %s has %" PRIu64 " rows, of %s %" PRIu64, source,
                        name_b, b->rows, name_a, a->rows);
    for (uint32_t i = 0; i < a->nfields || i < b->nfields; i++)
        if (i >= a->nfields || i >= b->nfields || !same_field(&a->fields[i], &b->fields[i]))
            return err_fail(WEFT_USAGE,
                            "source %s: %s has the field '%s', which %s lacks or has in "
                            "another shape",
                            source, i < b->nfields ? name_b : name_a,
                            i < b->nfields ? b->fields[i].name : a->fields[i].name,
                            i < b->nfields ? name_a : name_b);
    return WEFT_OK;
}

weft_status data_set_describe(data_set *d, uint64_t sequence)
{
    weft_data_info now;
    if (d->info.rows && sequence != d->info.rows)
        return err_fail(WEFT_USAGE,
                        "source %s: samples of %" PRIu64
                        " rows are asked for, but the data has %" PRIu64 " rows a sample",
                        d->source->name, sequence, d->info.rows);
    weft_status st = ask(d, sequence, &now);
    if (st == WEFT_OK)
        st = compare(d->source->name, &d->info, "the set when it was opened", &now, "it now");
    if (st != WEFT_OK)
        return st;
    d->info = now;
    d->sequence = sequence;
    return WEFT_OK;
}

weft_status data_set_resume(data_set *d, const weft_conf *conf, uint64_t seed, const char *resumes)
{
    const weft_data_args args = {.struct_size = sizeof args,
                                 .use = WEFT_DATA_TRAIN,
                                 .seed = seed,
                                 .conf = conf,
                                 .resumes = resumes};
    data_set as_then;
    weft_status st = open_set(d->source, &args, &as_then);
    if (st == WEFT_UNSUPPORTED) { /* a source of 0.9 */
        err_clear();
        return WEFT_OK;
    }
    if (st == WEFT_OK && !as_then.set)
        st = err_fail(WEFT_USAGE, "source %s: the training data is gone", d->source->name);
    if (st == WEFT_OK)
        st = compare(d->source->name, &d->info, "the set when it was opened", &as_then.info,
                     "it now");
    if (st == WEFT_OK)
        st = data_set_describe(&as_then, d->sequence);
    if (st != WEFT_OK) {
        data_set_close(&as_then);
        return st;
    }
    data_set_close(d);
    *d = as_then;
    return WEFT_OK;
}

weft_status data_set_compare(const data_set *train, const data_set *valid)
{
    return compare(train->source->name, &train->info, "the training data", &valid->info,
                   "the validation data");
}

weft_status data_set_read(data_set *d, uint64_t first, uint64_t count, void *const *out)
{
    const weft_data_table *table = d->source->table;
    const weft_read_args args = {.struct_size = sizeof args,
                                 .first = first,
                                 .count = count,
                                 .sequence = d->sequence,
                                 .nfields = d->info.nfields,
                                 .out = out};
    return PLUGIN_CALL(table, read, d->set, &args);
}
