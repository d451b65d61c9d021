/* run/exec/arena.h: waiting for the device, and copies between host memory and the arena.
 *
 * Offsets are bytes from the start of the arena. Each function enqueues on the compute stream and
 * returns when the device has finished, or WEFT_IO after the executor's deadline. Call them during
 * set-up and between lists. */
#ifndef RUN_EXEC_ARENA_H
#define RUN_EXEC_ARENA_H

#include "run/exec/executor.h"

/* Wait until the device has finished everything on the compute stream. [compute] */
weft_status run_exec_sync(run_executor *e);

weft_status run_exec_write(run_executor *e, uint64_t offset, const void *from, uint64_t bytes);
weft_status run_exec_read(run_executor *e, uint64_t offset, void *to, uint64_t bytes);
weft_status run_exec_zero(run_executor *e, uint64_t offset, uint64_t bytes);

/* A pointer to `bytes` of the arena: the arena itself where the host can read it, else a copy that
 * `copies` owns. */
weft_status run_exec_view(run_executor *e, uint64_t offset, uint64_t bytes, pool *copies,
                          const void **out);

/* The value of one of the plan's scalars. WEFT_INTERNAL where the plan has no such scalar. */
weft_status run_exec_scalar(run_executor *e, const char *name, double *out);

/* Write the initial values of all of the plan's scalars. [setup] */
weft_status run_exec_set_scalars(run_executor *e);

#endif
