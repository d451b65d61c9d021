/* check/link/lengths.h: how long the messages of tests are.
 *
 * A transport changes its way at lengths that a test does not know: where a message fills a slot, a
 * page or a buffer, where it is split over several paths, and how. Such a boundary is a power of
 * two or a value of an option. What goes wrong there does so beside it: at a byte less or more, or
 * where the pieces of a split message are not equal. */
#ifndef CHECK_LINK_LENGTHS_H
#define CHECK_LINK_LENGTHS_H

#include <stdint.h>
#include <string.h>

#define LENGTHS_MAX 512u  /* for up to 16 boundaries beside the powers of two */
#define LENGTHS_PIECES 3u /* a message is up to so many times a boundary */

typedef struct check_length_set {
    uint64_t at[LENGTHS_MAX]; /* ascending, each once */
    uint32_t n;
} check_length_set;

static inline void lengths_add(check_length_set *l, uint64_t bytes, uint64_t max)
{
    uint32_t i = l->n;
    while (i > 0 && l->at[i - 1] >= bytes)
        i--;
    if (bytes > max || l->n == LENGTHS_MAX || (i < l->n && l->at[i] == bytes))
        return;
    memmove(&l->at[i + 1], &l->at[i], (l->n - i) * sizeof *l->at);
    l->at[i] = bytes;
    l->n++;
}

/* Those of one to three pieces that are as long as the boundary: a byte less, equal, a byte more,
 * and a byte more for each piece but one. */
static inline void lengths_around(check_length_set *l, uint64_t boundary, uint64_t max)
{
    for (uint64_t k = 1; k <= LENGTHS_PIECES && boundary; k++) {
        const uint64_t all = k * boundary;
        lengths_add(l, all - 1, max);
        lengths_add(l, all, max);
        lengths_add(l, all + 1, max);
        lengths_add(l, all + k - 1, max);
    }
}

/* Around each power of two up to `max`. */
static inline void lengths_begin(check_length_set *l, uint64_t max)
{
    l->n = 0;
    for (uint64_t boundary = 1; boundary <= max; boundary *= 2)
        lengths_around(l, boundary, max);
}

/* Up to sixteen pieces of one power of two, and a byte more for some of them. */
static inline uint64_t lengths_pieces(uint64_t max, uint64_t random)
{
    const uint64_t k = 1 + random % 16, more = random / 16 % (k + 1);
    uint64_t powers = 0;
    while ((k << (powers + 1)) + k <= max)
        powers++;
    const uint64_t all = (k << (random / 512 % (powers + 1))) + more;
    return all <= max ? all : max;
}

/* Up to `max`: mostly one of the set, else of many pieces, or any; `random` is 64 random bits. */
static inline uint64_t lengths_draw(const check_length_set *l, uint64_t max, uint64_t random)
{
    uint32_t n = l->n;
    while (n > 1 && l->at[n - 1] > max)
        n--;
    const uint64_t kind = random % 8, rest = random / 8;
    return kind > 2 ? l->at[rest % n] : kind ? lengths_pieces(max, rest) : rest % (max + 1);
}

#endif
