/* device_test.c: the run half beside ops (memory, copies, pinning), and what is refused in words.
 */
#define _GNU_SOURCE
#include "cases.h"
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void open_auto(struct bench *b)
{
    assert_int_equal(bench_open(b, "auto", 0), WEFT_OK);
}

static void test_describe(void **state)
{
    struct bench b;
    (void)state;
    open_auto(&b);
    const char *text = b.t->describe(b.d);
    assert_non_null(strstr(text, "thread"));
    assert_non_null(strstr(text, "kernels v"));
    int32_t score = 0;
    assert_int_equal(b.t->probe(b.module, &b.conf, &score), WEFT_OK);
    assert_int_equal(score, 10);
    bench_close(&b);
}

static void test_arena(void **state)
{
    struct bench b;
    void *base = NULL;
    int32_t fd = 5;
    const uint64_t bytes = (5u << 20) + 12345;
    (void)state;
    open_auto(&b);
    assert_int_equal(b.t->arena(b.d, bytes, 0, &base, &fd), WEFT_OK);
    assert_int_equal((uintptr_t)base % (2u << 20), 0);
    assert_int_equal(fd, -1);
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(((char *)base)[i], 0);
    memset(base, 1, bytes);
    bench_close(&b);
}

/* Another mapping of the descriptor sees the same bytes, and nobody can change its size. */
static void test_shared_arena(void **state)
{
    struct bench b;
    void *base = NULL;
    int32_t fd = -1;
    (void)state;
    open_auto(&b);
    assert_int_equal(b.t->arena(b.d, 3u << 20, 1, &base, &fd), WEFT_OK);
    assert_int_equal((uintptr_t)base % (2u << 20), 0);
    assert_true(fd >= 0);
    char *other = mmap(NULL, 3u << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(other, MAP_FAILED);
    ((char *)base)[(3u << 20) - 1] = 7;
    assert_int_equal(other[(3u << 20) - 1], 7);
    other[0] = 9;
    assert_int_equal(((char *)base)[0], 9);
    assert_int_equal(ftruncate(fd, 4096), -1);
    munmap(other, 3u << 20);
    bench_close(&b);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_arena_too_big(void **state)
{
    struct bench b;
    void *base = NULL;
    int32_t fd = -1;
    (void)state;
    open_auto(&b);
    assert_int_equal(b.t->arena(b.d, (uint64_t)1 << 50, 0, &base, &fd), WEFT_NO_MEMORY);
    assert_non_null(strstr(b.said, "GiB"));
    assert_int_equal(b.t->arena(b.d, UINT64_MAX, 1, &base, &fd), WEFT_NO_MEMORY);
    assert_null(base);
    bench_close(&b);
}

static void test_copies(void **state)
{
    struct bench b;
    weft_event *e = NULL;
    void *host = NULL;
    char text[16] = "weft";
    (void)state;
    open_auto(&b);
    assert_int_equal(b.t->host_memory(b.d, sizeof text, &host), WEFT_OK);
    assert_int_equal(b.t->event(b.d, &e), WEFT_OK);
    assert_int_equal(b.t->copy(b.d, b.s, host, text, sizeof text), WEFT_OK);
    assert_int_equal(b.t->record(e, b.s), WEFT_OK);
    assert_int_equal(b.t->await(b.s, e), WEFT_OK);
    assert_int_equal(b.t->query(e), WEFT_OK);
    assert_string_equal(host, "weft");
    assert_int_equal(b.t->fill(b.d, b.s, host, 'x', 4), WEFT_OK);
    assert_string_equal(host, "xxxx");
    bench_close(&b);
}

/* The opener is pinned while the device is open, to its rank's cores, and as before afterwards. */
static void test_pinning(void **state)
{
    struct bench b;
    cpu_set_t before, during, after;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
    assert_int_equal(sched_getaffinity(0, sizeof during, &during), 0);
    if (CPU_COUNT(&before) > 1)
        assert_true(CPU_COUNT(&during) < CPU_COUNT(&before));
    assert_non_null(strstr(b.t->describe(b.d), "1 thread on core 0"));
    bench_close(&b);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

/* More threads than there are cores. */
static void test_too_many_threads(void **state)
{
    struct bench b;
    cpu_set_t before, during;
    (void)state;
    if (OPS_MOST_THREADS == 1)
        skip();
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(bench_open(&b, "auto", 500), WEFT_OK);
    assert_non_null(strstr(b.t->describe(b.d), "not pinned"));
    assert_int_equal(sched_getaffinity(0, sizeof during, &during), 0);
    assert_true(CPU_EQUAL(&before, &during));
    bench_close(&b);
}

static void test_isa(void **state)
{
    struct bench b;
    (void)state;
    for (const char *const *isa = bench_isas(); *isa != NULL; isa++) {
        assert_int_equal(bench_open(&b, *isa, 1), WEFT_OK);
        assert_non_null(strstr(b.t->describe(b.d), *isa));
        bench_close(&b);
    }
    if (!__builtin_cpu_supports("avx512f")) {
        assert_int_equal(bench_open(&b, "v4", 1), WEFT_ABSENT);
        assert_non_null(strstr(b.said, "isa = auto"));
    }
}

static void refused(struct bench *b, const struct call *c, weft_status want, const char *words)
{
    const weft_opspec spec = spec_of(c);
    weft_need need = {.struct_size = sizeof need};
    weft_prepared *p = NULL;
    b->said[0] = 0;
    assert_int_equal(b->t->need(b->module, &b->conf, &spec, &need), want);
    if (strstr(b->said, words) == NULL)
        fail_msg("%s: expected '%s' in: %s", c->id, words, b->said);
    assert_int_equal(b->t->prepare(b->d, &spec, &p), want);
    assert_null(p);
}

/* A lawful call, made unlawful. */
static void test_refusals(void **state)
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
    struct call c;
    (void)state;
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
    refused(&b, &c, WEFT_USAGE, "lawful");
    c.id = "org.acme.rope";
    refused(&b, &c, WEFT_UNSUPPORTED, "org.acme.rope");
    call_free(&c);
    make_call(&c, "attention", &n, WEFT_F32, WEFT_F32);
    c.attr[0].i = 4;
    refused(&b, &c, WEFT_USAGE, "whole sequences");
    c.in[0].size[1] = 2;
    refused(&b, &c, WEFT_USAGE, "axis of three");
    call_free(&c);
    bench_close(&b);
}

static void test_program_refusals(void **state)
{
    const int64_t n = 8, other = 9;
    weft_ew_step step = {.op = WEFT_EW_ADD, .dst = 2, .a = 0, .b = 5};
    uint16_t out[1] = {2};
    weft_ew_program p = {sizeof p, 1, 6, -1, &step, out};
    struct call c = {.id = "ew", .program = &p};
    struct bench b;
    (void)state;
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
    refused(&b, &c, WEFT_USAGE, "unknown step");
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
    call_free(&c);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),         cmocka_unit_test(test_arena),
        cmocka_unit_test(test_shared_arena),     cmocka_unit_test(test_arena_too_big),
        cmocka_unit_test(test_copies),           cmocka_unit_test(test_pinning),
        cmocka_unit_test(test_too_many_threads), cmocka_unit_test(test_isa),
        cmocka_unit_test(test_refusals),         cmocka_unit_test(test_program_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
