/* check/op/keys.c: attributes are told apart by their whole keys, of up to 63 bytes.
 *
 * An example gets one attribute more, in front of the others: its key is that of a documented one
 * with more bytes behind it, or with one less, and its value is another. An op that ignores it, as
 * it ignores every key that it does not know, answers as before; one may also refuse it. */
#include "check/op/value.h"

#include <math.h>
#include <string.h>

static double flops(const check_op_example *e)
{
    const check_op *of = e->of;
    const weft_op_self self = {sizeof self, 0, of->module, of->conf, NULL};
    if (!of->table->flops)
        return 0;
    return PLUGIN_GET(of->table, flops, &self, e->attrs, e->nattr, e->in, e->nin, e->out, e->nout);
}

static void differs(const check_op_example *e, const char *what, const char *key)
{
    check_fail("'%s' takes the attribute '%s' for '%s', which is a part of it or has it as a part: "
               "%s follows from it; compare whole keys, not their first bytes",
               e->of->c->name, e->attrs[0].key, key, what);
}

/* Whether the results of both calls are equal, for the same inputs. */
static void same_values(const check_op_example *e, const check_op_example *more, const char *key)
{
    void *from[WEFT_MAX_OPERANDS], *a[WEFT_MAX_OPERANDS], *b[WEFT_MAX_OPERANDS];
    uint64_t random = e->of->run->seed;
    char why[1024];
    if (!check_op_random(e, &random, true, from, a, why))
        return; /* shapes and cost are compared; check 173 says what cannot be computed */
    if (check_op_forward(more, (const void *const *)from, 0, b, why)) {
        for (uint32_t i = 0; i < e->nout; i++)
            if (check_op_unlike(&e->out[i], a[i], b[i]) < graph_shape_elements(&e->out[i]))
                differs(more, "what its kernel computes", key);
        check_op_free(b, e->nout);
    }
    check_op_free(a, e->nout);
    check_op_free(from, e->nin);
}

static bool same_shapes(const check_op_answer *a, const check_op_answer *b)
{
    bool same = a->nout == b->nout;
    for (uint32_t i = 0; same && i < a->nout; i++) {
        same = a->out[i].rank == b->out[i].rank && a->out[i].dtype == b->out[i].dtype;
        for (uint32_t k = 0; same && k < a->out[i].rank; k++)
            same = a->out[i].axes[k].size == b->out[i].axes[k].size;
    }
    return same;
}

static void with(const check_op_example *e, const weft_attr *own, const char *key)
{
    static check_op_example more;
    check_op_answer a, b;
    more = *e;
    memmove(more.attrs + 1, more.attrs, e->nattr * sizeof *more.attrs);
    more.attrs[0] = (weft_attr){.key = key, .i = own->i + 1, .f = own->f + 1};
    more.nattr++;
    check_op_infer(e->of, e->in, e->nin, e->attrs, e->nattr, e->nout, &a);
    check_op_infer(e->of, e->in, e->nin, more.attrs, more.nattr, e->nout, &b);
    if (b.st != WEFT_OK && *b.why)
        return; /* it refuses keys that it does not know */
    if (!same_shapes(&a, &b) || b.st != WEFT_OK)
        differs(&more, "what infer() returns", own->key);
    if (fabs(flops(e) - flops(&more)) > 0)
        differs(&more, "what flops() returns", own->key);
    same_values(e, &more, own->key);
}

static bool is_own(const check_op_example *e, const char *key)
{
    for (uint32_t i = 0; i < e->nattr; i++)
        if (!strcmp(e->attrs[i].key, key))
            return true;
    return !strcmp(key, "first") || !strcmp(key, "seed");
}

static void one(const check_op_example *e)
{
    char key[WEFT_MAX_NAME];
    for (uint32_t i = 0; i < e->nattr && e->nattr < GRAPH_DOC_ATTRS; i++) {
        const size_t n = strlen(e->attrs[i].key);
        memset(key, 'x', sizeof key);
        memcpy(key, e->attrs[i].key, n);
        key[sizeof key - 1] = 0;
        if (!is_own(e, key))
            with(e, &e->attrs[i], key);
        key[n - 1] = 0;
        if (n > 1 && !is_own(e, key))
            with(e, &e->attrs[i], key);
    }
}

static bool has_attributes(const weft_op *op)
{
    return !op->doc || op->doc->attributes;
}

void check_op_keys(check_run *r)
{
    check_op_examples(r, true, has_attributes, "attributes", one);
}
