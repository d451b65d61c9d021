/* job/identity/mpirun.h: ranks that Open MPI's mpirun has started on one machine meet without being
 * told where, and share a key.
 *
 * mpirun numbers its runs (PMIX_NAMESPACE) and gives the processes of a run 128 random bits
 * (OMPI_MCA_orte_precondition_transports), by which networks of some vendors tell runs apart. They
 * are in the environment of these processes alone, which other users cannot read. On several
 * machines they are on command lines, too: there they are no secret. */
#ifndef JOB_IDENTITY_MPIRUN_H
#define JOB_IDENTITY_MPIRUN_H

#include <stdbool.h>
#include <weft/base.h>

#define JOB_MPIRUN_SECRET 16u

/* The port of this run, of the range of job_slurm_port(); 0: mpirun has not numbered it. [setup] */
uint16_t job_mpirun_port(void);

/* The random bits. False: there are none, so the ranks need a key file. [setup] */
bool job_mpirun_secret(uint8_t out[JOB_MPIRUN_SECRET]);

#endif
