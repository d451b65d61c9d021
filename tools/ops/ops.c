/* ops/ops.c: weft ops [NAME], the vocabulary of ops: what each takes, and what its functions
 * answer. See describe/describe.h. */
#include "ops/ops.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "config/config.h"
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct vocabulary {
    host *h;
    const host_component **all; /* of every interface */
    uint32_t n;
    ops_facts *facts; /* one at a time */
} vocabulary;

static bool is_op(const host_component *c)
{
    return c->iface && !strcmp(c->iface, "weft.op/1");
}

/* Whether it comes with weft. */
static bool is_own(const vocabulary *w, const host_component *c)
{
    const host_component *own = host_own_op(w->h, 0);
    return own && c->manifest == own->manifest;
}

/* One of weft's own before those of other plugins; NULL: none has the name. */
static const host_component *named(const vocabulary *w, const char *id)
{
    const host_component *found = NULL;
    for (uint32_t i = 0; i < w->n; i++)
        if (is_op(w->all[i]) && !strcmp(w->all[i]->name, id) && (!found || is_own(w, w->all[i])))
            found = w->all[i];
    return found;
}

/* For the graph of an example. */
static const weft_op *find_op(void *ctx, const char *id, weft_op_self *self)
{
    const vocabulary *w = ctx;
    const host_component *c = named(w, id);
    if (!c || host_open(w->h, c) != WEFT_OK)
        return NULL;
    self->module = c->module;
    self->conf = c->no_options;
    return c->table;
}

/* Ask the op about every example of its doc. An op without a doc is known by name alone. */
static weft_status learn(vocabulary *w, const host_component *c)
{
    ops_facts *f = w->facts;
    describe_doc_call calls[GRAPH_DOC_CALLS];
    memset(f, 0, sizeof *f);
    f->id = c->name;
    f->op = c->table;
    f->from = is_own(w, c) ? NULL : c;
    weft_status st = describe_doc_read(f->id, f->op, &f->doc);
    if (st == WEFT_ABSENT)
        return WEFT_OK;
    f->documented = st == WEFT_OK;
    f->n = st == WEFT_OK ? describe_doc_calls(&f->doc, calls) : 0;
    for (uint32_t i = 0; st == WEFT_OK && i < f->n; i++) {
        ops_variant *v = &f->variant[i];
        v->call = calls[i];
        v->call.ops = (graph_ops){find_op, w};
        st = describe_doc_placements(&v->call, v->row, &v->nrows);
        if (st == WEFT_OK)
            st = describe_doc_gradients(&v->call, &v->gradient);
    }
    if (st != WEFT_OK && f->documented)
        err_context("op %s does not take the operands of its own doc", f->id);
    f->documented &= st == WEFT_OK;
    return st;
}

/* An op of a plugin whose doc is wrong is listed by its name; a warning says what is wrong. */
static void set_aside(const host_component *c)
{
    log_line(WEFT_LOG_WARN, "%s, %s: %s", c->name, c->path, err_text());
    err_clear();
}

static weft_status visit_all(void *ctx, ops_visit visit, void *user)
{
    vocabulary *w = ctx;
    weft_status st = WEFT_OK;
    const host_component *c;
    for (uint32_t i = 0; st == WEFT_OK && (c = host_own_op(w->h, i)); i++) {
        st = learn(w, c);
        if (st == WEFT_OK)
            st = visit(w->facts, user);
    }
    for (uint32_t i = 0; st == WEFT_OK && i < w->n; i++)
        if (is_op(w->all[i]) && !is_own(w, w->all[i])) {
            if (learn(w, w->all[i]) != WEFT_OK)
                set_aside(w->all[i]);
            st = visit(w->facts, user);
        }
    return st;
}

static weft_status print_line(const ops_facts *f, void *user)
{
    (void)user;
    printf("%-18s %s%s%s\n", f->id, f->documented ? f->doc.text.help : f->from->help,
           f->from ? "; of " : "", f->from ? f->from->manifest->id : "");
    return WEFT_OK;
}

