/* fthenb.c: all forward passes, then all backward passes (GPipe, Huang et al., 2019).
 *
 *   stage 0   F0 F1 F2 F3 .  .  .  .  .  .  B0 B0 B1 B1 B2 B2 B3 B3
 *   stage 1   .  F0 F1 F2 F3 .  .  .  B0 B0 B1 B1 ...
 *
 * The bubble is (p - 1) / (m + p - 1) of the step for p stages and m micro-batches; with one
 * micro-batch it is the naive pipeline, (p - 1) / p. It loses by memory: every stage keeps the
 * activations of all m micro-batches. */
#include "pp.h"

void pp_fthenb(const pp_shape *s, weft_work *out)
{
    for (uint32_t c = 0; c < s->chunks; c++)
        for (uint32_t m = 0; m < s->passes; m++)
            *out++ = pp_cell(c, m, false);
    for (uint32_t c = s->chunks; c-- > 0;)
        for (uint32_t m = 0; m < s->passes; m++)
            *out++ = pp_cell(c, m, true);
}
