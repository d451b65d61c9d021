/* check/rule/graph.c: builds the graph of one parameter's update, as the core does, and compares
 * two. Opens and closes the module of a rule. */
#include "base/err.h"
#include "check/rule/rule.h"

#include <stdio.h>
#include <string.h>

/* --- rules --- */

static check_host lent;

void check_rule_set(check_rule *of, const char *key, const char *value, const char *also,
                    const char *also_value)
{
    check_host *h = of->host;
    h->set_of = key ? of->c : NULL;
    h->set_key = key;
    h->set_value = value;
    h->also_key = also;
    h->also_value = also_value;
    of->conf = check_conf(h, of->c);
    of->set[0] = 0;
    if (key)
        snprintf(of->set, sizeof of->set,
                 also ? " with %s = %.50s and %s = %.50s" : " with %s = %.50s", key, value, also,
                 also_value);
}

void check_rule_each(check_run *r, void (*fn)(check_rule *of))
{
    const weft_manifest *m = check_manifest(r);
    for (uint32_t i = 0; i < r->n; i++) {
        check_rule of = {.run = r, .host = &lent, .c = r->components[i]};
        of.table = of.c->table;
        if (strcmp(of.c->iface, "weft.rule/1"))
            continue;
        check_host_begin(&lent, "the host");
        if (check_open(m, &lent, &of.module) != WEFT_OK)
            check_fail("open() failed: %s", lent.why);
        of.conf = check_conf(&lent, of.c);
        fn(&of);
        check_close(m, of.module);
        check_host_end(&lent);
    }
}

void check_rule_reopen(check_rule *of)
{
    const weft_manifest *m = check_manifest(of->run);
    check_close(m, of->module);
    if (check_open(m, of->host, &of->module) != WEFT_OK)
        check_fail("open() failed after a close(): %s", of->host->why);
}

bool check_rule_value(const weft_option *o, uint32_t i, char *out, size_t size)
{
    const bool whole =
        o->type == WEFT_OPT_INT || o->type == WEFT_OPT_BYTES || o->type == WEFT_OPT_AUTO_INT;
    if (o->type == WEFT_OPT_BOOL) {
        snprintf(out, size, "%s", i ? "on" : "off");
        return i < 2;
    }
    if (o->type == WEFT_OPT_CHOICE) {
        const char *at = o->choices;
        for (; i && *at; i--)
            at += strcspn(at, "|"), at += *at == '|';
        snprintf(out, size, "%.*s", (int)strcspn(at, "|"), at);
        return *at;
    }
    const bool number = whole || o->type == WEFT_OPT_REAL || o->type == WEFT_OPT_REALS;
    if (i > 1 || !number || (o->min == 0 && o->max == 0))
        return false;
    uint32_t n = 1;
    for (const char *at = o->type == WEFT_OPT_REALS && o->dflt ? o->dflt : ""; *at; at++)
        n += *at == ',';
    for (size_t used = 0; n && used < size; n--)
        used += (size_t)snprintf(out + used, size - used, whole ? "%.0f%s" : "%.17g%s",
                                 i ? o->max : o->min, n > 1 ? ", " : "");
    return true;
}

void check_rule_values(check_rule *of, void (*fn)(check_rule *of))
{
    char value[256];
    check_rule_set(of, NULL, NULL, NULL, NULL);
    fn(of);
    for (const weft_option *const *o = of->c->options; *o; o++)
        for (uint32_t i = 0; check_rule_value(*o, i, value, sizeof value); i++) {
            check_rule_set(of, (*o)->key, value, NULL, NULL);
            fn(of);
        }
    check_rule_set(of, NULL, NULL, NULL, NULL);
}

void check_rule_gradient(const check_rule *of, uint32_t step, double scale, double *out, uint32_t n)
{
    uint64_t state = of->run->seed * 1000003 + step;
    for (uint32_t i = 0; i < n; i++) {
        const double u = (double)(check_random(&state) >> 11) * 0x1p-53;
        out[i] = (double)(float)(scale * (i % 2 ? -0.2 - u : 0.2 + u));
    }
}

/* --- graphs --- */

const char *check_rule_why(const check_rule *of)
{
    return of->host->why[0] ? of->host->why : err_text();
}

static weft_shape shape_of(const check_rule *of, const check_rule_ask *ask)
{
    static const char *const names[] = {"ffn", "embed", "heads"};
    weft_shape s = {.dtype = WEFT_F32, .rank = ask->n};
    uint32_t all = 1;
    for (uint32_t i = 0; i < ask->n; i++) {
        s.axes[i] = (weft_axis){names[i], ask->size[i]};
        all *= ask->size[i];
    }
    if (of->table->unit == WEFT_UNIT_ELEMENT) {
        s.rank = 1;
        s.axes[0] = (weft_axis){"elements", all};
    }
    return s;
}

static weft_status write_update(check_rule *of, const check_rule_ask *ask, check_rule_graph *x)
{
    graph *g = &x->g;
    const weft_builder b = graph_builder(g);
    weft_tensor clip = 0;
    weft_update u = {.struct_size = sizeof u,
                     .flags = ask->flags,
                     .name = ask->name ? ask->name : "p",
                     .param = x->param,
                     .role = of->table->unit == WEFT_UNIT_ELEMENT ? NULL : ask->role};
    weft_status st = b.scalar(b.ctx, "clip", 0, &clip);
    if (st == WEFT_OK)
        st = b.scalar(b.ctx, "lr", 0, &u.lr);
    if (st == WEFT_OK)
        st = b.scalar(b.ctx, "count", 0, &u.count);
    const weft_tensor both[2] = {x->grad, clip};
    if (st == WEFT_OK)
        st = b.op(b.ctx, "mul", NULL, 0, both, 2, 0, &u.grad, 1);
    if (st != WEFT_OK)
        check_fail("the check cannot build a graph: %s", err_text());
    g->now.state_of = "p";
    g->now.by_element = of->table->unit == WEFT_UNIT_ELEMENT;
    st = PLUGIN_GET(of->table, update, of->module, of->conf, &b, &u);
    return st == WEFT_OK ? b.scalar(b.ctx, "gate", 0, &x->gate) : st;
}

