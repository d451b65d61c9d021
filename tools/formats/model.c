/* formats/model.c: a model from INI text, planned for one rank to learn its parameters. See
 * internal.h. */
#include <stdlib.h>
#include <string.h>

#include "formats/internal.h"
#include "host/watch.h"
#include "resolve/resolve.h"

void formats_params_of(const plan_set *plans, formats_params *out)
{
    for (uint32_t k = 0; k < plans->n; k++)
        for (uint32_t i = 0; i < plans->at[k].pieces.n; i++) {
            const plan_piece *x = &plans->at[k].pieces.at[i];
            bool known = strcmp(x->name, x->param) != 0; /* a state of one */
            for (uint32_t j = 0; k && !known && j < out->n; j++)
                known = !strcmp(out->at[j].name, x->name); /* of several stages */
            if (!known)
                *vec_push(out) = (formats_param){x->name, x->shape};
        }
}

static weft_status set(config *cfg, const char *line)
{
    char key[FORMATS_TEXT];
    const size_t n = strcspn(line, "=");
    if (!line[n] || n >= sizeof key)
        return err_fail(WEFT_USAGE, "'%s' is not section.key=value", line);
    memcpy(key, line, n);
    key[n] = 0;
    return config_set(cfg, key, line + n + 1, NULL);
}

const char *formats_override(const formats_request *r, const char *key)
{
    const char *found = NULL;
    const size_t n = strlen(key);
    for (uint32_t i = 0; i < r->noverrides; i++)
        if (!strncmp(r->overrides[i], key, n) && r->overrides[i][n] == '=')
            found = r->overrides[i] + n + 1;
    return found;
}

/* Plan the forward pass. Data is made up only for a family that takes a size from it. */
static weft_status plan_model(uint32_t vocab, formats_model *m)
{
    static const weft_field fields[] = {{.name = "tokens", .dtype = WEFT_I32},
                                        {.name = "targets", .dtype = WEFT_I32}};
    const weft_data_info data = {
        .struct_size = sizeof data, .vocab = vocab, .nfields = 2, .fields = fields};
    const bool needs = vocab && resolve_needs_data(m->cfg, &m->spec);
    weft_status st = resolve_spec(m->cfg, 1, needs ? &data : NULL, NULL, SPEC_FORWARD, &m->spec);
    if (st != WEFT_OK)
        return st;
    m->planned = true;
    st = plan_build(&m->spec, &m->plans);
    if (st == WEFT_OK)
        formats_params_of(&m->plans, &m->params);
    return st;
}

weft_status formats_model_open(const char *text, const char *name, const formats_request *r,
                               uint32_t vocab, formats_model *m)
{
    *m = (formats_model){0};
    weft_status st = config_load_text(text, name, &m->cfg);
    if (st == WEFT_OK)
        st = config_set(m->cfg, "log.sinks", "", "weft");
    for (uint32_t i = 0; st == WEFT_OK && i < r->noverrides; i++)
        st = set(m->cfg, r->overrides[i]);
    if (st != WEFT_OK)
        return st;
    host_limits_set(m->cfg);
    st = host_create(config_raw(m->cfg, "run.plugins"), &m->host);
    if (st == WEFT_OK)
        st = resolve_plugins(m->cfg, m->host, &m->spec);
    return st == WEFT_OK ? plan_model(vocab, m) : st;
}

void formats_model_close(formats_model *m)
{
    if (m->planned)
        plan_free(&m->plans);
    resolve_free(&m->spec);
    host_destroy(m->host);
    config_destroy(m->cfg);
    free(m->params.at);
    *m = (formats_model){0};
}

/* --- which family --- */

static const weft_model_format *format_of(const host_component *c, const char *format,
                                          const char *architecture)
{
    const weft_model_table *t = c->table;
    const weft_model_format *const *f = t ? t->formats : NULL;
    for (; f && *f; f++)
        if (!strcmp((*f)->format, format) && formats_is_of(*f, architecture))
            return *f;
    return NULL;
}

/* "GPT2LMHeadModel of gpt2, LlamaForCausalLM of llama" */
static void add_known(const host_component *c, const char *format, char *out, size_t capacity)
{
    const weft_model_table *t = c->table;
    for (const weft_model_format *const *f = t ? t->formats : NULL; f && *f; f++) {
        const size_t at = strlen(out);
        if (!strcmp((*f)->format, format))
            snprintf(out + at, capacity - at, "%s%s of %s", at ? ", " : "", (*f)->architecture,
                     c->name);
    }
}

static bool is_family(const host_component *c)
{
    return c->iface && !strcmp(c->kind, "model") && !strcmp(c->iface, "weft.model/1");
}

weft_status formats_find(host *h, const char *format, const char *architecture, const char *family,
                         const weft_model_format **out, const host_component **owner)
{
    static const char *const ifaces[] = {"weft.model/1", NULL};
    const host_component *one = NULL, **all = &one;
    uint32_t n = 1;
    char known[1024] = "";
    const weft_status st = family ? host_find(h, "model", family, ifaces, &one) : WEFT_OK;
    if (st != WEFT_OK)
        return st;
    if (!family)
        host_list(h, "model", &all, &n);
    *out = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_family(all[i]))
            continue;
        const weft_model_format *f = format_of(all[i], format, architecture);
        add_known(all[i], format, known, sizeof known);
        if (f && *out)
            return err_fail(WEFT_USAGE,
                            "the families %s and %s both have the architecture %s: say which, "
                            "with model.family=NAME",
                            (*owner)->name, all[i]->name, architecture);
        if (f) {
            *out = f;
            *owner = all[i];
        }
    }
    return *out ? WEFT_OK
                : err_fail(WEFT_USAGE,
                           "the field 'architectures' is %s, which no model family here has; known "
                           "are: %s",
                           architecture, *known ? known : "none");
}
