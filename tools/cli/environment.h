/* cli/environment.h: the machine and the program that figures belong to. All [any]. */
#ifndef CLI_ENVIRONMENT_H
#define CLI_ENVIRONMENT_H

#include <jansson.h>
#include <stdint.h>

/* Date, host, system, processor, memory, load, and version, commit and ABI of weft, now: what
 * sweep.json and a run's run.json have as "environment". The caller owns it. */
json_t *cli_environment(void);

uint32_t cli_cpus(void); /* processors that this process may use */

#endif
