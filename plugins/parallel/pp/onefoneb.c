/* onefoneb.c: 1F1B, one forward, one backward (PipeDream-flush, Narayanan et al., 2021).
 *
 * Stage s of p runs p - 1 - s forward passes (warm-up), then alternates one forward and one
 * backward pass, then runs the remaining backward passes:
 *
 *   stage 0   F0 F1 .  .  B0 B0 F2 B1 B1 F3 B2 B2 .  B3 B3
 *   stage 1   .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3
 *
 * The bubble is that of F-then-B, (p - 1) / (m + p - 1) of the step, but stage s keeps the
 * activations of at most p - s micro-batches, whatever m is. It loses to the interleaved schedule
 * when m is small. */
#include "pp.h"

void pp_onefoneb(const pp_shape *s, weft_work *out)
{
    uint32_t ahead = s->stages - 1 - s->stage;
    ahead = ahead < s->passes ? ahead : s->passes;
    for (uint32_t m = 0; m < ahead; m++)
        *out++ = pp_cell(0, m, false);
    for (uint32_t m = ahead; m < s->passes; m++) {
        *out++ = pp_cell(0, m, false);
        *out++ = pp_cell(0, m - ahead, true);
    }
    for (uint32_t m = s->passes - ahead; m < s->passes; m++)
        *out++ = pp_cell(0, m, true);
}
