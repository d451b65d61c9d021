/* bad/stages.c: the pipeline of the tree with a schedule of its own for 1F1B, which waits for ever
 * in HANGS: with an odd number of micro-batches the last stage runs all its forward passes before a
 * backward pass, while the stages before it wait for one. */
#include "../../../plugins/parallel/pp/balance.c"
#include "../../../plugins/parallel/pp/fthenb.c"
#include "../../../plugins/parallel/pp/interleaved.c"
#include "../../../plugins/parallel/pp/tied.c"
#include "faults.h"

#include "../../../plugins/parallel/pp/pp.c"

void pp_onefoneb(const pp_shape *s, weft_work *out)
{
    const bool late = BAD == HANGS && s->passes % 2 && s->stage + 1 == s->stages;
    uint32_t ahead = late ? s->passes : s->stages - 1 - s->stage;
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
