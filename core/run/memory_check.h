/* run/memory_check.h: is there enough memory for the arenas of all ranks of this machine? */
#ifndef RUN_MEMORY_CHECK_H
#define RUN_MEMORY_CHECK_H

#include "plan/plan.h"
#include "run/prepare.h"

/* Bytes of memory available to this process: the minimum of what the machine has available and what
 * its control groups allow; *of is a phrase that says which. UINT64_MAX where neither is known.
 * Files are read below `root`, "" except in tests. [setup] */
uint64_t run_memory_available(const char *root, const char **of);

/* WEFT_NO_MEMORY if the arenas of all ranks on the machine of `rank` together need more host memory
 * than is available. Without this check each rank counts the same free memory for itself, and the
 * kernel kills one of them. Call it before any rank allocates its arena, that is before an exchange
 * of all ranks. [setup] */
weft_status run_memory_check(const plan_set *plans, const spec *s, uint32_t rank);

/* Whether the saves of this rank are asynchronous (checkpoint.async): with `auto`, if the machine
 * has host memory for the arenas and the copies of all its ranks. WEFT_NO_MEMORY if they are to be
 * and it has not. Call it after run_memory_check(). [setup] */
weft_status run_memory_check_copies(const run_prepared *j, uint32_t rank, bool *copies);

#endif
