/* job/launch/launch.h: start N ranks of this program on this machine and stand by them.
 *
 * The ranks are direct children with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set.
 * The job key and the store's listening socket reach them as inherited descriptors. When one dies
 * the launcher says which and how, tells the others, gives them a second to say where they were,
 * and kills what is left. When the launcher dies, the kernel kills the ranks.
 *
 * What ranks print. A rank hands the sentence that it ends with to job_launch_say() instead of
 * printing it. When all ranks have ended the launcher prints each different sentence once: as "rank
 * R: sentence", or alone where all ranks say the same. Of a request that was refused (status 2 or
 * 77) only the sentence of the rank that refused it is printed. The last line names the rank that
 * failed first and how, unless its own sentence has said so. */
#ifndef JOB_LAUNCH_H
#define JOB_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCH_MAX 1024 /* ranks on one machine */

/* Run `argv` (argv[0] is this program's own path; what is run is this very program, also when the
 * file has been replaced) as `ranks` children. Returns the exit status for the launcher itself: 0,
 * STOP_STATUS when the ranks stopped on request (stop.h), or the status of the rank that failed
 * first if it ended by itself with 1, 2 or 77, else 1.
 *
 * SIGINT, SIGTERM, SIGHUP and, if the ranks handle requests to stop (`stops`: they call
 * job_stop_catch()), SIGUSR1 are passed on once. A second of these signals kills all ranks, but for
 * SIGUSR1 again, SIGTERM after SIGUSR1, and SIGTERM within half a second of another (some senders
 * signal twice). SIGTSTP stops all ranks. Call it from the main thread, before any other is
 * started: the ranks die with the thread that started them. [setup] */
int job_launch_ranks(uint32_t ranks, char *const argv[], bool stops);

/* In a rank: have the launcher print `text`. False when no launcher of ours is there, and the
 * caller has to print it. [any] */
bool job_launch_say(const char *text);

#endif
