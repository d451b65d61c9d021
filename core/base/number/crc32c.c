/* base/number/crc32c.c: CRC32C in four variants.
 *
 * table   a byte at a time: the definition, and what every CPU can do.
 * sse4.2  the crc32 instruction takes 8 bytes and gives its result three cycles later, so three
 *         parts of the input are in progress at the same time. The checksum of a part is moved
 *         behind the parts after it by a table: appending zeros to a message is linear.
 * vpclmul carry-less products of 64 bits, eight at a time: 256 bytes are folded onto the next 256
 *         by multiplying with powers of x modulo the polynomial.
 * crc     the instruction of AArch64, 8 bytes at a time. */
#include "base/number/crc32c.h"

#include <pthread.h>
#include <string.h>

typedef uint32_t crc32c_function(uint32_t crc, const void *bytes, uint64_t n);

#define POLYNOMIAL 0x82f63b78u /* bits reversed */

static uint32_t byte_table[256];

static uint32_t by_table(uint32_t crc, const void *bytes, uint64_t n)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (uint64_t i = 0; i < n; i++)
        crc = crc >> 8 ^ byte_table[(crc ^ p[i]) & 255];
    return ~crc;
}

static void make_byte_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        byte_table[i] = crc;
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define LONG 2048u /* bytes of each of three parts */
#define SHORT 128u
#define SCALAR __attribute__((target("sse4.2")))
#define WIDE __attribute__((target("sse4.2,pclmul,avx512f,avx512vl,vpclmulqdq")))

/* What the checksum becomes when LONG or SHORT zeros follow, byte by byte of the checksum. */
static uint32_t long_table[4][256], short_table[4][256];

static void make_zeros_table(uint32_t table[4][256], uint32_t zeros)
{
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i << 8 * k;
            for (uint32_t z = 0; z < zeros; z++)
                crc = crc >> 8 ^ byte_table[crc & 255];
            table[k][i] = crc;
        }
}

static inline uint32_t behind_zeros(uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^
           table[3][crc >> 24];
}

