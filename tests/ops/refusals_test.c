/* refusals_test.c: calls that a device has to refuse, in words. */
#include "cases.h"
#include <string.h>
#include <test.h>

static void open_auto(struct bench *b)
{
    assert_int_equal(bench_open(b, "auto", 0), WEFT_OK);
}

static void refused(struct bench *b, const check_call *c, weft_status want, const char *words)
{
    const weft_opspec spec = check_call_spec(c);
    weft_requirements need = {.struct_size = sizeof need};
    weft_prepared *p = NULL;
    check_host_clear(&b->host);
    assert_int_equal(b->t->query(b->module, b->conf, &spec, &need), want);
    if (!strstr(b->host.why, words))
        fail_msg("%s: expected '%s' in: %s", c->id, words, b->host.why);
    assert_int_equal(b->t->prepare(b->d, &spec, &p), want);
    assert_null(p);
}

/* A lawful call, made unlawful. */
TEST(test_refusals)
{
    const struct sizes n = {.tokens = 6,
                            .cols = 8,
                            .inner = 4,
                            .heads = 2,
                            .dim = 4,
                            .sequence = 3,
                            .vocab = 5,
                            .bias = 1};
    struct bench b;
    check_call c;
    open_auto(&b);
    make_call(&c, "linear", &n, WEFT_F32, WEFT_F32);
    c.in[0].dtype = WEFT_F64;
    refused(&b, &c, WEFT_UNSUPPORTED, "it takes fp32, bf16 or fp16");
    c.in[0].dtype = WEFT_BF16;
    refused(&b, &c, WEFT_UNSUPPORTED, "type of the other operands");
    c.in[0].dtype = WEFT_F32;
    c.in[1].size[0] = 9;
    refused(&b, &c, WEFT_USAGE, "do not fit");
    c.in[1].size[0] = 8;
    c.in[0].rank = 1;
    refused(&b, &c, WEFT_USAGE, "axes");
    c.in[0].rank = 2;
    c.flags = WEFT_SPEC_ACCUMULATE;
    refused(&b, &c, WEFT_UNSUPPORTED, "cannot add into its output");
    c.flags = 0;
    c.nin = 1;
    refused(&b, &c, WEFT_USAGE, "1 inputs");
    c.nin = 3;
    c.in[0].size[0] = -1;
    refused(&b, &c, WEFT_USAGE, "invalid type or shape");
    c.id = "org.acme.rope";
    refused(&b, &c, WEFT_UNSUPPORTED, "org.acme.rope");
    check_call_end(&c);
    make_call(&c, "attention", &n, WEFT_F32, WEFT_F32);
    c.attrs[0].i = 4;
    refused(&b, &c, WEFT_USAGE, "whole sequences");
    c.in[0].size[1] = 2;
    refused(&b, &c, WEFT_USAGE, "axis of three");
    check_call_end(&c);
    bench_close(&b);
}

TEST(test_program_refusals)
{
    const int64_t n = 8, other = 9;
    weft_ew_step step = {.op = WEFT_EW_ADD, .dst = 2, .a = 0, .b = 5};
    uint16_t out[1] = {2};
    weft_ew_program p = {sizeof p, 1, 6, -1, &step, out};
    check_call c = {.id = "ew", .program = &p};
    struct bench b;
    open_auto(&b);
    add_input(&c, WEFT_F32, 1, &n, 0, 1);
    add_input(&c, WEFT_F32, 1, &n, 0, 1);
    add_output(&c, WEFT_F32, 1, &n);
    refused(&b, &c, WEFT_USAGE, "register that has no value");
    step.b = 60;
    refused(&b, &c, WEFT_USAGE, "register that has no value");
    step.b = 1;
    step.dst = 6;
    refused(&b, &c, WEFT_USAGE, "register that it does not have");
    step.dst = 2;
    step.op = 99;
    refused(&b, &c, WEFT_UNSUPPORTED, "unknown step");
    step.op = WEFT_EW_ADD;
    out[0] = 4;
    refused(&b, &c, WEFT_USAGE, "an output has no value");
    out[0] = 2;
    p.gate = 2;
    refused(&b, &c, WEFT_USAGE, "gate");
    p.gate = -1;
    c.in[1].size[0] = other;
    refused(&b, &c, WEFT_USAGE, "differ in size");
    c.in[1].size[0] = n;
    c.in[1].dtype = WEFT_I32;
    refused(&b, &c, WEFT_UNSUPPORTED, "fp32, bf16 and fp16");
    c.in[1].dtype = WEFT_F32;
    p.nsteps = 100000;
    refused(&b, &c, WEFT_UNSUPPORTED, "100000 steps");
    c.program = NULL;
    refused(&b, &c, WEFT_USAGE, "without a program");
    check_call_end(&c);
    bench_close(&b);
}
