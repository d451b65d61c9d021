/* check/device/ops_plan.c: 67, 69, 70: what query(), fuse() and prepare() say of each other. */
#include "check/device/ops.h"

#include <stdio.h>
#include <string.h>

/* --- 67: query() and prepare() --- */

static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
#define TYPES (sizeof types / sizeof *types)

void check_call_agrees(check_dev *b, check_call *c)
{
    const uint32_t before = c->flags;
    for (uint32_t flags = 0; flags <= (WEFT_SPEC_ACCUMULATE | WEFT_SPEC_DETERMINISTIC); flags++) {
        void *p;
        c->flags = flags;
        if (check_bench_query(b, c, NULL) != WEFT_OK)
            continue;
        check_bench_clear(b);
        const weft_status st = check_bench_try(b, c, &p);
        if (st != WEFT_OK || !p)
            check_fail("query() of '%s' accepts %s with flags %u, and prepare() returns %s%s: %s",
                       b->who, c->what, flags, check_status(st), p ? "" : " without an op",
                       check_bench_why(b));
        check_bench_release(b, p);
    }
    c->flags = before;
}

static void agree(check_dev *b)
{
    static check_call c;
    const host_component *op;
    check_ops_all(b, check_call_agrees);
    for (uint32_t t = 1; t < TYPES; t++)
        for (uint32_t k = 0; (op = host_own_op(b->run->h, k)); k++)
            for (uint32_t i = 0; check_example(op->name, op->table, i, types[t], &c); i++) {
                check_call_agrees(b, &c);
                check_call_end(&c);
            }
}

void check_ops_agree(check_run *r)
{
    check_bench_each(r, false, agree);
}

/* --- 69: ops that no device knows --- */

static void unknown(check_dev *b)
{
    static const char *const ids[] = {"acme.check.unknown", "linearx", "Linear", "ew.", "l"};
    const int64_t size = 16;
    check_call c;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        check_call_begin(&c, ids[i]);
        check_call_in(&c, WEFT_F32, 1, &size, 0, 1);
        check_call_out(&c, WEFT_F32, 1, &size);
        const weft_status st = check_bench_query(b, &c, NULL);
        if (st != WEFT_UNSUPPORTED)
            check_fail("query() of '%s' returns %s for the op '%s', which nobody has; that is "
                       "WEFT_UNSUPPORTED",
                       b->who, check_status(st), ids[i]);
        if (!check_bench_why(b)[0])
            check_fail("query() of '%s' refuses the op '%s' without a sentence: a user has to read "
                       "which op has no kernel",
                       b->who, ids[i]);
        check_call_end(&c);
    }
}

void check_ops_unknown(check_run *r)
{
    check_bench_each(r, true, unknown);
}

/* --- 70: fuse() --- */

static const char *ask_fuse(check_dev *b, const char *const *ids, uint32_t join)
{
    const uint32_t joins[] = {0, join};
    return PLUGIN_GET(b->t, fuse, b->module, b->conf, ids, joins, 2);
}

/* Whether query() has a kernel, where all outputs are read, or all but one. */
static bool has_kernel(check_dev *b, check_call *c)
{
    bool yes = check_bench_query(b, c, NULL) == WEFT_OK;
    for (uint32_t k = 0; !yes && c->nout > 1 && k < c->nout; k++) {
        const weft_operand read = c->out[k];
        c->out[k] = (weft_operand){0};
        yes = check_bench_query(b, c, NULL) == WEFT_OK;
        c->out[k] = read;
    }
    return yes;
}

/* The device names the pair: has it a kernel of that name for any sizes? */
static void backed(check_dev *b, const host_component *const *ops, uint32_t join, const char *name)
{
    static check_call c;
    char why[512] = "";
    bool tried = false, fits = false;
    for (size_t t = 0; t < TYPES; t++)
        for (uint32_t i = 0; check_example_chain(ops, join, name, i, types[t], &fits, &c); i++) {
            const bool yes = fits && has_kernel(b, &c);
            tried |= fits;
            if (fits && !yes && !*why)
                snprintf(why, sizeof why, "%s", check_bench_why(b));
            check_call_end(&c);
            if (yes)
                return;
        }
    if (tried)
        check_fail("fuse() of '%s' replaces %s and %s by '%s', and query() has no kernel of that "
                   "name for any example: %s",
                   b->who, ops[0]->name, ops[1]->name, name, why);
}

static void pair(check_dev *b, const host_component *const *ops, uint32_t join)
{
    const char *first = ops[0]->name, *second = ops[1]->name;
    char copies[2][WEFT_MAX_NAME];
    snprintf(copies[0], sizeof copies[0], "%s", first);
    snprintf(copies[1], sizeof copies[1], "%s", second);
    const char *const ids[] = {first, second}, *const again[] = {copies[0], copies[1]};
    const char *name = ask_fuse(b, ids, join), *other = ask_fuse(b, again, join);
    if (name != other)
        check_fail("fuse() of '%s' returns '%s' at %p for %s and %s, and then '%s' at %p; it is a "
                   "constant string that follows from the chain",
                   b->who, name ? name : "NULL", (const void *)name, first, second,
                   other ? other : "NULL", (const void *)other);
    if (name)
        backed(b, ops, join, name);
}

static void fuse(check_dev *b)
{
    if (!WEFT_HAS(b->t, fuse))
        check_not_applicable("'%s' has no fuse()", b->who);
    check_ops_pairs(b, pair);
}

void check_ops_fuse(check_run *r)
{
    check_bench_each(r, true, fuse);
}
