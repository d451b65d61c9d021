/* utf8.c: see utf8.h. */
#include <string.h>
#include <utf8proc.h>

#include "utf8.h"

uint32_t utf8_write(uint32_t c, char out[4])
{
    return (uint32_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}

/* The bytes of the valid beginning of a character at s: *whole says whether it is one. */
static uint32_t beginning(const unsigned char *s, uint64_t n, bool *whole)
{
    const unsigned char lead = s[0];
    *whole = lead < 0x80;
    if (lead < 0xc2 || lead > 0xf4)
        return *whole;
    const uint32_t want = utf8_bytes(lead);
    const unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char max = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (n < 2 || s[1] < least || s[1] > max)
        return 1;
    uint32_t have = 2;
    while (have < want && have < n && (s[have] & 0xc0) == 0x80)
        have++;
    *whole = have == want;
    return have;
}

uint64_t utf8_valid(const char *s, uint64_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    uint64_t i = 0;
    while (i < n) {
        uint64_t eight;
        while (n - i >= 8) {
            memcpy(&eight, p + i, 8);
            if (eight & 0x8080808080808080u)
                break;
            i += 8;
        }
        if (i == n)
            break;
        bool whole;
        const uint32_t bytes = beginning(p + i, n - i, &whole);
        if (!whole)
            break;
        i += bytes;
    }
    return i;
}

uint64_t utf8_wrong(const char *s, uint64_t n)
{
    bool whole;
    const uint32_t bytes = beginning((const unsigned char *)s, n, &whole);
    return bytes ? bytes : 1;
}

bool utf8_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool utf8_is_numeric(uint32_t c)
{
    if (c < 0x80)
        return c >= '0' && c <= '9';
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool utf8_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c > 32 && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
               (c > 'z' && c < 127);
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool utf8_is_mark(uint32_t c)
{
    const utf8proc_category_t k = c < 0x300 ? UTF8PROC_CATEGORY_LL : category(c);
    return k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME;
}

bool utf8_is_nonspacing(uint32_t c)
{
    return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN;
}

bool utf8_is_word(uint32_t c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               c == '_';
    const utf8proc_category_t k = category(c);
    if ((k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC)
        return true; /* L*, M*, Nd, Nl: they are neighbours in utf8proc's list */
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c ||
           c == 0x200d; /* Other_Alphabetic, Join_Control */
}

bool utf8_is_other(uint32_t c)
{
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_CN || (k >= UTF8PROC_CATEGORY_CC && k <= UTF8PROC_CATEGORY_CO);
}

bool utf8_is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

bool utf8_is_firm(uint32_t c)
{
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    const bool letter = p->category >= UTF8PROC_CATEGORY_LU && p->category <= UTF8PROC_CATEGORY_LO;
    const bool alone = p->boundclass == UTF8PROC_BOUNDCLASS_OTHER ||
                       p->boundclass == UTF8PROC_BOUNDCLASS_LV ||
                       p->boundclass == UTF8PROC_BOUNDCLASS_LVT;
    return (letter || p->category == UTF8PROC_CATEGORY_ND) && alone &&
           p->decomp_seqindex == UINT16_MAX && !utf8_is_chinese(c);
}

bool utf8_is_gap(const char *s, uint64_t n, uint64_t i)
{
    uint32_t bytes;
    if (s[i] != ' ' || !i || i + 1 >= n)
        return false;
    uint64_t before = i - 1;
    while (before && i - before < 4 && ((unsigned char)s[before] & 0xc0) == 0x80)
        before--;
    const char *next = s + i + 1;
    const uint64_t left = i - before, right = utf8_bytes((unsigned char)*next);
    if (utf8_valid(s + before, left) < left || right > n - i - 1 || utf8_valid(next, right) < right)
        return false;
    const uint32_t a = utf8_next(s + before, &bytes), b = utf8_next(next, &bytes);
    return utf8_is_firm(a) && utf8_is_firm(b) && category(b) != UTF8PROC_CATEGORY_ND;
}

static bool stands_for_itself(uint32_t c)
{
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

/* The others, in order: 0 to 32, 127 to 160, 173. */
uint32_t utf8_of_byte(unsigned char byte)
{
    if (stands_for_itself(byte))
        return byte;
    return 256u + (byte <= 32 ? byte : byte <= 160 ? byte - 127u + 33u : 67u);
}

int utf8_to_byte(uint32_t c)
{
    if (c < 256)
        return stands_for_itself(c) ? (int)c : -1;
    const uint32_t i = c - 256;
    return i <= 32 ? (int)i : i <= 66 ? (int)(i - 33 + 127) : i == 67 ? 173 : -1;
}
