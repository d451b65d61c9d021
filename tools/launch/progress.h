/* launch/progress.h: the page in which ranks say how far they have come, as the process that
 * started them reads it (job/control/progress.h). */
#ifndef LAUNCH_PROGRESS_H
#define LAUNCH_PROGRESS_H

#include <weft/base.h>

#include "job/control/progress.h"

typedef struct launch_progress launch_progress;

/* A page for `ranks` ranks, all at step 0. Its descriptor is close-on-exec. [setup] */
weft_status launch_progress_open(uint32_t ranks, launch_progress **out);
int launch_progress_fd(const launch_progress *p);
void launch_progress_close(launch_progress *p); /* NULL allowed */

/* The furthest step that a rank has begun, 0: none; that of one rank; the newest attempt that a
 * rank has heard of, 0: none. [any] */
uint64_t launch_progress_furthest(const launch_progress *p);
uint64_t launch_progress_of(const launch_progress *p, uint32_t rank);
uint32_t launch_progress_newest(const launch_progress *p);

/* Put the folder that rank 0 has noted, if any, into this process' environment, for the attempts
 * that follow. [setup] */
void launch_progress_keep_folder(const launch_progress *p);

/* Why the job has failed, as a rank has heard it; "": it has heard nothing. Where in `out` the
 * words of the rank that failed begin; NULL: others saw it fail. [any] */
const char *launch_progress_why(const launch_progress *p, char out[PROGRESS_WHY]);

/* The signal that asked ranks to stop, or one of them to end (SIGINT); 0: none did. `p` NULL: 0.
 * [any] */
int launch_progress_asked(const launch_progress *p);

/* Whether a rank is one of the job, rank 0 or in touch with it; of several ranks, whether the last
 * that gave a sign is. [any] */
bool launch_progress_met(const launch_progress *p);

/* The signs of life so far, which repeat after 2^32, and after how many milliseconds without one
 * the other ranks give up its rank; 0: it gives none now. Of several ranks the page has the last
 * sign that one of them gave. [any] */
uint32_t launch_progress_signs(const launch_progress *p, uint32_t *silence_ms);

#endif
