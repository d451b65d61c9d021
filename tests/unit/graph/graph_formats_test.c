/* Has every option of a family a field in its tables for other programs?
 *
 * The tables' names and axes are asked by tests/hf, which imports and exports models by them. */
#include <string.h>

#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "family.h"

/* But those that are no part of the weights. */
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
    every_option("gpt2");
}

TEST(llama)
{
    every_option("llama");
}
