/* job/host_map.h: topology of the ranks of a job: which ranks share a machine, and the NUMA
 * distance between a rank's cores and the network interface that leads to the other ranks. */
#ifndef JOB_HOST_MAP_H
#define JOB_HOST_MAP_H

#include "job/job.h"

typedef struct job_hosts {
    uint32_t ranks, machines;
    uint32_t *machine;  /* [ranks] machine of each rank, numbered in order of first appearance */
    uint32_t cpu_ranks; /* ranks of this machine with the same CPU affinity as this one, itself
                           included: they divide those CPUs; 0: unknown */
    uint32_t cpu_rank;  /* this rank's number among them, from 0 */
    uint32_t
        *distance; /* [ranks] NUMA distance as the system reports it; 0: unknown or irrelevant */
} job_hosts;

/* Exchange host identities and set local_rank, local_ranks and address of `who` (and of the job).
 * Ranks with the same boot id are on one host and share its cores and GPUs, even in separate
 * containers. Where the environment says otherwise, a warning is logged and the detected values are
 * used.
 *
 * Ranks share a machine if boot id, network namespace and process namespace are equal. Two
 * containers on one host are two machines here, since neither sees the other's memory. `j` NULL:
 * one rank. Owned by the caller. [setup] [collective] */
weft_status job_find_hosts(job *j, job_identity *who, job_hosts *out);

/* The host map of `machines` equal machines with consecutive ranks, for planning without ranks. */
void job_even_hosts(uint32_t ranks, uint32_t machines, job_hosts *out);
void job_free_hosts(job_hosts *s);

#endif
