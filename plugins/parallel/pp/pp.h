/* plugins/parallel/pp: declarations shared by its files. */
#ifndef PP_H
#define PP_H

#include <stdbool.h>
#include <weft/strategy.h>

/* Input of a schedule. A schedule writes the order in which one stage runs its passes to `out`,
 * which has room for 2 * chunks * passes entries. Each schedule is one file. */
typedef struct pp_shape {
    uint32_t stages, stage; /* number of stages; this stage */
    uint32_t chunks;        /* runs of consecutive blocks per stage */
    uint32_t passes;        /* micro-batches */
} pp_shape;
typedef void pp_schedule(const pp_shape *s, weft_work *out);

pp_schedule pp_fthenb, pp_onefoneb, pp_interleaved;

static inline weft_work pp_cell(uint32_t chunk, uint32_t pass, bool backward)
{
    return (weft_work){chunk, pass, backward ? WEFT_WORK_BACKWARD : WEFT_WORK_FORWARD, 0};
}

/* balance.c: partition n costs into `parts` consecutive non-empty runs so that the maximum cost of
 * a run is minimal; end[k] is where run k ends. `parts` is at most n. */
weft_status pp_balance(const weft_host *host, const double *cost, uint32_t n, uint32_t parts,
                       uint32_t *end);

/* tied.c: parameters that blocks of several stages use. Makes a group of those stages for each, or,
 * with `sync`, sums its gradient over that group. stage: [block] */
weft_status pp_tied(const weft_host *host, const weft_view *view, const weft_edits *edits,
                    const char *axis, const uint32_t *stage, uint32_t stages, bool sync);

weft_status pp_fail(const weft_host *host, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
