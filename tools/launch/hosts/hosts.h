/* launch/hosts/hosts.h: the launcher of `weft train --hosts`: start the ranks of a job on other
 * machines by ssh, and watch them, for people without a scheduler.
 *
 * One ssh for each host starts an agent there (agent.h), all at once. When all agents answer, the
 * one of rank 0 opens the port where the ranks meet, and all start their ranks. The launcher
 * decides as that of one machine does (launch/outcome.h): agents relay what ranks say and how they
 * end, and the launcher relays signals and deaths. The job key goes through ssh and is on no disk.
 * When the launcher dies, its ssh processes die, the agents read the end of their input, and kill
 * the ranks. A host whose ssh ends while its ranks run is lost. */
#ifndef LAUNCH_HOSTS_HOSTS_H
#define LAUNCH_HOSTS_HOSTS_H

#include "launch/hosts/list.h"
#include "launch/outcome.h"

typedef struct launch_hosts_args {
    launch_host_list *hosts; /* those that are lost get no ranks, and are marked here */
    const char *ssh;         /* ssh.h */
    uint32_t ranks;          /* at most the slots of the hosts that are not lost */
    char *const *argv;       /* of the ranks */
    bool stops;              /* they handle requests to stop (launch.h) */
    uint32_t attempt;        /* as in launch.h */
    uint64_t *steps; /* [ranks] zeroed; the step that each rank has begun; NULL: not asked */
} launch_hosts_args;

typedef struct launch_hosts_end {
    launch_end launch;
    uint32_t lost; /* hosts that this attempt has lost: launch.failed, and launch.why names one */
} launch_hosts_end;

/* As launch_job() in launch.h. From the main thread before any other is started. [setup] */
void launch_on_hosts(const launch_hosts_args *args, launch_hosts_end *out);

#endif
