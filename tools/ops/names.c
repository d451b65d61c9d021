/* ops/names.c: the names of the ABI besides ops: mesh axes from the strategies that are
 * installed, parameters from the graphs that the model families build, the rest from
 * graph/describe.
 *
 * A family is built with its defaults, and again with every other choice of each of its options, so
 * that parameters which a choice brings are listed, too. */
#include "ops/ops.h"

#include "base/err.h"
#include "config/config.h"
#include "describe/names.h"
#include "host/call.h"

#include <stdio.h>
#include <string.h>
#include <weft/model.h>

/* "block.0.ffn.in.w" as "block.N.ffn.in.w" */
static const char *numbered(const char *name, char text[WEFT_MAX_NAME])
{
    const size_t at = strlen("block.");
    if (strncmp(name, "block.", at))
        return name;
    const size_t digits = strspn(name + at, "0123456789");
    snprintf(text, WEFT_MAX_NAME, "block.N%.48s", name + at + digits);
    return text;
}

static json_t *axes_of(const weft_shape *s)
{
    json_t *a = json_array();
    for (uint32_t k = 0; k < s->rank; k++)
        json_array_append_new(a, json_string(s->axes[k].name));
    return a;
}

/* What has been seen of one family. */
typedef struct family {
    const host_component *c;
    graph_ops ops;
    json_t *blocks, *inputs, *params;
} family;

static bool has(const json_t *list, const char *name)
{
    size_t i;
    json_t *o;
    json_array_foreach (list, i, o) {
        const char *known = json_is_string(o) ? json_string_value(o)
                                              : json_string_value(json_object_get(o, "name"));
        if (!strcmp(known, name))
            return true;
    }
    return false;
}

/* Add the names of a graph in the order in which it was built. */
static void add_names(family *f, const graph *g)
{
    char text[WEFT_MAX_NAME];
    for (weft_tensor i = 1; i <= g->tensors.n; i++) {
        const graph_tensor *t = graph_tensor_at(g, i);
        const char *name = numbered(t->name, text);
        if (t->kind == WEFT_T_PARAM && !has(f->params, name))
            json_array_append_new(f->params, json_pack("{s:s, s:o, s:s?, s:b, s:b}", "name", name,
                                                       "axes", axes_of(&t->shape), "role", t->role,
                                                       "matrix", !!(t->flags & WEFT_PARAM_MATRIX),
                                                       "pad", !!(t->flags & WEFT_PARAM_PAD)));
        if (t->kind == WEFT_T_INPUT && !has(f->inputs, name))
            json_array_append_new(
                f->inputs, json_pack("{s:s, s:o}", "name", name, "axes", axes_of(&t->shape)));
    }
    for (uint32_t i = 0; i < g->blocks.n; i++) {
        const char *name = numbered(g->blocks.at[i], text);
        if (!has(f->blocks, name))
            json_array_append_new(f->blocks, json_string(name));
    }
}

/* The graph for training one sample, at most 8 rows long, of a family that needs no data. */
static weft_status build(family *f, config *cfg)
{
    const weft_model_table *table = f->c->table;
    const weft_conf *conf = config_conf(cfg, "model", f->c->own);
    weft_model_info info = {.struct_size = sizeof info};
    weft_status st = PLUGIN_CALL(table, describe, f->c->module, conf, NULL, &info);
    if (st != WEFT_OK)
        return st;
    const graph_mesh alone = {0};
    const weft_model_args args = {.struct_size = sizeof args,
                                  .want = WEFT_MODEL_TRAIN,
                                  .vocab = info.vocab,
                                  .batch = 1,
                                  .sequence =
                                      info.context > 0 && info.context < 8 ? info.context : 8,
                                  .weight = 1,
                                  .conf = conf};
    graph g;
    weft_tensor loss = 0;
    graph_init(&g, &alone, f->ops, WEFT_F32, WEFT_F32);
    g.rows = args.batch * args.sequence;
    const weft_builder b = graph_builder(&g);
    st = PLUGIN_CALL(table, build, f->c->module, &args, &b, &loss);
    if (st == WEFT_OK)
        add_names(f, &g);
    graph_free(&g);
    return st;
}

