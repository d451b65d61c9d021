/* formats/turn.c: elements of a box into another order of axes. See internal.h.
 *
 * Two axes matter: that along which elements follow each other at the source, and that along which
 * they do at the destination. A plane of these two is copied tile by tile, so that each line of
 * memory is fetched once on both sides; within a tile blocks of 4 x 4 are turned in registers. */
#include <string.h>

#include "formats/internal.h"

#define TILE 32u

/* The axis of the smallest stride, of those with more than one element. */
static uint32_t closest(const formats_turning *t, const uint64_t *stride)
{
    uint32_t best = t->rank;
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->size[i] > 1 && (best == t->rank || stride[i] < stride[best]))
            best = i;
    return best;
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
#define TAKE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)

/* Four lines, in_k apart, of four elements, as four lines that are out_i apart. */
static void block(const float *in, uint64_t in_k, float *out, uint64_t out_i)
{
    const four a = *(const four *)in, b = *(const four *)(in + in_k);
    const four c = *(const four *)(in + 2 * in_k), d = *(const four *)(in + 3 * in_k);
    const four ab = TAKE(a, b, 0, 4, 1, 5), cd = TAKE(c, d, 0, 4, 1, 5);
    const four ab2 = TAKE(a, b, 2, 6, 3, 7), cd2 = TAKE(c, d, 2, 6, 3, 7);
    *(four *)out = TAKE(ab, cd, 0, 1, 4, 5);
    *(four *)(out + out_i) = TAKE(ab, cd, 2, 3, 6, 7);
    *(four *)(out + 2 * out_i) = TAKE(ab2, cd2, 0, 1, 4, 5);
    *(four *)(out + 3 * out_i) = TAKE(ab2, cd2, 2, 3, 6, 7);
}

static void tile(const float *in, uint64_t in_i, uint64_t in_k, float *out, uint64_t out_i,
                 uint64_t out_k, uint64_t ni, uint64_t nk)
{
    const bool blocks = in_i == 1 && out_k == 1;
    const uint64_t i4 = blocks ? ni / 4 * 4 : 0, k4 = blocks ? nk / 4 * 4 : 0;
    for (uint64_t i = 0; i < i4; i += 4)
        for (uint64_t k = 0; k < k4; k += 4)
            block(in + i + k * in_k, in_k, out + i * out_i + k, out_i);
    for (uint64_t i = 0; i < ni; i++)
        for (uint64_t k = i < i4 ? k4 : 0; k < nk; k++)
            out[i * out_i + k * out_k] = in[i * in_i + k * in_k];
}

/* A plane of the axes i and k; the same one twice is a row. */
static void plane(const formats_turning *t, uint32_t i, uint32_t k, const float *in, float *out)
{
    if (i == k) {
        if (t->in[i] == 1 && t->out[i] == 1)
            memcpy(out, in, t->size[i] * sizeof *out);
        else
            tile(in, t->in[i], 0, out, t->out[i], 0, t->size[i], 1);
        return;
    }
    for (uint64_t a = 0; a < t->size[i]; a += TILE)
        for (uint64_t b = 0; b < t->size[k]; b += TILE) {
            const uint64_t ni = t->size[i] - a < TILE ? t->size[i] - a : TILE;
            const uint64_t nk = t->size[k] - b < TILE ? t->size[k] - b : TILE;
            tile(in + a * t->in[i] + b * t->in[k], t->in[i], t->in[k],
                 out + a * t->out[i] + b * t->out[k], t->out[i], t->out[k], ni, nk);
        }
}

void formats_turn(const formats_turning *t, const float *in, float *out)
{
    const uint32_t i = closest(t, t->in), k = closest(t, t->out);
    uint64_t at[WEFT_MAX_AXES] = {0}, planes = 1;
    if (i == t->rank) { /* no axis has more than one element */
        *out = *in;
        return;
    }
    for (uint32_t j = 0; j < t->rank; j++)
        planes *= j == i || j == k ? 1 : t->size[j];
    for (uint64_t n = 0; n < planes; n++) {
        uint64_t from = 0, to = 0;
        for (uint32_t j = 0; j < t->rank; j++) {
            from += at[j] * t->in[j];
            to += at[j] * t->out[j];
        }
        plane(t, i, k, in + from, out + to);
        for (uint32_t j = t->rank; j-- > 0;) {
            if (j == i || j == k)
                continue;
            if (++at[j] < t->size[j])
                break;
            at[j] = 0;
        }
    }
}
