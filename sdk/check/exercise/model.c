/* check/exercise/model.c: the model of the job that plan.c plans: an installed family, or the one
 * that is under check. */
#include "plan/model.h"
#include "base/err.h"
#include "check/exercise/exercise.h"

#include <stdio.h>
#include <string.h>

#define UNKNOWN_WANT 77u

/* --- the family under check, behind functions that lend its arguments --- */

static const weft_field *lend_fields(check_lend *l, const weft_field *fields, uint32_t n)
{
    return check_lend_bytes(l, fields, n * sizeof *fields);
}

static weft_status behind_describe(void *module, const weft_conf *conf, const weft_data_info *data,
                                   weft_model_info *out)
{
    const check_behind *w = module;
    check_lend *l = &w->d->lend;
    const weft_model_table *t = w->c->table;
    weft_model_info own = {.struct_size = sizeof own};
    weft_data_info given;
    w->d->where = "describe";
    if (data) {
        given = *data;
        given.fields = lend_fields(l, data->fields, data->nfields);
        data = CHECK_LEND(l, weft_data_info, &given);
    }
    weft_model_info *lent = check_lend_out(l, &own);
    const weft_status st = PLUGIN_GET(t, describe, w->d->module, conf, data, lent);
    check_lend_filled(l, &own, lent, "weft_model_info");
    own.struct_size = sizeof own;
    *out = own;
    return check_lend_end(l, st);
}

static weft_status behind_build(void *module, const weft_model_args *args, const weft_builder *b,
                                weft_tensor *out)
{
    const check_behind *w = module;
    check_lend *l = &w->d->lend;
    const weft_model_table *t = w->c->table;
    weft_model_args given = *args;
    given.fields = lend_fields(l, args->fields, args->nfields);
    given.want = check_lend_value(l, "what build() has to emit", args->want, UNKNOWN_WANT);
    b = check_lend_table(l, check_below_builder(l, b));
    args = CHECK_LEND(l, weft_model_args, &given);
    w->d->where = "build";
    return check_lend_end(l, PLUGIN_GET(t, build, w->d->module, args, b, out));
}

const weft_model_table check_exercise_model_lent = {.struct_size = sizeof check_exercise_model_lent,
                                                    .describe = behind_describe,
                                                    .build = behind_build};

/* What jobs have that a family may be made for: a text, vectors, or nothing, where its options give
 * all sizes. */
static const weft_field text[] = {{.name = "tokens", .help = "ids", .dtype = WEFT_I32},
                                  {.name = "targets", .help = "ids", .dtype = WEFT_I32}};
static const weft_field vectors[] = {
    {.name = "vectors", .help = "numbers", .dtype = WEFT_F32, .rank = 1, .axes = {{"place", 24}}},
    {.name = "targets", .help = "classes", .dtype = WEFT_I32}};
static const weft_data_info sets[] = {
    {.struct_size = sizeof *sets, .samples = 1000, .vocab = 64, .nfields = 2, .fields = text},
    {.struct_size = sizeof *sets,
     .samples = 1000,
     .rows = 1,
     .vocab = 16,
     .nfields = 2,
     .fields = vectors}};
#define SETS (sizeof sets / sizeof *sets)

static weft_status ask(spec *s, const weft_data_info *data)
{
    const weft_model_table *t = s->family.c->table;
    s->model = (weft_model_info){.struct_size = sizeof s->model};
    const weft_status st =
        PLUGIN_CALL(t, describe, s->family.c->module, s->family.conf, data, &s->model);
    s->sequence = s->model.context > 0 && s->model.context < 16 ? s->model.context : 16;
    if (data && data->rows)
        s->sequence = (int64_t)data->rows;
    s->fields = data ? data->fields : NULL;
    s->nfields = data ? data->nfields : 0;
    return st;
}

