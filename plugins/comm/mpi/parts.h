/* parts.h: what the files of the plugin mpi use of each other.
 *
 *   library.c   the MPI library, opened at run time
 *   launcher.c  whether an MPI launcher has started this process
 *   network.c   networks that only MPI uses well
 *   world.c     MPI once a process: initialization, the MPI thread, finalization
 *   lane.c      queues of operations, started and tested in order
 *   reduce16.c  sums, maxima and minima of bf16 and fp16
 *   coll.c      collectives (weft.coll/1): component "mpi"
 *   pairs.c     messages between pairs of ranks (weft.link/1): component "mpi_pairs"
 *   plugin.c    options, probes, manifest */
#ifndef WEFT_MPI_PARTS_H
#define WEFT_MPI_PARTS_H

#include "library.h"

#include <stdbool.h>
#include <weft/coll.h>
#include <weft/link.h>

/* Both components: the host, and what belongs to one job. */
typedef struct mpi_module {
    const weft_host *host;
    weft_comm *group; /* coll.c: communicators with operations in the open group */
} mpi_module;

/* WEFT_OK where an MPI launcher has started this process with the rank and the number of ranks of
 * the job (while planning: with any); else a sentence. Calls no function of MPI. */
weft_status mpi_launched(const weft_host *h);

/* WEFT_OK where MPI can serve memory of a device with these caps, in this process: mpi_launched(),
 * and the library is there. Does not initialize MPI. */
weft_status mpi_usable(const weft_host *h, const weft_conf *conf, uint32_t device_caps);

/* The name of a network of this machine that only MPI uses well, or NULL. Files are read below
 * `root`, which is "" outside of tests. */
const char *mpi_network(const char *root);

/* The MPI operator for 16-bit floats: elements are widened to fp32, combined and rounded, wherever
 * MPI combines two. bf16 unless `is_f16`. On the MPI thread, after initialization. */
int mpi_make_op16(const mpi_api *mpi, bool is_f16, uint32_t redop, MPI_Op *out);

extern const weft_coll_table mpi_coll;
extern const weft_link_table mpi_pairs;

#endif
