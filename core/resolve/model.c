/* resolve/model.c: what the model family says of itself, and what the data gives. */
#include "base/err.h"
#include "graph/inputs.h"
#include "host/call.h"
#include "resolve/internal.h"

static weft_status describe(resolve_state *r, const weft_data_info *data)
{
    spec *s = r->spec;
    const weft_model_table *table = s->family.c->table;
    s->family.conf = config_conf(r->cfg, "model", s->family.c->own);
    weft_status st = host_open(s->host, s->family.c);
    s->model = (weft_model_info){.struct_size = sizeof s->model};
    if (st != WEFT_OK)
        return st;
    st = PLUGIN_CALL(table, describe, s->family.c->module, s->family.conf, data, &s->model);
    if (st != WEFT_OK)
        (void)!resolve_add_place(r->cfg, s->family.c, "model");
    return st;
}

#define MAX_CONTEXT ((int64_t)1 << 24)
#define MAX_VOCAB (1u << 30)

/* The answer is a plugin's. */
static weft_status check_info(const spec *s, const weft_data_info *data)
{
    const weft_model_info *m = &s->model;
    const char *name = s->family.c->name;
    if (m->flags || m->reserved)
        return err_fail(WEFT_UNSUPPORTED,
                        "model family %s: describe() sets flags or a reserved word; this version "
                        "of weft knows none",
                        name);
    if (m->context < 0 || m->context > MAX_CONTEXT || m->vocab > MAX_VOCAB)
        return err_fail(WEFT_USAGE,
                        "model family %s: describe() gives a context of %lld rows and a vocabulary "
                        "of %u; at most %lld and %u are possible",
                        name, (long long)m->context, m->vocab, (long long)MAX_CONTEXT, MAX_VOCAB);
    if (data && m->vocab && m->vocab < data->vocab)
        return err_fail(WEFT_USAGE,
                        "model family %s: describe() gives a vocabulary of %u, but the data has "
                        "ids up to %u",
                        name, m->vocab, data->vocab - 1);
    return WEFT_OK;
}

/* Rows of a sample: those of the data, else what the job asks for. */
static weft_status set_sequence(resolve_state *r, const weft_data_info *data)
{
    const config *c = r->cfg;
    const int64_t context = r->spec->model.context, asked = config_int(c, "train.sequence");
    const bool given = config_given(c, "train.sequence");
    const uint64_t rows = data ? data->rows : 0;
    if (rows > (uint64_t)MAX_CONTEXT)
        return err_fail(WEFT_USAGE, "the data has samples of %llu rows; at most %lld are possible",
                        (unsigned long long)rows, (long long)MAX_CONTEXT);
    if (rows && given && asked != (int64_t)rows)
        return config_fail(c, "train.sequence",
                           "%lld, but a sample of the data has %llu rows; leave the key out",
                           (long long)asked, (unsigned long long)rows);
    r->spec->sequence = rows                                   ? (int64_t)rows
                        : !given && context && asked > context ? context
                                                               : asked;
    if (context && r->spec->sequence > context)
        return config_refuse(CONSTRAINT_SEQUENCE, c, NULL,
                             (config_fact[]){{"train.sequence", r->spec->sequence, NULL},
                                             {"context", context, NULL},
                                             {0}});
    return WEFT_OK;
}

/* The spec's own copy, which outlives the data set. */
static void keep_fields(spec *s, const weft_data_info *data)
{
    weft_field *own = pool_array(&s->pool, data->nfields + 1, sizeof *own);
    for (uint32_t i = 0; i < data->nfields; i++) {
        own[i] = data->fields[i];
        own[i].name = pool_text(&s->pool, own[i].name);
        own[i].help = NULL;
        for (uint32_t k = 0; k < own[i].rank; k++)
            own[i].axes[k].name = pool_text(&s->pool, own[i].axes[k].name);
    }
    s->fields = own;
    s->nfields = data->nfields;
}

weft_status resolve_model(resolve_state *r, const weft_data_info *data)
{
    weft_status st = data ? graph_check_fields(data->fields, data->nfields) : WEFT_OK;
    if (st == WEFT_OK)
        st = describe(r, data);
    if (st == WEFT_OK)
        st = check_info(r->spec, data);
    if (st == WEFT_OK)
        st = set_sequence(r, data);
    if (st == WEFT_OK && data)
        keep_fields(r->spec, data);
    return st;
}

bool resolve_needs_data(config *cfg, spec *s)
{
    resolve_state r = {.cfg = cfg, .spec = s};
    const bool needs = describe(&r, NULL) != WEFT_OK;
    err_clear();
    return needs;
}
