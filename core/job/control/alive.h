/* job/control/alive.h: detect at once that a rank is dying, before the kernel has freed its memory.
 *
 * A killed process keeps its sockets open, and its pidfd silent, until its address space has been
 * torn down: about 40 ms for each GiB in pages of 4 KiB. Robust futexes are released before that
 * (exit_mm_release). So the launcher makes a page of shared memory with one futex word for each
 * rank. The job thread of a rank holds its word as a robust futex; the launcher waits for all words
 * with FUTEX_WAITV and reads from /proc/PID/stat how the rank dies.
 *
 * The page is only a hint: the launcher trusts no word of it before the kernel confirms that the
 * process is dying, and looks at each word a bounded number of times. Without FUTEX_WAITV (before
 * Linux 5.16), or where another launcher started the rank, a death is detected when the process has
 * ended. */
#ifndef JOB_CONTROL_ALIVE_H
#define JOB_CONTROL_ALIVE_H

#include <linux/futex.h>
#include <stdbool.h>
#include <sys/types.h>
#include <weft/base.h>

#include "job/control/control.h"

#define ALIVE_FD_ENV "WEFT_ALIVE_FD"

/* --- the launcher's side --- */

typedef struct job_alive_watch job_alive_watch;

/* The page for a job of `ranks` ranks, of which `count` from `first` on are watched. Its descriptor
 * is close-on-exec; ranks inherit it explicitly. NULL when the kernel refuses such memory: then
 * deaths are detected later, and nothing else changes. [setup] */
job_alive_watch *job_alive_open(uint32_t ranks, uint32_t first, uint32_t count);
int job_alive_page(const job_alive_watch *w); /* -1 for NULL */

/* Start threads that watch the page (they block all signals), and close its descriptor. Call it
 * after all ranks have been forked. NULL allowed. [setup] */
void job_alive_watch_begin(job_alive_watch *w);

/* Readable when a rank may be dying; -1 for NULL. */
int job_alive_watch_fd(const job_alive_watch *w);

/* The next rank that may be dying; false when there is none. */
bool job_alive_take(job_alive_watch *w, uint32_t *rank);

/* Ends the threads and frees `w`; NULL allowed. */
void job_alive_close(job_alive_watch *w);

/* How process `pid`, a child that has not been reaped, is dying: sets `kind` and `code` of `out`.
 * False when it is not known to be dying, or ends with status 0. [any] */
bool job_alive_how_dying(pid_t pid, job_control_record *out);

/* --- a rank's side --- */

typedef struct job_alive_hold {
    struct robust_list_head head, *before; /* before: the C library's, restored at release */
    struct robust_list entry;
    uint32_t *page; /* NULL: no word is held */
    uint64_t bytes;
    uint32_t rank;
} job_alive_hold;

/* Hold the word of `rank` on the calling thread until job_alive_release(). `h` must not move
 * meanwhile: the kernel reads it when the thread ends. Does nothing unless our launcher started
 * this process. The thread uses no other robust futex meanwhile. */
void job_alive_take_hold(job_alive_hold *h, uint32_t rank, uint32_t ranks);
void job_alive_release(job_alive_hold *h);

#endif
