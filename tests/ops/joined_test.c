/* joined_test.c: ops that the device does as one (fuse() of weft/device.h), against their members
 * in the reference's loops. */
#include "sweep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

static const struct sizes products[] = {
    {.tokens = 1, .cols = 1, .inner = 1},
    {.tokens = 3, .cols = 7, .inner = 17, .bias = 1},
    {.tokens = 65, .cols = 16, .inner = 24, .unread = 1},
    {.tokens = 17, .cols = 64, .inner = 96, .bias = 1, .unread = 1},
    {.tokens = 130, .cols = 257, .inner = 64, .bias = 1},
    {.tokens = 600, .cols = 96, .inner = 48, .bias = 1},
    {.tokens = 33, .cols = 48, .inner = 40},
};

/* Does the device under test join anything? */
static int joins(void)
{
    struct bench b;
    assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
    const int yes = b.t->fuse != NULL;
    bench_close(&b);
    return yes;
}

TEST(test_results)
{
    static const char *const isas[] = {"auto", NULL};
    if (!joins())
        skip();
    SWEEP(isas, products, 0, "linear+gelu", "linear+bias_residual", "linear.dx+gelu.dx");
    SWEEP(isas, products, 1, "linear.dw+colsum", "colsum+linear.dw");
}

/* --- what is joined, and what is not --- */

static const char *ask(struct bench *b, const char *first, const char *second, uint32_t join)
{
    const char *const ids[] = {first, second};
    const uint32_t joined[] = {0, join};
    return b->t->fuse(b->module, NULL, ids, joined, 2);
}

TEST(test_names)
{
    struct bench b;
    if (!joins())
        skip();
    assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
    assert_string_equal(ask(&b, "linear", "gelu", WEFT_FUSE_CHAINED), "linear+gelu");
    assert_string_equal(ask(&b, "colsum", "linear.dw", WEFT_FUSE_SHARED_INPUT), "colsum+linear.dw");
    assert_null(ask(&b, "linear", "gelu", WEFT_FUSE_SHARED_INPUT));
    assert_null(ask(&b, "linear.dw", "colsum", WEFT_FUSE_CHAINED));
    assert_null(ask(&b, "gelu", "linear", WEFT_FUSE_CHAINED));
    assert_null(ask(&b, "linear.dx", "colsum", WEFT_FUSE_SHARED_INPUT));
    const char *const three[] = {"linear.dx", "gelu.dx", "colsum"};
    const uint32_t feeds[] = {0, WEFT_FUSE_CHAINED, WEFT_FUSE_CHAINED};
    assert_null(b.t->fuse(b.module, NULL, three, feeds, 3));
    bench_close(&b);
}

static weft_status need(struct bench *b, const check_call *c)
{
    const weft_opspec spec = check_call_spec(c);
    weft_requirements out = {.struct_size = sizeof out};
    return b->t->query(b->module, b->conf, &spec, &out);
}

/* What lies between a product and a residual is not written, so nobody may want to read it; and a
 * result is not left out. */
TEST(test_what_is_read)
{
    static const char *const ids[] = {"linear+bias_residual", "linear.dx+gelu.dx"};
    struct bench b;
    check_call c;
    if (!joins())
        skip();
    assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
    for (int k = 0; k < 2; k++) {
        make_call(&c, ids[k], &products[6], WEFT_BF16, WEFT_BF16);
        assert_int_equal(need(&b, &c), WEFT_OK);
        c.out[0] = c.out[1];
        assert_int_equal(need(&b, &c), WEFT_UNSUPPORTED);
        c.out[0] = c.out[1] = (weft_operand){0};
        assert_int_not_equal(need(&b, &c), WEFT_OK);
        check_call_end(&c);
    }
    bench_close(&b);
}

TEST(test_the_key)
{
    struct bench b;
    check_call c;
    if (!joins())
        skip();
    const char *was = getenv("WEFT_OPS_CONF");
    char off[200];
    snprintf(off, sizeof off, "joined=off,%s", was ? was : "");
    setenv("WEFT_OPS_CONF", off, 1);
    assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
    make_call(&c, "linear+gelu", &products[5], WEFT_BF16, WEFT_BF16);
    assert_int_equal(need(&b, &c), WEFT_UNSUPPORTED);
    assert_non_null(strstr(b.host.why, "device.joined is off"));
    check_call_end(&c);
    bench_close(&b);
    setenv("WEFT_OPS_CONF", off + strlen("joined=off,"), 1);
}