/* The same with one option set; a value that the family refuses beside its defaults adds nothing.
 */
static void build_with(family *f, const char *key, const char *value)
{
    config *cfg;
    char full[128];
    snprintf(full, sizeof full, "model.%s", key);
    if (config_load(NULL, NULL, 0, &cfg) != WEFT_OK)
        return;
    weft_status st = config_add(cfg, "model", f->c->name, f->c->options);
    if (st == WEFT_OK)
        st = config_set(cfg, full, value, NULL);
    if (st == WEFT_OK)
        st = config_check(cfg);
    if (st == WEFT_OK)
        st = build(f, cfg);
    config_destroy(cfg);
    err_clear();
}

static void build_choices(family *f)
{
    for (const weft_option *const *o = f->c->options; *o; o++) {
        const char *choices = (*o)->type == WEFT_OPT_CHOICE ? (*o)->choices
                              : (*o)->type == WEFT_OPT_BOOL ? "on|off"
                                                            : "";
        for (char word[WEFT_MAX_NAME]; *choices; choices += *choices == '|') {
            const size_t n = strcspn(choices, "|");
            snprintf(word, sizeof word, "%.*s", (int)n, choices);
            build_with(f, (*o)->key, word);
            choices += n;
        }
    }
}

/* Parameters and inputs of one family; *out is NULL if it cannot be built without data. */
static weft_status family_json(const ops_source *s, const host_component *c, json_t **out)
{
    config *cfg;
    weft_status st = host_open(s->host, c);
    if (st == WEFT_OK)
        st = config_load(NULL, NULL, 0, &cfg);
    if (st != WEFT_OK)
        return st;
    family f = {c, graph_ops_of(s->host), json_array(), json_array(), json_array()};
    st = config_add(cfg, "model", c->name, c->options);
    const bool built = st == WEFT_OK && build(&f, cfg) == WEFT_OK;
    config_destroy(cfg);
    if (built)
        build_choices(&f);
    err_clear();
    *out = json_pack("{s:s, s:o, s:o, s:o}", "name", c->name, "blocks", f.blocks, "inputs",
                     f.inputs, "params", f.params);
    if (!built) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}

static json_t *list_json(const describe_name *list)
{
    json_t *a = json_array();
    for (; list->name; list++)
        json_array_append_new(
            a, json_pack("{s:s, s:s}", "name", list->name, "meaning", list->meaning));
    return a;
}

static json_t *mesh_json(const ops_source *s)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < s->nplugins; i++) {
        const host_component *c = s->plugins[i];
        const weft_strategy *t = c->iface && !strcmp(c->iface, "weft.strategy/1") ? c->table : NULL;
        for (uint32_t k = 0; t && t->axes && t->axes[k]; k++)
            json_array_append_new(a, json_pack("{s:s, s:s, s:s, s:s}", "name", t->axes[k]->name,
                                               "meaning", t->axes[k]->help, "strategy", c->name,
                                               "key", t->axes[k]->size_key));
    }
    return a;
}

weft_status ops_names_json(const ops_source *s, json_t **out)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < s->nplugins; i++) {
        const host_component *c = s->plugins[i];
        json_t *one = NULL;
        if (!c->iface || strcmp(c->iface, "weft.model/1"))
            continue;
        weft_status st = family_json(s, c, &one);
        if (st != WEFT_OK) {
            json_decref(all);
            return st;
        }
        if (one)
            json_array_append_new(all, one);
    }
    *out = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "mesh_axes", mesh_json(s),
                     "axes", list_json(describe_names_axes), "inputs",
                     list_json(describe_names_inputs), "scalars", list_json(describe_names_scalars),
                     "reserved_scalars", list_json(describe_names_reserved), "blocks",
                     list_json(describe_names_blocks), "nodes", list_json(describe_names_nodes),
                     "device_ops", list_json(describe_names_device), "families", all);
    return WEFT_OK;
}

