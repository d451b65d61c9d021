/* job/host_map.h: where the ranks of a job are: which share a machine, and how far from a rank's
 * cores lies the network interface that leads to the others. */
#ifndef JOB_SITE_H
#define JOB_SITE_H

#include "job/job.h"

typedef struct job_sites {
    uint32_t ranks, machines;
    uint32_t *machine;  /* [ranks] numbered from 0 in the order of first appearance */
    uint32_t cpu_ranks; /* ranks of this machine with the same CPU affinity as this one, itself
                         * included: they divide those CPUs; 0: not known */
    uint32_t cpu_rank;  /* this rank's number among them, from 0 */
    uint32_t *distance; /* [ranks] as the system tells it of NUMA nodes; 0: unknown, or no matter */
} job_sites;

/* Ask all ranks, and set local_rank and local_ranks of `who` (and of the job) from what they say:
 * the ranks of one host, by its boot id, share its cores and GPUs, in containers of their own or
 * not. Where the environment has told something else, that is logged, and what was found holds.
 *
 * Two ranks share a machine when they share its boot and their namespaces of
 * networks and processes: two containers of one machine are two machines here, since neither sees
 * the other's memory. `j` NULL: one rank. Owned by the caller. [setup] [collective] */
weft_status job_find_hosts(job *j, job_identity *who, job_sites *out);

/* What `machines` alike would be: each has ranks that follow one another. For planning without
 * ranks. */
void job_even_hosts(uint32_t ranks, uint32_t machines, job_sites *out);
void job_free_hosts(job_sites *s);

#endif
