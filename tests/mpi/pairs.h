/* pairs.h: the cases of the plugin's pairs, in two ranks that mpirun has started. */
#ifndef MPI_PAIRS_H
#define MPI_PAIRS_H

#include "check/link/link.h"

void mpi_check_pairs(check_run *r);

#endif