/* A state is split where the axis of its parameter is. */
static weft_status split(check_rule_graph *x)
{
    graph *g = &x->g;
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        graph_tensor *s = graph_tensor_at(g, t);
        for (uint32_t i = 0; s->kind == WEFT_T_STATE && i < s->shape.rank; i++)
            if (s->follows[i] == 1)
                s->place[0] = (weft_place){WEFT_SPLIT, i, 0, 0};
    }
    return graph_propagate(g, 0);
}

weft_status check_rule_build(check_rule *of, const check_rule_ask *ask, check_rule_graph *out)
{
    const weft_shape s = shape_of(of, ask);
    memset(out, 0, sizeof *out);
    if (ask->ranks)
        out->ranks = (graph_mesh){1, {"check"}, {ask->ranks}};
    err_clear();
    check_host_clear(of->host);
    graph_init(&out->g, &out->ranks, graph_ops_of(of->run->h), WEFT_F32, WEFT_F32);
    out->param = graph_add(&out->g, "p", WEFT_T_PARAM, &s);
    out->grad = graph_add(&out->g, "g", WEFT_T_ACTIVATION, &s);
    for (weft_tensor t = 1; ask->ranks && t <= 2; t++)
        graph_tensor_at(&out->g, t)->place[0] = (weft_place){WEFT_SPLIT, 0, 0, 0};
    weft_status st = write_update(of, ask, out);
    if (st == WEFT_OK && ask->ranks)
        st = split(out);
    if (st != WEFT_OK && !*check_rule_why(of))
        check_fail("update() of '%s'%s returned %s without a sentence", of->c->name, of->set,
                   check_status(st));
    return st;
}

void check_rule_must(check_rule *of, const check_rule_ask *ask, check_rule_graph *out)
{
    const weft_status st = check_rule_build(of, ask, out);
    if (st != WEFT_OK)
        check_fail("update() of '%s'%s returned %s for a parameter of %u axes, the first of %u: %s",
                   of->c->name, of->set, check_status(st), ask->n, ask->size[0],
                   check_rule_why(of));
}

/* --- comparing --- */

static bool same_shape(const weft_shape *a, const weft_shape *b, bool sizes)
{
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = !strcmp(a->axes[i].name, b->axes[i].name) &&
               (!sizes || a->axes[i].size == b->axes[i].size);
    return same;
}

static bool same_attrs(const graph_node *a, const graph_node *b)
{
    bool same = a->nattr == b->nattr;
    for (uint32_t i = 0; same && i < a->nattr; i++) {
        const weft_attr *x = &a->attrs[i], *y = &b->attrs[i];
        same = !strcmp(x->key, y->key) && x->i == y->i && !memcmp(&x->f, &y->f, sizeof x->f) &&
               x->bytes == y->bytes && (!x->bytes || !memcmp(x->data, y->data, x->bytes));
    }
    return same;
}

static bool same_node(const graph_node *a, const graph_node *b)
{
    return !strcmp(a->id, b->id) && a->assign == b->assign && a->nin == b->nin &&
           a->nout == b->nout && !memcmp(a->in, b->in, a->nin * sizeof *a->in) &&
           !memcmp(a->out, b->out, a->nout * sizeof *a->out) && same_attrs(a, b);
}

static bool same_tensor(const graph_tensor *a, const graph_tensor *b, bool sizes)
{
    return a->kind == b->kind && !strcmp(a->name, b->name) &&
           !strcmp(a->init ? a->init : "", b->init ? b->init : "") &&
           same_shape(&a->shape, &b->shape, sizes);
}

bool check_rule_differ(const graph *a, const graph *b, bool sizes, char out[CHECK_RULE_WORDS])
{
    const uint32_t nodes = a->nodes.n < b->nodes.n ? a->nodes.n : b->nodes.n;
    for (uint32_t i = 0; i < nodes; i++)
        if (!same_node(&a->nodes.at[i], &b->nodes.at[i]))
            return snprintf(out, CHECK_RULE_WORDS, "op %u is %s, then %s, or has other operands", i,
                            a->nodes.at[i].id, b->nodes.at[i].id) > 0;
    if (a->nodes.n != b->nodes.n || a->tensors.n != b->tensors.n)
        return snprintf(out, CHECK_RULE_WORDS, "it has %u ops and %u tensors, then %u and %u",
                        a->nodes.n, a->tensors.n, b->nodes.n, b->tensors.n) > 0;
    for (weft_tensor t = 1; t <= a->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(a, t), *y = graph_tensor_at(b, t);
        if (x->constant && memcmp(&x->value, &y->value, sizeof x->value) != 0)
            return snprintf(out, CHECK_RULE_WORDS, "a constant is %.9g, then %.9g", x->value,
                            y->value) > 0;
        if (!same_tensor(x, y, sizes))
            return snprintf(out, CHECK_RULE_WORDS,
                            "the tensor %.60s is %.60s then, or has another shape", x->name,
                            y->name) > 0;
    }
    return false;
}
