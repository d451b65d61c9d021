/* run/view/progress.h: how far the run is: one line that rewrites itself on a terminal, plain lines
 * in a log. On standard error. */
#ifndef RUN_VIEW_PROGRESS_H
#define RUN_VIEW_PROGRESS_H

#include "run/state/outdir.h"

typedef struct progress {
    uint64_t first, last, every; /* every 0: says nothing */
    uint64_t began_ns, done;
    double tokens_per_s; /* smoothed */
    bool terminal, open;
} progress;

void progress_begin(progress *p, uint64_t first, uint64_t last, uint64_t every);
void progress_step(progress *p, const metrics *m);
void progress_end(progress *p); /* ends an open terminal line; may be called twice */

#endif
