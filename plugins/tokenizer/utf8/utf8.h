/* utf8.h: characters of UTF-8, and what Unicode says of them. */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The character at s, in UTF-8 that is valid, and its bytes. */
static inline uint32_t utf8_next(const char *s, uint32_t *n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) {
        *n = 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *n = 2;
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    }
    if (p[0] < 0xf0) {
        *n = 3;
        return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    }
    *n = 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

static inline uint32_t utf8_bytes(unsigned char lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

uint32_t utf8_write(uint32_t c, char out[4]);

/* Bytes before the first that is not of a valid character; n where all are. */
uint64_t utf8_valid(const char *s, uint64_t n);

/* Bytes, at least 1, at s, where no valid character begins, that one U+FFFD stands for: the longest
 * beginning of a valid character, or one byte. */
uint64_t utf8_wrong(const char *s, uint64_t n);

/* White_Space; Nd, Nl, No; ASCII's and P*; letters, marks, digits and connectors; M*; Mn; C*. */
bool utf8_is_space(uint32_t c);
bool utf8_is_numeric(uint32_t c);
bool utf8_is_punctuation(uint32_t c);
bool utf8_is_word(uint32_t c);
bool utf8_is_mark(uint32_t c);
bool utf8_is_nonspacing(uint32_t c);
bool utf8_is_other(uint32_t c);

/* The ideographs that BertNormalizer puts spaces around. */
bool utf8_is_chinese(uint32_t c);

/* A letter, or a decimal digit, that every normalization leaves one, whatever stands beside it: it
 * does not decompose, it is a grapheme of its own, and it is no ideograph. */
bool utf8_is_firm(uint32_t c);

/* s[i] is a space between a firm character and a firm letter. */
bool utf8_is_gap(const char *s, uint64_t n, uint64_t i);

/* GPT-2's alphabet: a character for each byte, printable ones of Latin-1 for themselves, the others
 * from U+0100 on. -1: the character stands for no byte. */
uint32_t utf8_of_byte(unsigned char byte);
int utf8_to_byte(uint32_t c);

#ifdef __cplusplus
}
#endif

#endif
