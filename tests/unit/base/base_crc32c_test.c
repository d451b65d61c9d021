/* Does every variant of CRC32C that this CPU has give the numbers of the table, which gives those
 * of RFC 3720, whatever the length, the address and the place where a message is divided? */
#include <string.h>

#include "base/number/crc32c.c"

#include <test.h>

#define CAPACITY 100000u

static unsigned char bytes[CAPACITY];

static uint64_t next(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 20;
}

/* RFC 3720, B.4, and the check value of the catalogues. */
TEST(published)
{
    unsigned char b[32];
    pthread_once(&once, choose);
    for (uint32_t i = 0; i < variants; i++) {
        crc32c_function *const f = variant[i];
        assert_int_equal(f(0, "123456789", 9), 0xe3069283);
        assert_int_equal(f(0, b, 0), 0);
        memset(b, 0, sizeof b);
        assert_int_equal(f(0, b, sizeof b), 0x8a9136aa);
        memset(b, 0xff, sizeof b);
        assert_int_equal(f(0, b, sizeof b), 0x62a8ab43);
        for (uint32_t k = 0; k < sizeof b; k++)
            b[k] = (unsigned char)k;
        assert_int_equal(f(0, b, sizeof b), 0x46dd794e);
    }
    assert_int_equal(crc32c(0, b, sizeof b), 0x46dd794e);
}

static void compare(uint32_t i, uint64_t at, uint64_t n, uint32_t seed)
{
    if (variant[i](seed, bytes + at, n) == by_table(seed, bytes + at, n))
        return;
    print_error("variant %u: %llu bytes at %llu\n", i, (unsigned long long)n,
                (unsigned long long)at);
    fail();
}

TEST(alike)
{
    uint64_t random = 7;
    pthread_once(&once, choose);
    for (uint32_t i = 0; i < CAPACITY; i++)
        bytes[i] = (unsigned char)next(&random);
    for (uint32_t i = 0; i < variants; i++) {
        crc32c_function *const f = variant[i];
        for (uint64_t n = 0; n < 1600; n++)
            compare(i, n % 64, n, (uint32_t)n * 77);
        for (uint32_t k = 0; k < 400; k++) {
            const uint64_t at = next(&random) % 64, n = next(&random) % (CAPACITY - 64);
            const uint64_t middle = n ? next(&random) % n : 0;
            compare(i, at, n, (uint32_t)random);
            assert_int_equal(f(f(0, bytes + at, middle), bytes + at + middle, n - middle),
                             f(0, bytes + at, n));
        }
    }
}
