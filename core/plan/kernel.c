/* plan/kernel.c: which kernel computes an op: the device's own, or that of a plugin.
 *
 * Candidates are ordered by score, and the first that accepts the op is taken. The device's own
 * counts 50 and comes first at equal scores, so a job without plugins of kernels asks the device
 * alone. The choice follows from the job: it is part of the plan's digest. */
#include "plan/emit.h"

#include "base/err.h"
#include "host/call.h"

#include <stdlib.h>
#include <string.h>

#define SCORE_OF_DEVICE 50

/* A kernel that may compute an op. */
typedef struct rival {
    const host_component *c; /* NULL: the device's own */
    int32_t score;
    uint32_t number; /* in the order of use, by which equal ones are ordered */
} rival;

static int better_first(const void *a, const void *b)
{
    const rival *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (!x->c || !y->c)
        return x->c ? 1 : -1;
    const int order = strcmp(x->c->name, y->c->name);
    return order ? order : x->number < y->number ? -1 : 1;
}

static weft_status ask_score(const spec *s, const host_component *c, const weft_opspec *op,
                             int32_t *score)
{
    const weft_kernel *k = c->table;
    weft_status st = host_open(s->host, c);
    *score = SCORE_OF_DEVICE;
    if (st == WEFT_OK && k->score)
        *score = PLUGIN_GET(k, score, c->module, c->no_options, op);
    return st;
}

/* The kernels of plugins for this op and device, and the device's own, in the order in which they
 * are asked. The caller frees *out. */
static weft_status list_rivals(const spec *s, const weft_opspec *op, rival **out, uint32_t *n)
{
    const uint32_t all = host_used(s->host, "weft.kernel/1", NULL, 0);
    const host_component **c = mem_alloc(all * sizeof *c + 1);
    weft_status st = WEFT_OK;
    *out = mem_alloc((all + 1) * sizeof **out);
    **out = (rival){NULL, SCORE_OF_DEVICE, 0};
    *n = 1;
    host_used(s->host, "weft.kernel/1", c, all);
    for (uint32_t i = 0; st == WEFT_OK && i < all; i++) {
        const weft_kernel *k = c[i]->table;
        rival r = {c[i], 0, i};
        if (strcmp(k->op, op->id) || strcmp(k->device, s->device.c->name))
            continue;
        st = ask_score(s, c[i], op, &r.score);
        if (st == WEFT_OK && r.score > 0)
            (*out)[(*n)++] = r;
    }
    free(c);
    qsort(*out, *n, sizeof **out, better_first);
    return st;
}

static weft_status ask_query(const spec *s, const rival *r, const weft_opspec *op,
                             weft_requirements *need)
{
    const spec_plugin *d = &s->device;
    const weft_device_table *table = d->c->table;
    const weft_kernel *k = r->c ? r->c->table : NULL;
    *need = (weft_requirements){.struct_size = sizeof *need};
    return k ? PLUGIN_ASK(k, query, r->c->module, r->c->no_options, op, need)
             : PLUGIN_ASK(table, query, d->c->module, d->conf, op, need);
}

weft_status plan_kernel_choose(const plan *p, const weft_opspec *op, plan_kernel *k)
{
    const spec *s = p->spec;
    weft_requirements need;
    rival *rivals;
    uint32_t n, i = 0;
    weft_status st = list_rivals(s, op, &rivals, &n);
    for (bool next = st == WEFT_OK; next && i < n; i += next) {
        if (i)
            err_clear();
        st = ask_query(s, &rivals[i], op, &need);
        next = st == WEFT_UNSUPPORTED;
    }
    if (st != WEFT_OK)
        err_context("device %s, op %s", s->device.c->name, op->id);
    const host_component *c = st == WEFT_OK ? rivals[i].c : NULL;
    k->workspace = st == WEFT_OK ? need.workspace : 0;
    if (c) {
        k->own = c->table;
        k->module = c->module;
        k->conf = c->no_options;
        k->from = c->name;
    }
    free(rivals);
    return st;
}
