/* once.h: MPI in this process, for the plugins of this folder.
 *
 * MPI is initialized once a process, by the first object that needs it, and finalized at exit,
 * unless something has failed: finalizing would then wait for ranks that are gone. Its ranks are
 * those that mpirun has started; ranks that another launcher starts cannot meet over it, since Open
 * MPI connects separate programs only through a server of its own. */
#ifndef ACME_MPI_ONCE_H
#define ACME_MPI_ONCE_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/plugin.h>

static atomic_int mpi_failed;

static inline weft_status mpi_says(const weft_host *h, weft_status code, const char *what,
                                   int error)
{
    char text[MPI_MAX_ERROR_STRING + 100], why[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (error != MPI_SUCCESS)
        MPI_Error_string(error, why, &n);
    snprintf(text, sizeof text, "%s%s%s", what, n ? ": " : "", why);
    mpi_failed = 1;
    return h->fail(h->ctx, code, text);
}

static void mpi_finish(void)
{
    int over = 0;
    MPI_Finalized(&over);
    if (!over && !mpi_failed)
        MPI_Finalize();
}

/* Whether mpirun, or another launcher with the same interface, has started this process. */
static inline weft_status mpi_launched(const weft_host *h)
{
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK"))
        return WEFT_OK;
    return h->fail(h->ctx, WEFT_ABSENT,
                   "MPI has not started this rank: start the job by mpirun, as in mpirun -n 4 weft "
                   "train job.ini");
}

/* Initialize, with support for at least `threads`; `rank` of the job has to be MPI's own. */
static inline weft_status mpi_start(const weft_host *h, uint32_t rank, int threads)
{
    int on = 0, got = 0, mine = -1;
    weft_status st = mpi_launched(h);
    if (st != WEFT_OK)
        return st;
    MPI_Initialized(&on);
    if (!on && MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &got) != MPI_SUCCESS)
        return h->fail(h->ctx, WEFT_IO, "MPI_Init_thread failed");
    if (!on && atexit(mpi_finish) != 0)
        return h->fail(h->ctx, WEFT_NO_MEMORY, "no room for a function at exit");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Query_thread(&got);
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    if (got < threads)
        return h->fail(h->ctx, WEFT_UNSUPPORTED, "this MPI has too little support for threads");
    if ((uint32_t)mine != rank)
        return h->fail(h->ctx, WEFT_USAGE,
                       "this rank has another number in MPI_COMM_WORLD than in the job: let mpirun "
                       "alone number the ranks (unset RANK and WORLD_SIZE)");
    return WEFT_OK;
}

#endif