static weft_status append(const ops_facts *f, void *user)
{
    json_array_append_new(user, ops_json(f));
    return WEFT_OK;
}

static weft_status print_json(json_t *o)
{
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(o);
    if (!text)
        return err_fail(WEFT_NO_MEMORY, "no memory for the JSON of the ops");
    puts(text);
    free(text);
    return WEFT_OK;
}

static weft_status print_all_json(const ops_source *s)
{
    json_t *ops = json_array(), *names = NULL;
    weft_status st = s->all(s->ctx, append, ops);
    if (st == WEFT_OK)
        st = ops_names_json(s, &names);
    if (st == WEFT_OK)
        return print_json(json_pack("{s:o, s:o}", "ops", ops, "names", names));
    json_decref(ops);
    return st;
}

static weft_status no_such_op(const vocabulary *w, const char *name)
{
    const char *known[512] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; n < 512 && i < w->n; i++)
        if (is_op(w->all[i]))
            known[n++] = w->all[i]->name;
    const char *near = config_nearest(name, known, n);
    return err_fail(WEFT_USAGE, "no op is named '%s'%s%s%s; `weft ops` lists all%s", name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                    strchr(name, '.') ? "; one of a plugin is found with "
                                        "run.plugins=FOLDER or WEFT_PLUGIN_PATH"
                                      : "");
}

static weft_status print_one(vocabulary *w, const char *name, bool json)
{
    const host_component *c = named(w, name);
    if (!c)
        return no_such_op(w, name);
    weft_status st = learn(w, c);
    if (st == WEFT_OK && json)
        return print_json(ops_json(w->facts));
    if (st == WEFT_OK)
        ops_text(w->facts);
    return st;
}

static weft_status answer(vocabulary *w, const char *name, bool json, bool page)
{
    const ops_source s = {visit_all, w, w->h, w->all, w->n};
    if (name)
        return print_one(w, name, json);
    return json ? print_all_json(&s) : page ? ops_page(&s) : visit_all(w, print_line, NULL);
}

static int run(int argc, char **argv)
{
    vocabulary w = {0};
    config *cfg = NULL;
    const char *name = NULL;
    bool json = false, page = false;
    int n = 1;
    for (int i = 1; i < argc; i++) {
        const bool is_json = !strcmp(argv[i], "--json"), is_page = !strcmp(argv[i], "--markdown");
        if (*argv[i] == '-' && !is_json && !is_page)
            return cli_refuse(&cli_cmd_ops, argv[i], NULL);
        json |= is_json;
        page |= is_page;
        if (!is_json && !is_page)
            argv[n++] = argv[i];
    }
    weft_status st = cli_read_words(n, argv, &name, &cfg);
    if (st == WEFT_OK && page && (json || name))
        st = err_fail(WEFT_USAGE, "--markdown writes the page of all ops: it goes with neither "
                                  "--json nor a name");
    if (st == WEFT_OK)
        st = host_create(cfg ? config_raw(cfg, "run.plugins") : NULL, &w.h);
    if (st == WEFT_OK)
        st = host_use_ops(w.h);
    if (st == WEFT_OK)
        host_list(w.h, NULL, &w.all, &w.n);
    w.facts = mem_alloc(sizeof *w.facts);
    if (st == WEFT_OK)
        st = answer(&w, name, json, page);
    free(w.facts);
    host_destroy(w.h);
    config_destroy(cfg);
    return cli_fail(st);
}

const cli_command cli_cmd_ops = {
    "ops", "[NAME] [JOB.ini] [section.key=value ...] [--json | --markdown]",
    "List the ops that graphs are built of, or say what one takes, makes and allows.\n\n"
    "Operands and attributes are from the op's doc (weft/op.h); how placements pass and which\n"
    "inputs get a gradient is what its functions answer for an example.\n\n"
    "  JOB.ini          ops of the plugins in its run.plugins, too; run.plugins=DIR does the same\n"
    "  --json           as JSON; of all ops with the other names of the ABI (axes, inputs, ...)\n"
    "  --markdown       the page docs/OPS.md",
    run, NULL};