weft_status check_exercise_describe(check_exercise *d, const host_component *own,
                                    const weft_conf *conf, spec *s)
{
    s->family = (spec_plugin){own, conf};
    weft_status st = WEFT_USAGE;
    for (size_t i = 0; i <= SETS && st == WEFT_USAGE && !d->lend.altered; i++) {
        if (i == 1) /* it needs other fields */
            snprintf(d->absent, sizeof d->absent,
                     "it can be planned for none of the data that "
                     "this check has; of tokens and targets it says: %.900s",
                     check_exercise_why(d));
        check_host_clear(d->host);
        err_clear();
        st = ask(s, i < SETS ? &sets[i] : NULL);
    }
    if (st != WEFT_USAGE || d->lend.altered || d->large) {
        *d->absent = 0;
        return st;
    }
    s->family.c = NULL;
    check_host_clear(d->host);
    err_clear();
    return WEFT_OK;
}

weft_status check_exercise_build(spec *s)
{
    static const graph_mesh alone = {0};
    uint64_t built = 0;
    weft_status st = WEFT_OK;
    for (uint32_t want = WEFT_MODEL_TRAIN; st == WEFT_OK && want <= WEFT_MODEL_LOGITS; want++) {
        graph g;
        weft_tensor result;
        graph_init(&g, &alone, graph_ops_of(s->host), s->compute, s->grad_dtype);
        st = plan_model_build(&g, s, 1, (double)s->batch, want, &built, &result);
        graph_free(&g);
    }
    return st;
}

/* --- the family that others are planned with --- */

static bool declares(const host_component *c, const char *key)
{
    for (const weft_option *const *o = c->options; *o; o++)
        if (!strcmp((*o)->key, key))
            return true;
    return false;
}

/* Small sizes, as far as the family has such keys. */
static weft_status set_sizes(config *cfg, const host_component *c, const check_exercise_job *j)
{
    const struct {
        const char *key;
        uint32_t given, usual;
    } sizes[] = {
        {"layers", j->layers, 4},  {"heads", j->heads, 4}, {"embed", j->embed, 32},
        {"ffn", 2 * j->embed, 64}, {"context", 16, 16},    {"vocab", j->vocab, 64},
    };
    weft_status st = config_add(cfg, "model", c->name, c->options);
    for (size_t i = 0; st == WEFT_OK && i < sizeof sizes / sizeof *sizes; i++) {
        char key[64], value[16];
        snprintf(key, sizeof key, "model.%s", sizes[i].key);
        snprintf(value, sizeof value, "%u", sizes[i].given ? sizes[i].given : sizes[i].usual);
        if (declares(c, sizes[i].key))
            st = config_set(cfg, key, value, NULL);
    }
    return st == WEFT_OK ? config_check_section(cfg, "model") : st;
}

/* Number `number` of the installed families, of which the first is the default of model.family. */
static const host_component *installed(host *h, const config *cfg, uint32_t number)
{
    static const char *const ifaces[] = {"weft.model/1", NULL};
    const host_component **all, *c = NULL;
    uint32_t n, seen = 0;
    const char *first = config_text(cfg, "model.family");
    if (!number)
        return host_find(h, "model", first, ifaces, &c) == WEFT_OK ? c : NULL;
    host_list(h, "model", &all, &n);
    for (uint32_t i = 0; i < n; i++)
        if (all[i]->iface && !strcmp(all[i]->iface, ifaces[0]) && strcmp(all[i]->name, first) &&
            ++seen == number)
            c = all[i];
    return c;
}

weft_status check_exercise_family(check_exercise *d, spec *s, config **options)
{
    weft_status st = config_load(NULL, NULL, 0, options);
    if (st != WEFT_OK)
        return st;
    const host_component *c = installed(d->run->h, *options, d->job.family);
    if (!c)
        c = installed(d->run->h, *options, 0);
    if (!c) {
        snprintf(d->absent, sizeof d->absent, "no model family is installed to plan with: %.900s",
                 err_text());
        err_clear();
        return WEFT_OK;
    }
    st = set_sizes(*options, c, &d->job);
    if (st == WEFT_OK)
        st = host_open(d->run->h, c);
    if (st != WEFT_OK)
        return st;
    s->family = (spec_plugin){c, config_conf(*options, "model", c->own)};
    return ask(s, NULL);
}
