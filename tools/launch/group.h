/* launch/group.h: the ranks of this machine as child processes, for the launcher of a job on
 * this machine (launch.h) and for the agent of a launcher elsewhere (hosts/agent.h).
 *
 * One loop over three kinds of descriptors: the pidfd of each child (it has ended), the control
 * socket of each child (its messages), and one of the caller's. What they report goes to the
 * caller's functions. */
#ifndef LAUNCH_GROUP_H
#define LAUNCH_GROUP_H

#include "job/control/control.h"
#include "launch/spawn.h"

typedef struct launch_group launch_group;

/* All are called from launch_group_wait(), with the number of the rank in the job. */
typedef struct launch_group_events {
    void *user;
    void (*on_record)(void *user, uint32_t rank, const job_control_record *r);
    /* It is dying or has ended, and was not killed by launch_group_kill(); once a rank. */
    void (*ended)(void *user, uint32_t rank, const job_control_record *end);
    void (*gone)(void *user, uint32_t rank); /* it has been reaped */
} launch_group_events;

/* Start the ranks of `s` (spawn.h), whose descriptors are closed here. On failure *out is a group
 * of those that have been started, and the rest are reported as gone: kill it and wait for its end.
 * The ranks die with the thread that calls. [setup] */
weft_status launch_group_start(launch_spawn *s, const launch_group_events *e, launch_group **out);
void launch_group_free(launch_group *g); /* after all ranks have ended; NULL allowed */

uint32_t launch_group_alive(const launch_group *g);

/* Wait for `own` (-1: none) or for events of the ranks, at most `ms` milliseconds (-1: no limit),
 * and report the events. True: `own` is readable or has been closed by the other side. */
bool launch_group_wait(launch_group *g, int own, int ms);

/* Send a record about rank `r->rank` to all others. */
void launch_group_tell(launch_group *g, const job_control_record *r);

/* Send a signal to each rank's process group, or for SIGUSR1 and SIGXCPU to the ranks alone: their
 * child processes do not handle these. The number of a rank that has not been reaped is not reused.
 */
void launch_group_signal(launch_group *g, int number);

/* Kill all ranks. A dying rank may be writing a core dump, which SIGKILL would truncate: it is left
 * to end by itself unless it has to end now (`at_once`). */
void launch_group_kill(launch_group *g, bool at_once);

#endif
