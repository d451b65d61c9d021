/* world.h: MPI in this process.
 *
 * MPI can be initialized once a process. The first object that needs it starts the MPI thread,
 * which initializes MPI, does what blocks (making a communicator waits for its members) and
 * finalizes MPI at exit: so no call of a plugin waits for another rank. The thread lives until the
 * process exits, like those of the MPI library itself. After a failure MPI is not finalized,
 * because that would wait for ranks that are gone.
 *
 * Who else calls MPI depends on the support for threads that MPI grants:
 *
 *   MPI_THREAD_MULTIPLE     any thread of the core, at any time
 *   MPI_THREAD_SERIALIZED   the same, under one lock; who does not get it comes back later
 *   less                    the MPI thread alone: others leave it their operations (lane.h), and it
 *                           polls while there are any */
#ifndef WEFT_MPI_WORLD_H
#define WEFT_MPI_WORLD_H

#include "library.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Something for the MPI thread to do once. The memory is the caller's until `done` is 1. */
typedef struct mpi_job {
    void (*run)(void *arg);
    void *arg;
    atomic_int done;
    struct mpi_job *next;
} mpi_job;

/* Something that the MPI thread polls where it alone calls MPI. */
enum mpi_motion { MPI_IDLE, MPI_WAITS, MPI_MOVED };
typedef struct mpi_poller {
    enum mpi_motion (*poll)(void *arg);
    void *arg;
    struct mpi_poller *next;
} mpi_poller;

/* Begin to initialize, unless that is done; never blocks. [setup] */
weft_status mpi_world_begin(const weft_host *h, const weft_conf *conf);

/* WEFT_BUSY until MPI is initialized. A failure where it could not be, or has other ranks than the
 * job (ranks 0: their number is not known). [setup] */
weft_status mpi_world_ready(const weft_host *h, uint32_t rank, uint32_t ranks);
bool mpi_is_up(void);

/* The library; a communicator of all ranks, of this plugin alone, and another one for what links
 * say when they are aborted; the granted support for threads, as the constant of MPI. After
 * mpi_world_ready(). [any] */
const mpi_api *mpi_library(void);
MPI_Comm mpi_everyone(void);
MPI_Comm mpi_farewells(void);
int mpi_granted(void);

/* Whether this thread may call MPI now; if so, mpi_leave() follows. Never blocks. [any] */
bool mpi_enter(void);
void mpi_leave(void);

/* Have the MPI thread do it, after the jobs before. [any] */
void mpi_ask(mpi_job *job);

/* The same, and wait; false when it is not done in time: the memory of the job and of what it works
 * on then stays the thread's for good, and no later call waits. [setup] */
bool mpi_ask_and_wait(mpi_job *job, double seconds);

/* On the MPI thread only. */
void mpi_add_poller(mpi_poller *p);
void mpi_remove_poller(mpi_poller *p);

/* A poller has something new to do. [any] */
void mpi_nudge(void);

/* Something has failed: do not finalize. [any] */
void mpi_give_up(void);

/* Record MPI's sentence for an error. It does not say who has caused it. [any] */
weft_status mpi_says(const weft_host *h, weft_status code, const char *what, int error);

#endif
