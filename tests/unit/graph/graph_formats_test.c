/* Does every parameter of a family have one row in its tables of names, with the parameter's axes?
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "family.h"

static const graph_mesh alone = {0};

/* The rows whose param is `name`, in which '*' is a number; *row is the last. */
static uint32_t rows_of(const weft_model_format *f, const char *name, const weft_model_tensor **row)
{
    uint32_t n = 0;
    for (const weft_model_tensor *const *t = f->tensors; *t; t++) {
        if (!(*t)->param)
            continue;
        const char *star = strchr((*t)->param, '*'), *p = name;
        const size_t before = star ? (size_t)(star - (*t)->param) : 0;
        if (star && strncmp(name, (*t)->param, before))
            continue;
        p += before;
        const size_t digits = star ? strspn(p, "0123456789") : 0;
        if ((star && !digits) || strcmp(p + digits, star ? star + 1 : (*t)->param))
            continue;
        *row = *t;
        n++;
    }
    return n;
}

/* The axes of a row are those of the parameter, each once, in any order. */
static void expect_axes(const graph_tensor *t, const char *axes)
{
    uint64_t seen = 0;
    uint32_t n = 0;
    while (axes && *axes) {
        axes += strspn(axes, " ()");
        const size_t length = strcspn(axes, " ()");
        for (uint32_t k = 0; k < t->shape.rank; k++)
            if (strlen(t->shape.axes[k].name) == length &&
                !strncmp(t->shape.axes[k].name, axes, length))
                seen |= (uint64_t)1 << k;
        n++;
        axes += length;
        axes += strspn(axes, " ()");
    }
    if (n && (n != t->shape.rank || seen != ((uint64_t)1 << n) - 1))
        fail_msg("the axes of the row of %s are not those of the parameter", t->name);
}

static void every_parameter(const char *family, const char *architecture, bool tied)
{
    const family_options o = {.family = family,
                              .layers = 11,
                              .heads = 4,
                              .kv_heads = 4,
                              .embed = 16,
                              .ffn = 12,
                              .context = 6,
                              .vocab = 9,
                              .tied = tied,
                              .batch = 1,
                              .sequence = 3,
                              .weight = 1};
    const host_component *c = family_component(family);
    const weft_model_table *table = c->table;
    const weft_model_format *f = table->formats[0];
    graph g;
    weft_tensor loss;
    uint32_t used = 0, rows = 0;
    bool seen[64] = {0};
    assert_string_equal(f->format, "huggingface");
    assert_string_equal(f->architecture, architecture);
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    assert_int_equal(family_build(&b, &o, &loss), WEFT_OK);
    for (weft_tensor i = 1; i <= g.tensors.n; i++) {
        const graph_tensor *t = graph_tensor_at(&g, i);
        const weft_model_tensor *row = NULL;
        if (t->kind != WEFT_T_PARAM)
            continue;
        if (rows_of(f, t->name, &row) != 1)
            fail_msg("%s has %u rows", t->name, rows_of(f, t->name, &row));
        expect_axes(t, row->axes);
        for (uint32_t k = 0; f->tensors[k]; k++)
            seen[k] |= f->tensors[k] == row;
    }
    for (uint32_t i = 0; f->tensors[i]; i++) {
        rows += f->tensors[i]->param != NULL;
        used += seen[i];
    }
    assert_int_equal(used, rows - tied); /* a tied head has no parameter of its own */
    graph_free(&g);
}

/* Every option but those that are no part of the weights is in the other program's configuration,
 * and every default that is given there is one that it knows. */
static void every_option(const char *family)
{
    const host_component *c = family_component(family);
    const weft_model_table *table = c->table;
    const weft_model_format *f = table->formats[0];
    for (const weft_option *const *o = c->options; *o; o++) {
        uint32_t n = 0;
        for (uint32_t i = 0; f->fields[i]; i++)
            n += f->fields[i]->key && !strcmp(f->fields[i]->key, (*o)->key);
        const bool none = !strcmp((*o)->key, "dropout") ||
                          (!strcmp(family, "gpt2") &&
                           (!strcmp((*o)->key, "kv_heads") || !strcmp((*o)->key, "rope_theta") ||
                            !strcmp((*o)->key, "positions")));
        if (n != !none)
            fail_msg("%s: the option %s has %u fields", family, (*o)->key, n);
    }
}

TEST(gpt2)
{
    every_parameter("gpt2", "GPT2LMHeadModel", false);
    every_parameter("gpt2", "GPT2LMHeadModel", true);
    every_option("gpt2");
}

TEST(llama)
{
    every_parameter("llama", "LlamaForCausalLM", false);
    every_parameter("llama", "LlamaForCausalLM", true);
    every_option("llama");
}
