/* bad/devop/devop.h: a device that fails checks of ops, and a kernel of the op linear for it.
 *
 * acme.bad computes in fp32 on the calling thread, in plain loops: loops.c has the loops,
 * device.c the rest. It fuses accumulate and sumsq of one input. */
#ifndef BAD_DEVOP_H
#define BAD_DEVOP_H

#include "faults.h"

#include <weft/match.h>

enum { LANES = 16 }; /* sums in the workspace */

typedef void run_fn(weft_prepared *p, const void *const *in, void *const *out, float *workspace);
struct weft_prepared {
    const weft_host *host;
    run_fn *run;
    weft_match m;
    int64_t n, first, count[WEFT_MAX_OPERANDS];
    int32_t adds, gate, single, runs;
    uint32_t nin, nout, nsteps;
    weft_ew_step *steps;
    uint16_t out_reg[WEFT_MAX_OPERANDS];
    const void *in[WEFT_MAX_OPERANDS]; /* SHARED_POINTERS */
    void *out[WEFT_MAX_OPERANDS];
};

/* The size that a letter of the op's patterns has. */
static inline int64_t size_of(const weft_prepared *p, char letter)
{
    return p->m.size[letter - 'A'];
}

run_fn devop_accumulate, devop_sumsq, devop_both, devop_embedding_dw, devop_linear, devop_ew;

#endif
