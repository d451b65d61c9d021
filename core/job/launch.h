/* job/launch.h: start N ranks of this program on this machine and stand by them.
 *
 * The ranks are direct children with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set.
 * The job key and the store's listening socket reach them as inherited descriptors. When one dies
 * the launcher says which and how, tells the others, gives them a second to say where they were, and
 * kills what is left. When the launcher dies, the kernel kills the ranks. */
#ifndef JOB_LAUNCH_H
#define JOB_LAUNCH_H

#include <stdint.h>

/* Run `argv` (argv[0] is this program's own path) as `ranks` children. Returns the exit status for
 * the launcher itself: 0, or the status of the rank that failed first. [setup] */
int launch_ranks(uint32_t ranks, char *const argv[]);

#endif
