/* library.h: the functions and handles of the MPI library, opened at run time.
 *
 * The types are those of the mpi.h that the plugin was compiled with, so the library has to be of
 * the same implementation, or of one with the same binary interface: that of MPICH is also Intel's,
 * MVAPICH's and Cray's. Handles that are addresses in the library (Open MPI) are looked up like
 * functions; elsewhere they are numbers of the header. */
#ifndef WEFT_MPI_LIBRARY_H
#define WEFT_MPI_LIBRARY_H

#include <mpi.h>
#include <weft/plugin.h>

#define MPI_FUNCTIONS(X)                                                                           \
    X(Init_thread)                                                                                 \
    X(Initialized)                                                                                 \
    X(Finalized)                                                                                   \
    X(Finalize)                                                                                    \
    X(Query_thread)                                                                                \
    X(Get_library_version)                                                                         \
    X(Error_string)                                                                                \
    X(Comm_rank)                                                                                   \
    X(Comm_size)                                                                                   \
    X(Comm_dup)                                                                                    \
    X(Comm_free)                                                                                   \
    X(Comm_group)                                                                                  \
    X(Comm_create_group)                                                                           \
    X(Comm_set_errhandler)                                                                         \
    X(Group_incl)                                                                                  \
    X(Group_free)                                                                                  \
    X(Op_create)                                                                                   \
    X(Isend)                                                                                       \
    X(Irecv)                                                                                       \
    X(Iallreduce)                                                                                  \
    X(Ireduce_scatter_block)                                                                       \
    X(Iallgather)                                                                                  \
    X(Ibcast)                                                                                      \
    X(Ireduce)                                                                                     \
    X(Igather)                                                                                     \
    X(Iscatter)                                                                                    \
    X(Ialltoall)                                                                                   \
    X(Ibarrier)                                                                                    \
    X(Test)                                                                                        \
    X(Cancel)                                                                                      \
    X(Request_free)                                                                                \
    X(Get_count)

#define MPI_MEMBER(name) __typeof__(&MPI_##name) name;

typedef struct mpi_api {
    MPI_FUNCTIONS(MPI_MEMBER)
    MPI_Comm world;
    MPI_Errhandler errors_return;
    MPI_Datatype f32, f64, i32, i64, u16, u8;
    MPI_Op sum, max, min;
} mpi_api;

/* The library's functions, or NULL with WEFT_ABSENT and a sentence. Opened once a process and never
 * closed. `file` is its name or path; "auto": that of the implementation that the plugin was
 * compiled with. A second name is WEFT_USAGE. [setup] */
const mpi_api *mpi_load(const weft_host *h, const char *file);

/* Zeroed memory that MPI may go on using after a failure, when close() has returned: not the
 * host's, which counts what a plugin leaves. Given back with free(). NULL as weft_new() has it.
 * [setup] */
void *mpi_new(const weft_host *h, uint64_t bytes, weft_status *st);

/* Record a failure with a formatted sentence. */
weft_status mpi_fail(const weft_host *h, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
