/* base/number/check.h: the one helper for sums and products whose operands come from outside.
 *
 * Each returns true and writes *out when the result fits, false otherwise; use it wherever a
 * length, count, shape or offset was read from a file, a socket or an INI. */
#ifndef BASE_NUMBER_CHECK_H
#define BASE_NUMBER_CHECK_H

#include <stdbool.h>
#include <stdint.h>

static inline bool check_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool check_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* [off, off + len) lies inside [0, size). */
static inline bool check_range(uint64_t off, uint64_t len, uint64_t size)
{
    return off <= size && len <= size - off;
}

/* `v` rounded up to a multiple of `align`, a power of two. */
static inline bool check_align(uint64_t v, uint64_t align, uint64_t *out)
{
    if (!check_add(v, align - 1, out))
        return false;
    *out &= ~(align - 1);
    return true;
}

/* The decimal number at *at, of digits alone, which is then behind it; false: there is none, or it
 * is above `max`. */
static inline bool check_number(const char **at, uint64_t max, uint64_t *out)
{
    const char *digit = *at;
    uint64_t v = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        if (!check_mul(v, 10, &v) || !check_add(v, (uint64_t)(*digit - '0'), &v) || v > max)
            return false;
    const bool any = digit != *at;
    *at = digit;
    *out = v;
    return any;
}

#endif
