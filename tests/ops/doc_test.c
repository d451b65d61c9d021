/* doc_test.c: the docs of weft's own ops (weft/op.h) against a device's kernels: a kernel exists
 * for the documented operands in each compute type; attributes have the documented defaults and do
 * something; and flags hold: what accumulates, may overwrite its input, or uses a shape alone. */
#include "cases.h"
#include "describe/describe.h"
#include <test.h>

#include "builtin.h"
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 16 };

static int64_t size_of(char letter)
{
    static const struct {
        char letter;
        int64_t size;
    } sizes[] = {{'T', 8}, {'3', 3}, {'H', 4}, {'G', 2}, {'D', 8}, {'V', VOCAB}, {'S', 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].letter == letter)
            return sizes[i].size;
    return 12;
}

static uint32_t type_of(const describe_doc_operand *o, uint32_t ct)
{
    return o->type == 'f' || o->type == 'g' ? WEFT_F32
           : o->type == 'i'                 ? WEFT_I32
           : o->type == 'l'                 ? WEFT_I64
                                            : ct;
}

/* Positive values, of which logarithms and roots exist; ids of the vocabulary. */
static void make(check_call *c, const describe_doc_call *d, uint32_t ct)
{
    memset(c, 0, sizeof *c);
    c->id = d->doc->id;
    for (uint32_t i = 0; i < d->nin + d->form->nout; i++) {
        const describe_doc_operand *o = i < d->nin ? &d->form->in[i] : &d->form->out[i - d->nin];
        int64_t size[WEFT_MAX_AXES];
        for (uint32_t k = 0; k < o->n; k++)
            size[k] = size_of(o->letter[k]);
        if (i < d->nin)
            add_input(c, type_of(o, ct), o->n, size, o->type == 'i' ? 0 : 0.2,
                      o->type == 'i' ? VOCAB : 1.2);
        else
            add_output(c, type_of(o, ct), o->n, size);
    }
    c->nattr = describe_doc_attrs(d, c->attrs);
    for (uint32_t i = 0; i < c->nattr; i++)
        if (!strcmp(c->attrs[i].key, "sequence"))
            c->attrs[i].i = 4;
}

typedef void (*question)(struct bench *b, const describe_doc_call *d, check_call *c);

/* `f` for every op, form, and compute type. Ops that give other axes are copies to a
 * device. */
