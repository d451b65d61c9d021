/* formats/turn.c: elements of a box into another order of axes. See internal.h.
 *
 * Two axes matter: that along which elements follow each other at the source, and that along which
 * they do at the destination. A plane of these two is copied tile by tile, so that each line of
 * memory is fetched once on both sides. */
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

static void tile(const float *in, uint64_t in_i, uint64_t in_k, float *out, uint64_t out_i,
                 uint64_t out_k, uint64_t ni, uint64_t nk)
{
    for (uint64_t i = 0; i < ni; i++)
        for (uint64_t k = 0; k < nk; k++)
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
