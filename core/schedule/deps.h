/* schedule/deps.h: which step waits for which, from the memory that they read and write.
 *
 * A step that reads bytes waits for the last step that wrote them; one that writes bytes waits for
 * the last that wrote them and for all that have read them since. Used by the writer alone. */
#ifndef SCHEDULE_DEPS_H
#define SCHEDULE_DEPS_H

#include "schedule/program.h"

#define SCHED_NO_STEP UINT32_MAX /* what a step of no bytes is numbered */

typedef struct sched_deps sched_deps;

sched_deps *sched_deps_create(void);
void sched_deps_destroy(sched_deps *t);
void sched_deps_read(sched_deps *t, uint32_t step, uint32_t buffer, uint64_t at, uint64_t bytes);
void sched_deps_write(sched_deps *t, uint32_t step, uint32_t buffer, uint64_t at, uint64_t bytes);
void sched_deps_after(sched_deps *t, uint32_t step, uint32_t earlier);

/* Fill in need, next and nexts of all steps. */
void sched_deps_finish(sched_deps *t, sched_program *p);

#endif
