/* config/words.c: the nearest known word, and text that is valid as a value.
 *
 * Optimal string alignment: the smallest number of insertions, deletions, replacements and swaps of
 * two neighbours that turn one word into the other; n * m steps. A word is near if at most a third
 * of its letters have to change, so two-letter words are never near each other. */
#include <string.h>

#include "config/store.h"

#define WORD_MAX 64

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t distance(const char *a, uint32_t n, const char *b, uint32_t m)
{
    uint32_t rows[3][WORD_MAX + 1]; /* the row being filled and the two before it */
    for (uint32_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t *now = rows[i % 3], *last = rows[(i - 1) % 3], *older = rows[(i + 1) % 3];
        now[0] = i;
        for (uint32_t j = 1; j <= m; j++) {
            uint32_t d = last[j - 1] + (a[i - 1] != b[j - 1]);
            d = least(d, least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = least(d, older[j - 2] + 1);
            now[j] = d;
        }
    }
    return rows[n % 3][m];
}

const char *config_nearest(const char *word, const char *const *words, uint32_t n)
{
    size_t len = strlen(word);
    const char *best = NULL;
    uint32_t best_distance = (uint32_t)len / 3 + 1;
    if (len > WORD_MAX)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        size_t m = strlen(words[i]);
        if (m > WORD_MAX)
            continue;
        uint32_t d = distance(word, (uint32_t)len, words[i], (uint32_t)m);
        if (d < best_distance) {
            best = words[i];
            best_distance = d;
        }
    }
    return best;
}

/* Length of the UTF-8 sequence at `s`, of at most `n` bytes; 0: invalid. Overlong forms, surrogates
 * and code points beyond U+10FFFF are invalid. */
static size_t sequence(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (!len || len > n || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool wrong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
                 (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return wrong ? 0 : len;
}

size_t config_utf8(const char *text, size_t n)
{
    size_t at = 0;
    for (size_t len; at < n && (len = sequence((const unsigned char *)text + at, n - at));
         at += len)
        ;
    return at;
}

bool config_text_lawful(const char *s)
{
    size_t n = strlen(s);
    if (n && (s[0] == ' ' || s[0] == '\t' || s[n - 1] == ' ' || s[n - 1] == '\t'))
        return false;
    if (config_utf8(s, n) < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)s[i];
        if ((b < 32 && b != '\t') || b == 127)
            return false;
        if (b == ';' && (!i || s[i - 1] == ' ' || s[i - 1] == '\t'))
            return false;
    }
    return true;
}
