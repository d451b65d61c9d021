/* job/control/alive.h: detect at once that a rank is dying, before the kernel has freed its memory.
 *
 * A killed process keeps its sockets open, and its pidfd silent, until its address space has been
 * torn down: about 40 ms for each GiB in pages of 4 KiB. Robust futexes are released before that
 * (exit_mm_release). So the launcher makes a page of shared memory with one futex word for each
 * rank, and waits for all words (launch/dying.h). The job thread of a rank holds its word as a
 * robust futex.
 *
 * A word is 0 until its rank holds it, then the thread's number with FUTEX_WAITERS, so that the
 * kernel wakes the launcher. The kernel sets FUTEX_OWNER_DIED when the thread ends while it holds
 * the word; a rank that leaves in good order writes 0. */
#ifndef JOB_CONTROL_ALIVE_H
#define JOB_CONTROL_ALIVE_H

#include <linux/futex.h>
#include <stdint.h>

#define ALIVE_FD_ENV "WEFT_ALIVE_FD"

/* Of the page. [any] */
uint64_t job_alive_bytes(uint32_t ranks);

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
