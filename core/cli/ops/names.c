/* cli/ops/names.c: the names of the ABI besides ops: mesh axes from the strategies that are
 * installed, parameters from the graphs of the model families, the rest from graph/describe. */
#include "cli/ops/ops.h"

#include "graph/describe/names.h"
#include "graph/model/model.h"

#include <stdio.h>
#include <string.h>

static const char *const families[] = {"gpt2", "llama"};
#define FAMILIES (sizeof families / sizeof *families)

/* The graph of a family with one layer and unlike sizes, training an untied head. */
static weft_status build(const char *family, const mesh *m, graph *g)
{
    const graph_model_options o = {.family = family,
                                   .layers = 1,
                                   .heads = 4,
                                   .kv_heads = strcmp(family, "gpt2") ? 2 : 4,
                                   .embed = 32,
                                   .ffn = 64,
                                   .context = 16,
                                   .vocab = 48,
                                   .tied = 0,
                                   .batch = 1,
                                   .sequence = 8,
                                   .weight = 1,
                                   .want = MODEL_TRAIN};
    weft_tensor loss;
    graph_init(g, m, WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(g);
    weft_status st = graph_model_build(&b, &o, &loss);
    if (st != WEFT_OK)
        graph_free(g);
    return st;
}

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

/* Parameters and inputs of one family, in the order in which it makes them. */
static weft_status family_json(const char *family, json_t **out)
{
    const mesh m = {0};
    graph g;
    char text[WEFT_MAX_NAME];
    weft_status st = build(family, &m, &g);
    if (st != WEFT_OK)
        return st;
    json_t *params = json_array(), *inputs = json_array(), *blocks = json_array();
    for (weft_tensor i = 1; i <= g.tensors.n; i++) {
        const tensor *t = graph_tensor(&g, i);
        if (t->kind == WEFT_T_PARAM)
            json_array_append_new(params, json_pack("{s:s, s:o, s:s?, s:b, s:b}", "name",
                                                    numbered(t->name, text), "axes",
                                                    axes_of(&t->shape), "role", t->role, "matrix",
                                                    !!(t->flags & WEFT_PARAM_MATRIX), "pad",
                                                    !!(t->flags & WEFT_PARAM_PAD)));
        if (t->kind == WEFT_T_INPUT)
            json_array_append_new(
                inputs, json_pack("{s:s, s:o}", "name", t->name, "axes", axes_of(&t->shape)));
    }
    for (uint32_t i = 0; i < g.blocks.n; i++)
        json_array_append_new(blocks, json_string(numbered(g.blocks.at[i], text)));
    graph_free(&g);
    *out = json_pack("{s:s, s:o, s:o, s:o}", "name", family, "blocks", blocks, "inputs", inputs,
                     "params", params);
    return WEFT_OK;
}

static json_t *list_json(const graph_name *list)
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
        const component *c = s->plugins[i];
        const weft_strategy *t = c->iface && !strcmp(c->iface, "weft.strategy/1") ? c->table : NULL;
        for (uint32_t k = 0; t && t->axes && t->axes[k]; k++)
            json_array_append_new(a, json_pack("{s:s, s:s, s:s, s:s}", "name", t->axes[k]->name,
                                               "meaning", t->axes[k]->help, "strategy", c->name,
                                               "key", t->axes[k]->size_key));
    }
    return a;
}

weft_status cli_ops_names_json(const ops_source *s, json_t **out)
{
    json_t *all = json_array();
    for (size_t i = 0; i < FAMILIES; i++) {
        json_t *one;
        weft_status st = family_json(families[i], &one);
        if (st != WEFT_OK) {
            json_decref(all);
            return st;
        }
        json_array_append_new(all, one);
    }
    *out = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "mesh_axes", mesh_json(s),
                     "axes", list_json(graph_names_axes), "inputs", list_json(graph_names_inputs),
                     "scalars", list_json(graph_names_scalars), "reserved_scalars",
                     list_json(graph_names_reserved), "blocks", list_json(graph_names_blocks),
                     "nodes", list_json(graph_names_nodes), "device_ops",
                     list_json(graph_names_device), "families", all);
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

static void print_family(json_t *family)
{
    size_t i, k;
    json_t *p, *a;
    printf("\n### %s\n\n| parameter | axes | role | flags |\n|---|---|---|---|\n",
           json_string_value(json_object_get(family, "name")));
    json_array_foreach (json_object_get(family, "params"), i, p) {
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

weft_status cli_ops_names_page(const ops_source *s)
{
    size_t i;
    json_t *names, *family;
    weft_status st = cli_ops_names_json(s, &names);
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
    json_array_foreach (json_object_get(names, "families"), i, family)
        print_family(family);
    json_decref(names);
    return WEFT_OK;
}
