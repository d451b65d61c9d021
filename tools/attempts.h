/* attempts.h: weft train as launcher: start the ranks, on this machine or on the hosts of
 * --hosts, and start them again when the job has failed (--restarts, launch/policy.h). */
#ifndef ATTEMPTS_H
#define ATTEMPTS_H

#include "cli/cli.h"
#include "launch/hosts/list.h"

typedef struct cli_attempts {
    const cli_job *job;
    bool stops;              /* the ranks handle requests to stop */
    uint32_t ranks;          /* of the first attempt */
    uint32_t max, least;     /* --restarts, --restarts-min; 0: none */
    launch_host_list *hosts; /* NULL: this machine */
    const char *ssh;

    /* The arguments of a rank where attempts before have begun step `furthest`; freed with free().
     */
    char **(*arguments)(const cli_job *j, uint64_t furthest);

    /* Can the job run with so many ranks? */
    weft_status (*check)(const cli_job *j, uint32_t ranks);
} cli_attempts;

/* Returns the exit status of the last attempt, or STOP_STATUS where a request to stop came between
 * two attempts. [setup] */
int cli_attempts_run(const cli_attempts *a);

#endif
