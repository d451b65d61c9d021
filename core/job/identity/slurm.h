/* job/identity/slurm.h: what Slurm's variables say of a step: where its ranks meet and which share
 * a node. Texts of the environment are input from outside: every length is checked.
 *
 * A list of nodes is "n[01-03,7],m2", where brackets may come more than once in a name. */
#ifndef JOB_IDENTITY_SLURM_H
#define JOB_IDENTITY_SLURM_H

#include <stdbool.h>
#include <stddef.h>
#include <weft/base.h>

/* The first node of a list. False: not such a list, or longer than `bytes`. [any] */
bool job_slurm_first_node(const char *list, char *out, size_t bytes);

/* The port of a step where srun has reserved none: 20000 to 32767, below the ports that Linux hands
 * out by itself. Steps of a job and jobs that follow each other have different ones. [any] */
uint16_t job_slurm_port(uint32_t job, uint32_t step);

/* NodeAddr of a node in SLURM_NODE_ALIASES ("n1:[10.0.0.1]:host,..."), which Slurm sets in clouds;
 * or in what `scontrol show node` prints. False: it is not there, or says no more than the name.
 * [any]
 */
bool job_slurm_alias(const char *aliases, const char *node, char *out, size_t bytes);
bool job_slurm_shown(const char *text, const char *node, char *out, size_t bytes);

/* NodeAddr of a node, where its name does not resolve: from SLURM_NODE_ALIASES, else from scontrol,
 * which is started and asks the controller. May wait for both. [any] */
bool job_slurm_node_address(const char *node, char *out, size_t bytes);

typedef struct job_slurm_step {
    char addr[256]; /* the node of rank 0; "127.0.0.1" where the step has one node */
    uint16_t port;
    uint32_t local_ranks; /* on this node; 0: not known */
} job_slurm_step;

/* Read SLURM_STEP_NODELIST, SLURM_JOB_NODELIST, ..._HET_GROUP_*, SLURM_STEP_RESV_PORTS,
 * SLURM_JOB_ID, SLURM_STEP_ID, SLURM_GTIDS and SLURMD_NODENAME. WEFT_USAGE: what is missing or
 * wrong. [setup] */
weft_status job_slurm_read(job_slurm_step *out);

#endif
