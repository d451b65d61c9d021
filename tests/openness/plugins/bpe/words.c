/* words.c: the words of GPT-2's regular expression:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * A byte that is not part of UTF-8 is of the third kind. */
#include <string.h>

#include "bpe.h"

enum { BPE_OTHER, BPE_LETTER, BPE_NUMBER, BPE_SPACE };
typedef struct bpe_range {
    uint32_t first, last, kind;
} bpe_range;
#include "bpe_classes.h"

/* One character: its kind and its length. */
static uint32_t character(const unsigned char *s, uint64_t n, uint64_t *len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint32_t want = s[0] < 0xc2 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 1;
    uint32_t c = want == 1 ? s[0] : s[0] & (0x7fu >> want);
    *len = 1;
    if (want == 1 && s[0] >= 0x80)
        return BPE_OTHER;
    for (uint32_t i = 1; i < want; i++) {
        if (i >= n || (s[i] & 0xc0) != 0x80)
            return BPE_OTHER;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[want] && want > 1)
        return BPE_OTHER;
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return BPE_OTHER;
    *len = want;
    uint32_t low = 0, high = sizeof bpe_ranges / sizeof *bpe_ranges;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (c > bpe_ranges[mid].last)
            low = mid + 1;
        else if (c < bpe_ranges[mid].first)
            high = mid;
        else
            return bpe_ranges[mid].kind;
    }
    return BPE_OTHER;
}

static uint64_t contraction(const unsigned char *s, uint64_t n)
{
    static const char *const ends[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n >= strlen(ends[i]) && !memcmp(s, ends[i], strlen(ends[i])))
            return strlen(ends[i]);
    return 0;
}

uint64_t bpe_word(const unsigned char *s, uint64_t n, int last)
{
    if (!last && n < BPE_AHEAD)
        return 0;
    uint64_t at = contraction(s, n), len = 0, before = 0;
    if (at)
        return at;
    uint32_t kind = character(s, n, &len);
    if (*s == ' ' && n > 1 && character(s + 1, n - 1, &len) != BPE_SPACE) {
        kind = character(s + 1, n - 1, &len);
        at = 1;
    }
    for (; at < n; at += len) {
        if (!last && n - at < BPE_AHEAD)
            return 0;
        const uint32_t now = character(s + at, n - at, &len);
        if (at + len > BPE_WORD)
            return at;
        if (now != kind)
            return kind == BPE_SPACE && before ? before : at;
        before = at;
    }
    return last ? at : 0;
}
