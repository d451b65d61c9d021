/* plugins/parallel/pp: what its files share. */
#ifndef PP_H
#define PP_H

#include <stdbool.h>
#include <weft/strategy.h>

/* A schedule: the order in which one stage works, written to `out`, which has room for
 * 2 * chunks * passes cells. Each schedule is one file. */
typedef struct pp_shape {
    uint32_t stages, stage; /* how many; which */
    uint32_t chunks;        /* runs of blocks a stage */
    uint32_t passes;        /* micro-batches */
} pp_shape;
typedef void pp_schedule(const pp_shape *s, weft_work *out);

pp_schedule pp_fthenb, pp_onefoneb, pp_interleaved;

static inline weft_work pp_cell(uint32_t chunk, uint32_t pass, bool backward)
{
    return (weft_work){chunk, pass, backward ? WEFT_WORK_BACKWARD : WEFT_WORK_FORWARD, 0};
}

/* balance.c: cut n costs into `parts` runs, each with at least one, so that the dearest run is as
 * cheap as can be; end[k] is where run k ends. `parts` is at most n. */
weft_status pp_balance(const weft_host *host, const double *cost, uint32_t n, uint32_t parts,
                       uint32_t *end);

/* tied.c: parameters that blocks of several stages use. Makes a group of the stages for each, or,
 * with `sync`, sums its gradient over that group. stage: [block] */
weft_status pp_tied(const weft_host *host, const weft_view *view, const weft_edits *edits,
                    const char *axis, const uint32_t *stage, uint32_t stages, bool sync);

weft_status pp_fail(const weft_host *host, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
