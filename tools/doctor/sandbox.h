/* doctor/sandbox.h: runs a function in a child process, because it calls libraries or plugins that
 * may crash or hang. */
#ifndef DOCTOR_SANDBOX_H
#define DOCTOR_SANDBOX_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The JSON value that `what` returns in a child process, at most 4 MiB; the caller owns it. NULL
 * where the child crashes, exits or takes longer than `seconds` of base/time/pressure.h: `why` then
 * says which. Call it
 * while the process has one thread. [setup] */
json_t *doctor_run_sandboxed(json_t *(*what)(void *ctx), void *ctx, uint32_t seconds, char *why,
                             size_t size);

#endif
