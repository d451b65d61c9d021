/* launch/dying.h: which ranks are dying, before the kernel has freed their memory
 * (job/control/alive.h).
 *
 * Threads wait for the words of all ranks with FUTEX_WAITV, and /proc/PID/stat says how a rank
 * dies. The page is only a hint: no word of it is trusted before the kernel confirms that the
 * process is dying, and each word is looked at a bounded number of times. Without FUTEX_WAITV
 * (before Linux 5.16), or where another launcher started the rank, a death is detected when the
 * process has ended. */
#ifndef LAUNCH_DYING_H
#define LAUNCH_DYING_H

#include <stdbool.h>
#include <sys/types.h>

#include "job/control/control.h"

typedef struct launch_dying launch_dying;

/* The page for a job of `ranks` ranks, of which `count` from `first` on are watched. Its descriptor
 * is close-on-exec; ranks inherit it explicitly. NULL when the kernel refuses such memory: then
 * deaths are detected later, and nothing else changes. [setup] */
launch_dying *launch_dying_open(uint32_t ranks, uint32_t first, uint32_t count);
int launch_dying_page(const launch_dying *w); /* -1 for NULL */

/* Start threads that watch the page (they block all signals), and close its descriptor. Call it
 * after all ranks have been forked. NULL allowed. [setup] */
void launch_dying_begin(launch_dying *w);

/* Readable when a rank may be dying; -1 for NULL. */
int launch_dying_fd(const launch_dying *w);

/* The next rank that may be dying; false when there is none. */
bool launch_dying_take(launch_dying *w, uint32_t *rank);

/* Ends the threads and frees `w`; NULL allowed. */
void launch_dying_close(launch_dying *w);

/* How process `pid`, a child that has not been reaped, is dying: sets `kind` and `code` of `out`.
 * False when it is not known to be dying, or ends with status 0. [any] */
bool launch_dying_how(pid_t pid, job_control_record *out);

#endif
