/* schedule/deps.h: step dependencies, derived from the memory that steps read and write.
 *
 * A step that reads bytes depends on their last writer; a step that writes bytes depends on their
 * last writer and on all readers since. Used by the writer alone. */
#ifndef SCHEDULE_DEPS_H
#define SCHEDULE_DEPS_H

#include "schedule/program.h"

#define SCHED_NO_STEP UINT32_MAX /* number of a step of 0 bytes */

typedef struct sched_deps sched_deps;

sched_deps *sched_deps_create(void);
void sched_deps_destroy(sched_deps *t);
void sched_deps_read(sched_deps *t, uint32_t step, uint32_t buffer, uint64_t at, uint64_t bytes);
void sched_deps_write(sched_deps *t, uint32_t step, uint32_t buffer, uint64_t at, uint64_t bytes);
void sched_deps_after(sched_deps *t, uint32_t step, uint32_t earlier);

/* Fills in need, next and nexts of all steps. */
void sched_deps_finish(sched_deps *t, sched_program *p);

#endif
