/* device_test.c: what the cpu device promises beyond the checks of any device: memory, pinning,
 * instruction sets. */
#define _GNU_SOURCE
#include "cases.h"
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <test.h>
#include <unistd.h>

static void open_auto(struct bench *b)
{
    assert_int_equal(bench_open(b, "auto", 0), WEFT_OK);
}

TEST(test_describe)
{
    struct bench b;
    open_auto(&b);
    const char *text = b.t->describe(b.d);
    assert_non_null(strstr(text, "thread"));
    assert_non_null(strstr(text, "kernels v"));
    int32_t score = 0;
    assert_int_equal(b.t->probe(b.module, b.conf, &score), WEFT_OK);
    assert_int_equal(score, 10);
    bench_close(&b);
}

TEST(test_arena)
{
    struct bench b;
    void *base = NULL;
    int32_t fd = 5;
    const uint64_t bytes = (5u << 20) + 12345;
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
TEST(test_shared_arena)
{
    struct bench b;
    void *base = NULL;
    int32_t fd = -1;
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

TEST(test_arena_too_big)
{
    struct bench b;
    void *base = NULL;
    int32_t fd = -1;
    open_auto(&b);
    assert_int_equal(b.t->arena(b.d, (uint64_t)1 << 50, 0, &base, &fd), WEFT_NO_MEMORY);
    assert_non_null(strstr(b.host.why, "GiB"));
    assert_int_equal(b.t->arena(b.d, UINT64_MAX, 1, &base, &fd), WEFT_NO_MEMORY);
    assert_null(base);
    bench_close(&b);
}

/* The opener is pinned while the device is open, to its rank's cores, and as before afterwards. */
TEST(test_pinning)
{
    struct bench b;
    cpu_set_t before, during, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
    assert_int_equal(sched_getaffinity(0, sizeof during, &during), 0);
    if (CPU_COUNT(&before) > 1 && !strstr(b.t->describe(b.d), "not pinned"))
        assert_true(CPU_COUNT(&during) < CPU_COUNT(&before));
    if (!strstr(b.t->describe(b.d), "1 thread on core "))
        assert_true(CPU_EQUAL(&before, &during)); /* other programs are pinned to all cores */
    bench_close(&b);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

/* Two devices are never pinned to one core, whether one process opens both or two do. */
TEST(test_two_pinned)
{
    struct bench a, b;
    char first[160];
    assert_int_equal(bench_open(&a, "auto", 1), WEFT_OK);
    snprintf(first, sizeof first, "%s", a.t->describe(a.d));
    if (!strstr(first, " on core ")) {
        bench_close(&a);
        skip();
    }
    assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
    assert_string_not_equal(b.t->describe(b.d), first);
    bench_close(&b);
    bench_close(&a);
    /* It is free again, as soon as tests that run beside this one leave a core. */
    bool pinned = false;
    for (int i = 0; !pinned && i < 2400; i++) {
        assert_int_equal(bench_open(&b, "auto", 1), WEFT_OK);
        pinned = strstr(b.t->describe(b.d), " on core ") != NULL;
        bench_close(&b);
        if (!pinned)
            usleep(50000);
    }
    assert_true(pinned);
}

/* More threads than there are cores. */
TEST(test_too_many_threads)
{
    struct bench b;
    cpu_set_t before, during;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(bench_open(&b, "auto", 500), WEFT_OK);
    assert_non_null(strstr(b.t->describe(b.d), "not pinned"));
    assert_int_equal(sched_getaffinity(0, sizeof during, &during), 0);
    assert_true(CPU_EQUAL(&before, &during));
    bench_close(&b);
}

#if defined(__x86_64__)
static void refuses_absent_isa(struct bench *b)
{
    if (!__builtin_cpu_supports("avx512f")) {
        assert_int_equal(bench_open(b, "v4", 1), WEFT_ABSENT);
        assert_non_null(strstr(b->host.why, "isa = auto"));
    }
}
#else
static void refuses_absent_isa(struct bench *b)
{
    assert_int_equal(bench_open(b, "v4", 1), WEFT_ABSENT);
}
#endif

TEST(test_isa)
{
    struct bench b;
    for (const char *const *isa = bench_isas(); *isa; isa++) {
        assert_int_equal(bench_open(&b, *isa, 1), WEFT_OK);
        assert_non_null(strstr(b.t->describe(b.d), *isa));
        bench_close(&b);
    }
    refuses_absent_isa(&b);
}
