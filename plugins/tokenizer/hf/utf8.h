/* utf8.h: characters of UTF-8, and what Unicode says of them. */
#ifndef HF_UTF8_H
#define HF_UTF8_H

#include <stdbool.h>
#include <stdint.h>

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

/* GPT-2's alphabet: a character for each byte, printable ones of Latin-1 for themselves, the others
 * from U+0100 on. -1: the character stands for no byte. */
uint32_t utf8_of_byte(unsigned char byte);
int utf8_to_byte(uint32_t c);

#endif