/* --- the page --- */

static void print_list(const char *title, const char *text, const char *what, json_t *list)
{
    size_t i;
    json_t *o;
    printf("\n## %s\n\n%s\n\n| %s | meaning |\n|---|---|\n", title, text, what);
    json_array_foreach (list, i, o)
        printf("| `%s` | %s |\n", json_string_value(json_object_get(o, "name")),
               json_string_value(json_object_get(o, "meaning")));
}

static void print_mesh(json_t *list)
{
    size_t i;
    json_t *o;
    const char *name, *meaning, *strategy, *key;
    printf(
        "\n## Mesh axes\n\nThose of the strategies that come with weft. A strategy of another "
        "author names its own.\n\n| mesh axis | strategy | key | meaning |\n|---|---|---|---|\n");
    json_array_foreach (list, i, o)
        if (!json_unpack(o, "{s:s, s:s, s:s, s:s}", "name", &name, "meaning", &meaning, "strategy",
                         &strategy, "key", &key))
            printf("| `%s` | `%s` | `parallel.%s` | %s |\n", name, strategy, key, meaning);
}

static void print_family(json_t *f)
{
    size_t i, k;
    json_t *p, *a;
    printf("\n### %s\n\n| parameter | axes | role | flags |\n|---|---|---|---|\n",
           json_string_value(json_object_get(f, "name")));
    json_array_foreach (json_object_get(f, "params"), i, p) {
        const char *role = json_string_value(json_object_get(p, "role"));
        const bool matrix = json_is_true(json_object_get(p, "matrix"));
        const bool pad = json_is_true(json_object_get(p, "pad"));
        printf("| `%s` | [", json_string_value(json_object_get(p, "name")));
        json_array_foreach (json_object_get(p, "axes"), k, a)
            printf("%s%s", k ? ", " : "", json_string_value(a));
        printf("] | %s | %s%s%s |\n", role ? role : "", matrix ? "matrix" : "",
               matrix && pad ? ", " : "", pad ? "pad" : "");
    }
}

weft_status ops_names_page(const ops_source *s)
{
    size_t i;
    json_t *names, *f;
    weft_status st = ops_names_json(s, &names);
    if (st != WEFT_OK)
        return st;
    print_list("Nodes that compute nothing",
               "`weft_view.op()` shows communication and assignments under these ids.", "id",
               json_object_get(names, "nodes"));
    print_list(
        "Ops of devices",
        "A device gets the ops above, and these. A chain of ops that it fuses has the id that "
        "it gives it.",
        "id", json_object_get(names, "device_ops"));
    print_mesh(json_object_get(names, "mesh_axes"));
    print_list("Axes of tensors", "Names of axes in the model families.", "axis",
               json_object_get(names, "axes"));
    print_list("Inputs",
               "All but first_token are int32 [tokens]. The core fills them for each micro-batch.",
               "input", json_object_get(names, "inputs"));
    print_list("Scalars",
               "What `builder.scalar()` gives by name; all are one fp32, and the core writes them.",
               "scalar", json_object_get(names, "scalars"));
    print_list("Scalars of the core's own", "Names that a plugin's scalar cannot have.", "scalar",
               json_object_get(names, "reserved_scalars"));
    print_list("Blocks", "The same in all families.", "block", json_object_get(names, "blocks"));
    printf("\n## Parameters\n\n`N` is the number of a layer. `head.w` is absent where the head is "
           "tied to the embedding. The flags are `WEFT_PARAM_MATRIX` and `WEFT_PARAM_PAD`.\n"
           "A role says what a parameter is for, equally in all families.\n");
    json_array_foreach (json_object_get(names, "families"), i, f)
        print_family(f);
    json_decref(names);
    return WEFT_OK;
}