/* Ops for rules and replacements that the cuda device has no kernels for. */
static bool is_of_cpu_alone(const char *id)
{
    static const char *const ids[] = {"cast",   "sum_axis", "max_axis",    "broadcast",
                                      "repeat", "bmm",      "bmm.dx",      "bmm.dw",
                                      "random", "dropout",  "cache.write", "attention.cached"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (!strcmp(ids[i], id))
            return true;
    return false;
}

static weft_status query(struct bench *b, const check_call *c)
{
    const weft_opspec spec = check_call_spec(c);
    weft_requirements need = {.struct_size = sizeof need};
    check_host_clear(&b->host);
    return b->t->query(b->module, b->conf, &spec, &need);
}

/* Nor for these operands of ops that it has, which it says. */
static bool refuses_operand(struct bench *b, const describe_doc_call *d, const check_call *c)
{
    const char *last = d->nin ? d->form->in[d->nin - 1].name : "";
    const bool at = !strcmp(c->id, "rope") && !strcmp(last, "at");
    if (bench_is_cpu() || (strcmp(last, "reach") && !at))
        return false;
    assert_int_equal(query(b, c), at ? WEFT_USAGE : WEFT_UNSUPPORTED);
    assert_non_null(strstr(b->host.why, at ? "2 inputs" : "`reach`"));
    return true;
}

static void for_all(question f)
{
    static describe_doc doc;
    struct bench b;
    const char *id;
    uint32_t asked = 0;
    assert_int_equal(bench_open(&b, "auto", 2), WEFT_OK);
    for (uint32_t i = 0; (id = builtin_id(i)); i++) {
        describe_doc_call calls[GRAPH_DOC_CALLS];
        if (!bench_is_cpu() && is_of_cpu_alone(id))
            continue;
        assert_int_equal(describe_doc_read(id, builtin_op(id), &doc), WEFT_OK);
        for (uint32_t k = describe_doc_calls(&doc, calls);
             !(doc.op->flags & WEFT_OP_ELEMENTWISE && doc.nattrs) && k-- > 0;)
            for (uint32_t ct = WEFT_F32; ct <= WEFT_F16; ct++, asked++) {
                check_call c;
                make(&c, &calls[k], ct);
                if (!refuses_operand(&b, &calls[k], &c))
                    f(&b, &calls[k], &c);
                check_call_end(&c);
            }
    }
    assert_in_range(asked, 100, 1000);
    bench_close(&b);
}

static void has_a_kernel(struct bench *b, const describe_doc_call *d, check_call *c)
{
    const bool accumulates = d->doc->op->flags & WEFT_OP_ACCUMULATES;
    if (query(b, c) != WEFT_OK)
        fail_msg("%s, operands %s: %s", c->id, d->doc->text.operands, b->host.why);
    c->flags = WEFT_SPEC_ACCUMULATE;
    if ((query(b, c) == WEFT_OK) != accumulates)
        fail_msg("%s: its flags say that its kernels %s; the device: %s", c->id,
                 accumulates ? "accumulate" : "do not accumulate", b->host.why);
}

TEST(documented_operands_have_kernels)
{
    for_all(has_a_kernel);
}

/* The bits of all outputs, one behind the other; the caller frees them. */
static char *run(struct bench *b, const check_call *c, uint64_t *bytes)
{
    void *got[WEFT_MAX_OPERANDS] = {0};
    char *all = NULL;
    *bytes = 0;
    device_run(b, c, got);
    for (uint32_t k = 0; k < c->nout; k++) {
        const uint64_t n = check_operand_bytes(&c->out[k]);
        all = realloc(all, *bytes + n);
        memcpy(all + *bytes, got[k], n);
        *bytes += n;
        free(got[k]);
    }
    return all;
}

/* What the reference gives; the caller frees it. */
static double *referred(const check_call *c, uint64_t *bytes)
{
    double *all = NULL;
    uint64_t n = 0;
    reference(c);
    for (uint32_t k = 0; k < c->nout; k++) {
        const uint64_t more = (uint64_t)check_operand_count(&c->out[k]);
        all = realloc(all, (n + more) * sizeof *all);
        memcpy(all + n, c->y[k], more * sizeof *all);
        n += more;
    }
    *bytes = n * sizeof *all;
    return all;
}

static bool refers_alike(const check_call *x, const check_call *y)
{
    uint64_t n, m;
    double *one = referred(x, &n), *other = referred(y, &m);
    const bool equal = n == m && !memcmp(one, other, n);
    free(one);
    free(other);
    return equal;
}

static bool same(struct bench *b, const check_call *x, const check_call *y)
{
    uint64_t n, m;
    char *one = run(b, x, &n), *other = run(b, y, &m);
    const bool equal = n == m && !memcmp(one, other, n);
    free(one);
    free(other);
    return equal;
}

/* Another lawful value of an attribute; false: there is none whose effect the outputs show. */
static bool change(const char *id, weft_attr *a)
{
    if (!strcmp(a->key, "first") && !strcmp(id, "xent.max"))
        return false; /* it matters only beside `valid` */
    if (!strcmp(id, "rope") && strcmp(a->key, "sequence") && strcmp(a->key, "theta") &&
        strcmp(a->key, "sign") && strcmp(a->key, "factor"))
        return false; /* they matter only beside `factor`: ops_test.c */
    if (is_of_cpu_alone(id) && strcmp(id, "random") && strcmp(id, "dropout"))
        return false; /* axis, size and type of these are those of their operands, said again */
    if (!strcmp(id, "dropout") && strcmp(a->key, "p"))
        return false; /* they matter only beside `p`: random_test.c */
    a->i = !strcmp(a->key, "sign")           ? -1
           : !strcmp(a->key, "valid")        ? VOCAB / 2
           : !strcmp(a->key, "sequence")     ? 8
           : !strcmp(a->key, "causal")       ? 0
           : !strcmp(a->key, "distribution") ? 1
                                             : 3;
    a->f = a->f * 7 + 0.5;
    return true;
}

static void has_these_attributes(struct bench *b, const describe_doc_call *d, check_call *c)
{
    const weft_attr first = {.key = "first"};
    if (d->doc->op->first_input)
        c->attrs[c->nattr++] = first;
    for (uint32_t k = 0; k < c->nattr; k++) {
        check_call less = *c, other = *c;
        const bool dflt = k >= d->doc->nattrs || !d->doc->attr[k].required;
        less.attrs[k] = less.attrs[--less.nattr];
        if (dflt && !same(b, c, &less))
            fail_msg("%s: without %s it computes something else than with the documented default",
                     c->id, c->attrs[k].key);
        if (dflt && check_reference_knows(c) && !refers_alike(c, &less))
            fail_msg("%s: without %s the reference computes something else than with the "
                     "documented default",
                     c->id, c->attrs[k].key);
        if (change(c->id, &other.attrs[k]) && same(b, c, &other))
            fail_msg("%s: another %s changes nothing", c->id, c->attrs[k].key);
    }
}

TEST(attributes_are_those_of_the_kernels)
{
    for_all(has_these_attributes);
}

static void keeps_its_flags(struct bench *b, const describe_doc_call *d, check_call *c)
{
    const weft_op *op = d->doc->op;
    check_call over = *c;
    if (op->in_place &&
        weft_dtype_size(c->in[op->in_place - 1].dtype) == weft_dtype_size(c->out[0].dtype)) {
        over.over[0] = op->in_place;
        if (!same(b, c, &over))
            fail_msg("%s: over input %u it computes something else", c->id, op->in_place - 1);
    }
    if (op->flags & WEFT_OP_SHAPE_LAST) {
        double *const x = c->x[c->nin - 1];
        uint64_t n, m;
        char *one = run(b, c, &n);
        for (int64_t i = 0; i < check_operand_count(&c->in[c->nin - 1]); i++)
            x[i] = -x[i];
        char *other = run(b, c, &m);
        assert_true(n == m && !memcmp(one, other, n));
        free(one);
        free(other);
    }
}

TEST(flags_hold)
{
    for_all(keeps_its_flags);
}
