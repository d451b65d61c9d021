/* interleaved.c: one forward, one backward over several chunks a stage (Narayanan et al., 2021).
 *
 * A stage holds v chunks of the model, so data passes all stages v times and the idle share falls
 * to (p - 1) / (v m + p - 1). Forward works go in groups of p micro-batches: chunk 0 of all p, then
 * chunk 1 of them, and so on; backward works likewise from the last chunk. Stage s is
 * 2 (p - 1 - s) + (v - 1) p forward works ahead of its first backward. m has to be a multiple of p.
 * It loses by memory (activations of up to p - 1 + (v - 1) p more chunks) and by v times the
 * traffic between stages. */
#include "pp.h"

/* The k-th forward (or backward) work of every stage. */
static weft_work nth(const pp_shape *s, uint32_t k, bool backward)
{
    uint32_t turn = s->stages * s->chunks; /* works of a group of p micro-batches */
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
        ahead = all; /* one group: nothing could run in turn */
    for (uint32_t k = 0; k < ahead; k++)
        *out++ = nth(s, k, false);
    for (uint32_t k = ahead; k < all; k++) {
        *out++ = nth(s, k, false);
        *out++ = nth(s, k - ahead, true);
    }
    for (uint32_t k = all - ahead; k < all; k++)
        *out++ = nth(s, k, true);
}
