/* base/number/hex.h: bytes as hexadecimal digits. */
#ifndef BASE_NUMBER_HEX_H
#define BASE_NUMBER_HEX_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char hex_digits[] = "0123456789abcdef";

/* 2n digits and a NUL. */
static inline void hex_write(const uint8_t *bytes, uint32_t n, char *out)
{
    for (uint32_t i = 0; i < 2 * n; i++)
        out[i] = hex_digits[i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4];
    out[2 * n] = 0;
}

/* The bytes that 2n digits say, of either case. False, and nothing is written: `text` begins
 * otherwise. */
static inline bool hex_parse(const char *text, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i < 2 * n; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    for (uint32_t i = 0; i < 2 * n; i++) {
        const char *digit = strchr(hex_digits, tolower((unsigned char)text[i]));
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | (digit - hex_digits));
    }
    return true;
}

#endif