static inline uint64_t load(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Three parts of `part` bytes each. */
SCALAR static inline uint32_t three_parts(uint32_t crc, const unsigned char *p, uint32_t part,
                                          uint32_t table[4][256])
{
    uint64_t a = crc, b = 0, c = 0;
    for (uint32_t i = 0; i < part; i += 8) {
        a = _mm_crc32_u64(a, load(p + i));
        b = _mm_crc32_u64(b, load(p + part + i));
        c = _mm_crc32_u64(c, load(p + 2 * (uint64_t)part + i));
    }
    return behind_zeros(table, behind_zeros(table, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

/* Without the inversion at both ends. */
SCALAR static uint32_t scalar_part(uint32_t crc, const unsigned char *p, uint64_t n)
{
    for (; n >= 3 * LONG; n -= 3 * LONG, p += 3 * LONG)
        crc = three_parts(crc, p, LONG, long_table);
    for (; n >= 3 * SHORT; n -= 3 * SHORT, p += 3 * SHORT)
        crc = three_parts(crc, p, SHORT, short_table);
    for (; n >= 8; n -= 8, p += 8)
        crc = (uint32_t)_mm_crc32_u64(crc, load(p));
    for (; n; n--, p++)
        crc = _mm_crc32_u8(crc, *p);
    return crc;
}

static uint32_t by_sse42(uint32_t crc, const void *bytes, uint64_t n)
{
    return ~scalar_part(~crc, bytes, n);
}

/* x^(8 d + 31) and x^(8 d - 33) modulo the polynomial, for a fold over a distance of d bytes. */
#define AHEAD 2048u /* bytes: so far before its use memory is fetched; that may not fault */
#define FOLD_256 0xdcb17aa4, 0xb9e02b86
#define FOLD_64 0x740eef02, 0x9e4addf8
#define FOLD_16 0xf20c0dfe, 0x493c7d27

WIDE static inline __m512i wide_factor(uint32_t low, uint32_t high)
{
    return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

/* `x` moved on by the distance of the factors, and added to `to`. */
WIDE static inline __m512i wide_fold(__m512i x, __m512i factor, __m512i to)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, factor, 0x00),
                                     _mm512_clmulepi64_epi128(x, factor, 0x11), to, 0x96);
}

WIDE static inline __m128i narrow_fold(__m128i x, __m128i factor, __m128i to)
{
    return _mm_xor_si128(
        _mm_xor_si128(_mm_clmulepi64_si128(x, factor, 0x00), _mm_clmulepi64_si128(x, factor, 0x11)),
        to);
}

/* The four registers as a checksum. */
WIDE static inline uint32_t wide_end(const __m512i x[4])
{
    const __m512i f64 = wide_factor(FOLD_64);
    const __m128i f16 = _mm512_castsi512_si128(wide_factor(FOLD_16));
    const __m512i y = wide_fold(wide_fold(wide_fold(x[0], f64, x[1]), f64, x[2]), f64, x[3]);
    __m128i z = narrow_fold(_mm512_castsi512_si128(y), f16, _mm512_extracti32x4_epi32(y, 1));
    z = narrow_fold(z, f16, _mm512_extracti32x4_epi32(y, 2));
    z = narrow_fold(z, f16, _mm512_extracti32x4_epi32(y, 3));
    return (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_extract_epi64(z, 0)),
                                   (uint64_t)_mm_extract_epi64(z, 1));
}

WIDE static uint32_t by_vpclmul(uint32_t crc, const void *bytes, uint64_t n)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    if (n >= 512) {
        const __m512i f = wide_factor(FOLD_256);
        __m512i x[4];
        for (int i = 0; i < 4; i++)
            x[i] = _mm512_loadu_si512(p + (size_t)64 * (size_t)i);
        x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
        for (n -= 256, p += 256; n >= 256; n -= 256, p += 256)
            for (int i = 0; i < 4; i++) {
                _mm_prefetch((const void *)((uintptr_t)p + AHEAD + 64u * (unsigned)i), _MM_HINT_T0);
                x[i] = wide_fold(x[i], f, _mm512_loadu_si512(p + (size_t)64 * (size_t)i));
            }
        crc = wide_end(x);
    }
    return ~scalar_part(crc, p, n);
}

static void make_tables(void)
{
    make_byte_table();
    make_zeros_table(long_table, LONG);
    make_zeros_table(short_table, SHORT);
}

static int has_vpclmul(void)
{
    return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
}

static uint32_t list(crc32c_function *at[3])
{
    uint32_t n = 0;
    if (has_vpclmul())
        at[n++] = by_vpclmul;
    if (__builtin_cpu_supports("sse4.2"))
        at[n++] = by_sse42;
    return n;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

#define HAS_CRC (1ul << 7) /* of AT_HWCAP: HWCAP_CRC32 */

/* The instruction by its encoding's name, so that no header of a newer architecture is needed. */
__attribute__((target("+crc"))) static uint32_t by_instruction(uint32_t crc, const void *bytes,
                                                               uint64_t n)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        __asm__("crc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    }
    for (; n; n--, p++)
        __asm__("crc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*p));
    return ~crc;
}

static void make_tables(void)
{
    make_byte_table();
}

static uint32_t list(crc32c_function *at[3])
{
    if (!(getauxval(AT_HWCAP) & HAS_CRC))
        return 0;
    at[0] = by_instruction;
    return 1;
}

#else
static void make_tables(void)
{
    make_byte_table();
}

static uint32_t list(crc32c_function *at[3])
{
    (void)at;
    return 0;
}
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static crc32c_function *variant[3]; /* that this CPU has, the fastest first, and the table */
static uint32_t variants;

static void choose(void)
{
    make_tables();
    variants = list(variant);
    variant[variants++] = by_table;
}

uint32_t crc32c(uint32_t crc, const void *bytes, uint64_t n)
{
    pthread_once(&once, choose);
    return variant[0](crc, bytes, n);
}
