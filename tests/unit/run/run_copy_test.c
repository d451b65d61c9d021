/* run_copy_test.c: copies that threads divide, compared with memcpy, byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "run/save/copy.h"

#include <test.h>

enum { PARTS = 9, CAPACITY = 40 << 20, GAP = 64 };

static unsigned char from[CAPACITY], to[CAPACITY], want[CAPACITY];

static void fill(unsigned char *at, unsigned char first)
{
    for (size_t i = 0; i < CAPACITY; i++)
        at[i] = (unsigned char)(first + i * 31 + (i >> 8));
}

/* Parts of random sizes, some of them empty, with gaps that stay as they are; the last is large. */
static void check(uint64_t seed, uint32_t threads, uint64_t max)
{
    run_copy_part parts[PARTS];
    uint64_t at = 0;
    memset(to, 7, CAPACITY);
    memset(want, 7, CAPACITY);
    for (uint32_t i = 0; i < PARTS; i++) {
        const uint64_t capacity = i + 1 < PARTS ? max : max * 8, mixed = seed * PARTS + i + 1;
        const uint64_t bytes = i == 3 ? 0 : (mixed * 0x9e3779b97f4a7c15u >> 20) % (capacity + 1);
        parts[i] = (run_copy_part){to + at, i == 5 ? NULL : from + at, bytes};
        if (parts[i].from)
            memcpy(want + at, from + at, bytes);
        else
            memset(want + at, 0, bytes);
        at += bytes + GAP;
    }
    assert_true(at <= CAPACITY);
    run_copy_parts(parts, PARTS, threads);
    assert_memory_equal(to, want, CAPACITY);
}

TEST(all_bytes_are_copied)
{
    fill(from, 1);
    for (uint32_t threads = 1; threads <= 40; threads += 1 + threads / 2)
        for (uint64_t seed = 0; seed < 3; seed++)
            check(seed, threads, 2 << 20);
    check(1, 8, 0);
    check(2, 8, 100);
    run_copy_parts(NULL, 0, 4);
}

TEST(touched_memory_is_zero)
{
    memset(to, 7, CAPACITY);
    run_copy_touch(to, CAPACITY - 1, 8);
    for (size_t i = 0; i < CAPACITY - 1; i++)
        if (to[i])
            fail_msg("byte %zu is not zero", i);
    assert_int_equal(to[CAPACITY - 1], 7);
}

TEST(ranks_share_the_cores)
{
    const uint32_t alone = run_copy_threads(1);
    assert_true(alone >= 1 && alone <= 16);
    assert_int_equal(run_copy_threads(0), alone);
    assert_true(run_copy_threads(2) <= alone);
    assert_int_equal(run_copy_threads(1u << 20), 1);
}
