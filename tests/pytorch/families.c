/* families FAMILY [KEY=VALUE ...]: the tables of names of a model family, and the parameters that
 * it builds with these options. One item a line, its parts separated by tabs:
 *
 *   format NAME ARCHITECTURE PREFIX          tensor FLAGS PARAM NAME AXES
 *   field KEY FIELD DEFAULT VALUES           param NAME AXIS:SIZE ...
 *
 * "-" stands for NULL. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "config/config.h"
#include "graph/graph.h"
#include "host/host.h"

#include <weft/model.h>

static const char *or_dash(const char *text)
{
    return text ? text : "-";
}

static void print_format(const weft_model_format *f)
{
    printf("format\t%s\t%s\t%s\n", f->format, f->architecture, f->prefix);
    for (const weft_model_tensor *const *t = f->tensors; *t; t++)
        printf("tensor\t%u\t%s\t%s\t%s\n", (*t)->flags, or_dash((*t)->param), (*t)->name,
               or_dash((*t)->axes));
    for (const weft_model_field *const *x = f->fields; *x; x++)
        printf("field\t%s\t%s\t%s\t%s\n", or_dash((*x)->key), (*x)->field, or_dash((*x)->dflt),
               or_dash((*x)->values));
}

static weft_status print_params(host *h, const host_component *c, const weft_conf *conf)
{
    static const graph_mesh alone = {0};
    const weft_model_table *t = c->table;
    weft_model_info info = {.struct_size = sizeof info};
    graph g;
    weft_tensor loss;
    weft_status st = t->describe(c->module, conf, NULL, &info);
    if (st != WEFT_OK)
        return st;
    graph_init(&g, &alone, graph_ops_of(h), WEFT_F32, WEFT_F32);
    const weft_builder b = graph_builder(&g);
    const weft_model_args args = {.struct_size = sizeof args,
                                  .want = WEFT_MODEL_TRAIN,
                                  .vocab = info.vocab,
                                  .batch = 1,
                                  .sequence = 1,
                                  .weight = 1,
                                  .conf = conf};
    st = t->build(c->module, &args, &b, &loss);
    for (weft_tensor i = 1; st == WEFT_OK && i <= g.tensors.n; i++) {
        const graph_tensor *x = graph_tensor_at(&g, i);
        if (x->kind != WEFT_T_PARAM)
            continue;
        printf("param\t%s", x->name);
        for (uint32_t k = 0; k < x->shape.rank; k++)
            printf("\t%s:%lld", x->shape.axes[k].name, (long long)x->shape.axes[k].size);
        printf("\n");
    }
    graph_free(&g);
    return st;
}

static weft_status print_family(const char *name, char *const *options, int n)
{
    static const char *const ifaces[] = {"weft.model/1", NULL};
    host *h = NULL;
    config *cfg = NULL;
    const host_component *c;
    weft_status st = host_create(NULL, &h);
    if (st == WEFT_OK)
        st = host_use_ops(h);
    if (st == WEFT_OK)
        st = host_find(h, "model", name, ifaces, &c);
    if (st == WEFT_OK)
        st = host_open(h, c);
    if (st == WEFT_OK)
        st = config_load(NULL, NULL, 0, &cfg);
    if (st == WEFT_OK)
        st = config_add(cfg, "model", name, c->options);
    for (int i = 0; st == WEFT_OK && i < n; i++) {
        char key[128];
        const char *equals = strchr(options[i], '=');
        snprintf(key, sizeof key, "model.%.*s", (int)(equals ? equals - options[i] : 0),
                 options[i]);
        st = equals ? config_set(cfg, key, equals + 1, NULL)
                    : err_fail(WEFT_USAGE, "'%s' is not KEY=VALUE", options[i]);
    }
    if (st == WEFT_OK)
        st = config_check(cfg);
    if (st == WEFT_OK) {
        const weft_model_table *t = c->table;
        print_format(t->formats[0]); /* the plain one of Hugging Face */
        st = print_params(h, c, config_conf(cfg, "model", c->own));
    }
    config_destroy(cfg);
    host_destroy(h);
    return st;
}

int main(int argc, char **argv)
{
    weft_status st = argc > 1 ? print_family(argv[1], argv + 2, argc - 2)
                              : err_fail(WEFT_USAGE, "usage: families FAMILY [KEY=VALUE ...]");
    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", err_text());
    return err_exit_code(st);
}
