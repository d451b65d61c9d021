/* launch/launch.h: the launcher: start N ranks of this program on this machine and watch them.
 *
 * The ranks are direct children with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set.
 * They inherit descriptors of the job key and of the store's listening socket. When a rank dies the
 * launcher reports which and how, tells the others, gives them a second to report where they were,
 * and kills the rest; so it does when all ranks are frozen (vigil.h). When the launcher dies, the
 * kernel kills the ranks.
 *
 * Output: a rank passes its final message to job_control_say() instead of printing it. When all
 * ranks have ended the launcher prints each different message once: as "rank R: message", or alone
 * where all ranks say the same. For a rejected request (status 2 or 77) only the message of the
 * rank that rejected it is printed. The last line names the rank that failed first and how, unless
 * its own message has said so. */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/outcome.h"
#include "launch/progress.h"

#define LAUNCH_MAX 1024 /* ranks on one machine */

/* Run `argv` as `ranks` children. argv[0] is this program's own path; the running program itself is
 * executed, even if the file has been replaced. Returns the exit status for the launcher: 0,
 * STOP_STATUS when the ranks stopped on request (stop.h), or the status of the rank that failed
 * first if it ended by itself with 1, 2 or 77, else 1.
 *
 * SIGINT, SIGTERM, SIGHUP and, if the ranks handle requests to stop (`stops`: they call
 * job_stop_catch()), SIGUSR1 and SIGXCPU are passed on once. SIGINT after one of these signals
 * kills all ranks; any other one repeats the request. SIGTSTP stops all ranks. Call it from the
 * main thread, before any other is started: the ranks die with the thread that started them.
 * [setup] */
int launch_ranks(uint32_t ranks, char *const argv[], bool stops);

/* The same for an attempt at a job, which may be started again (policy.h). */
typedef struct launch_args {
    uint32_t ranks;
    char *const *argv;
    bool stops;
    uint32_t attempt;                /* its number, in the environment of the ranks; 0: none */
    const launch_progress *progress; /* lent to the ranks; tells whether all are frozen, what they
                                        were asked; NULL: none */
} launch_args;

void launch_job(const launch_args *args, launch_end *out);

#endif
