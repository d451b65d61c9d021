/* run/view/progress.h: the progress line on standard error: updated in place on a terminal, one
 * line per report otherwise. Lines are dropped while nobody reads them (base/log.h). */
#ifndef RUN_VIEW_PROGRESS_H
#define RUN_VIEW_PROGRESS_H

#include "run/settings.h"
#include "run/view/metrics.h"

#include <stdbool.h>

typedef struct run_progress {
    uint64_t first, last, every; /* every 0: prints nothing */
    uint64_t began_ns, printed_ns, done;
    double tokens_per_s; /* smoothed */
    bool terminal, open;
} run_progress;

/* "0:35", "12:07:09": hours only where there are some. [any] */
void run_progress_duration(uint64_t seconds, char out[32]);

void run_progress_begin(run_progress *p, uint64_t first, uint64_t last, uint64_t every);
void run_progress_step(run_progress *p, const run_metrics *m);
void run_progress_end(run_progress *p); /* ends an open terminal line; may be called twice */

#endif
