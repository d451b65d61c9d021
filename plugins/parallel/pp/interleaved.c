/* interleaved.c: interleaved 1F1B, several model chunks per stage (Narayanan et al., 2021).
 *
 * A stage holds v chunks of the model, so data passes all stages v times and the bubble falls to (p
 * - 1) / (v m + p - 1) of the step. Forward passes run in groups of p micro-batches: chunk 0 of all
 * p, then chunk 1, and so on; backward passes likewise from the last chunk. Stage s runs 2 (p - 1 -
 * s) + (v - 1) p forward passes before its first backward pass. m must be a multiple of p. It loses
 * by memory (activations of up to p - 1 + (v - 1) p more chunks) and by v times the traffic between
 * stages. */
#include "pp.h"

/* The k-th forward (or backward) pass of a stage; the order is the same on every stage. */
static weft_work nth(const pp_shape *s, uint32_t k, bool backward)
{
    uint32_t turn = s->stages * s->chunks; /* passes of a group of p micro-batches */
    uint32_t chunk = k % turn / s->stages;
    uint32_t pass = k / turn * s->stages + k % s->stages;
    return pp_cell(backward ? s->chunks - 1 - chunk : chunk, pass, backward);
}

void pp_interleaved(const pp_shape *s, weft_work *out)
{
    uint32_t all = s->chunks * s->passes;
    uint32_t ahead = 2 * (s->stages - 1 - s->stage) + (s->chunks - 1) * s->stages;
    ahead = ahead < all ? ahead : all;
    if (s->passes == s->stages)
        ahead = all; /* one group: no room to alternate */
    for (uint32_t k = 0; k < ahead; k++)
        *out++ = nth(s, k, false);
    for (uint32_t k = ahead; k < all; k++) {
        *out++ = nth(s, k, false);
        *out++ = nth(s, k - ahead, true);
    }
    for (uint32_t k = all - ahead; k < all; k++)
        *out++ = nth(s, k, true);
}
