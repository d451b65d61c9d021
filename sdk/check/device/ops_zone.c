/* check/device/ops_zone.c: 68, 85, 86, 88: which memory a run reads and writes. */
#include "check/device/ops.h"

#include <string.h>

/* The first byte of [from, to) that a run has changed; false: none. */
static bool changed(const check_image *m, uint64_t from, uint64_t to, uint64_t *at)
{
    for (*at = from; *at < to; ++*at)
        if (m->was[*at] != m->is[*at])
            return true;
    return false;
}

/* --- 68 --- */

void check_call_bound(check_dev *b, check_call *c)
{
    check_image m = {0};
    uint64_t at;
    check_bench_compute(b, c, &m);
    const uint64_t end = m.workspace + m.capacity;
    if (changed(&m, end, m.bytes, &at))
        check_fail("'%s' computes %s, says that it needs %llu bytes of workspace at most, and "
                   "writes byte %llu of it",
                   b->who, c->what, (unsigned long long)m.capacity,
                   (unsigned long long)(at - m.workspace));
    check_image_end(&m);
}

static void bound(check_dev *b)
{
    check_ops_all(b, check_call_bound);
}

void check_ops_bound(check_run *r)
{
    check_bench_each(r, false, bound);
}

/* --- 86 --- */

void check_call_outside(check_dev *b, check_call *c)
{
    check_image m = {0};
    uint64_t from = 0, at;
    check_bench_compute(b, c, &m);
    for (uint32_t k = 0; k < c->nin; k++) /* inputs are looked at by check_call_inputs() */
        memcpy(m.is + m.in[k], m.was + m.in[k], check_operand_bytes(&c->in[k]));
    for (uint32_t k = 0; k <= c->nout; k++) {
        const uint64_t to = k < c->nout ? m.out[k] : m.workspace;
        if (changed(&m, from, to, &at))
            check_fail("'%s' computes %s and writes outside of its outputs: a byte %llu bytes "
                       "before %s %u",
                       b->who, c->what, (unsigned long long)(to - at),
                       k < c->nout ? "output" : "the workspace, behind output",
                       k < c->nout ? k : c->nout - 1);
        from = to + (k < c->nout ? check_operand_bytes(&c->out[k]) : 0);
    }
    check_image_end(&m);
}

static void outside(check_dev *b)
{
    check_ops_all(b, check_call_outside);
}

void check_ops_outside(check_run *r)
{
    check_bench_each(r, false, outside);
}

/* --- 85 --- */

/* Output 0 over the input that in_place names: the same results. */
static void over_input(check_dev *b, const check_call *c, const check_image *apart)
{
    check_image over = {0};
    uint32_t output;
    uint64_t element;
    check_image_begin(b, c, &over);
    over.out[0] = over.in[c->over[0] - 1];
    check_bench_compute(b, c, &over);
    if (check_image_differ(c, apart, &over, &output, &element))
        check_fail("'%s' computes %s, and element %llu of output %u is another one where output 0 "
                   "lies over input %u; this op may be run in place",
                   b->who, c->what, (unsigned long long)element, output, c->over[0] - 1);
    check_image_end(&over);
}

static bool may_lie_over(const check_call *c)
{
    const uint32_t k = c->over[0];
    return k && k <= c->nin && c->nout && c->in[k - 1].dtype == c->out[0].dtype &&
           check_operand_bytes(&c->in[k - 1]) == check_operand_bytes(&c->out[0]);
}

void check_call_inputs(check_dev *b, check_call *c)
{
    check_image m = {0};
    const uint32_t before = c->flags;
    uint64_t at;
    c->flags |= WEFT_SPEC_DETERMINISTIC;
    if (!check_bench_accepts(b, c, NULL))
        c->flags = before;
    check_bench_compute(b, c, &m);
    for (uint32_t k = 0; k < c->nin; k++)
        if (changed(&m, m.in[k], m.in[k] + check_operand_bytes(&c->in[k]), &at))
            check_fail("'%s' computes %s and changes byte %llu of input %u, which no output lies "
                       "over",
                       b->who, c->what, (unsigned long long)(at - m.in[k]), k);
    if (may_lie_over(c) && c->flags & WEFT_SPEC_DETERMINISTIC)
        over_input(b, c, &m);
    check_image_end(&m);
    c->flags = before;
}

static void inputs(check_dev *b)
{
    check_ops_all(b, check_call_inputs);
}

void check_ops_inputs(check_run *r)
{
    check_bench_each(r, false, inputs);
}

/* --- 88: operands that run() gets as NULL --- */

/* Run `c` with and without the absent operands: the other outputs are the same. */
static void compare(check_dev *b, const check_call *whole, const check_call *less,
                    check_image *with, check_image *without)
{
    uint32_t output;
    uint64_t element;
    check_bench_compute(b, whole, with);
    check_bench_compute(b, less, without);
    if (check_image_differ(whole, with, without, &output, &element))
        check_fail("'%s' computes %s, and element %llu of output %u is another one where an "
                   "operand that nothing reads is NULL",
                   b->who, whole->what, (unsigned long long)element, output);
    check_image_end(with);
    check_image_end(without);
}

void check_call_null(check_dev *b, check_call *c)
{
    check_image with = {0}, without = {0};
    const uint32_t before = c->flags;
    if (!c->shape_last)
        return;
    c->flags |= WEFT_SPEC_DETERMINISTIC;
    if (check_bench_accepts(b, c, NULL)) {
        check_image_begin(b, c, &without);
        without.absent_in[c->nin - 1] = true;
        compare(b, c, c, &with, &without);
    }
    c->flags = before;
}

static uint32_t nulls; /* calls with an operand that may be NULL */

static void count_null(check_dev *b, check_call *c)
{
    nulls += c->shape_last;
    check_call_null(b, c);
}

/* A fused op, each of whose outputs is absent once. */
static void unread(check_dev *b, check_call *c)
{
    check_call less;
    c->flags |= WEFT_SPEC_DETERMINISTIC;
    for (uint32_t k = 0; c->nout > 1 && k < c->nout; k++) {
        check_image with = {0}, without = {0};
        less = *c;
        less.out[k] = (weft_operand){0};
        if (!check_bench_accepts(b, &less, NULL))
            continue;
        nulls++;
        if (check_bench_accepts(b, c, NULL)) {
            compare(b, c, &less, &with, &without);
        } else { /* it has to be absent */
            check_bench_compute(b, &less, &without);
            check_image_end(&without);
        }
    }
}

static void fused(check_dev *b, const host_component *const *ops, uint32_t join)
{
    static check_call c;
    const char *const ids[] = {ops[0]->name, ops[1]->name};
    const uint32_t joins[] = {0, join};
    const char *name = PLUGIN_GET(b->t, fuse, b->module, b->conf, ids, joins, 2);
    bool fits = false;
    for (uint32_t i = 0; name && check_example_chain(ops, join, name, i, WEFT_F32, &fits, &c);
         i++) {
        if (fits)
            unread(b, &c);
        check_call_end(&c);
    }
}

static void absent(check_dev *b)
{
    nulls = 0;
    check_ops_all(b, count_null);
    check_ops_pairs(b, fused);
    if (!nulls)
        check_not_applicable("'%s' has no op with an operand that may be NULL", b->who);
}

void check_ops_absent(check_run *r)
{
    check_bench_each(r, false, absent);
}
