/* run/memory_check.h: is there memory for the arenas of all ranks of this machine? */
#ifndef RUN_MEMORY_CHECK_H
#define RUN_MEMORY_CHECK_H

#include "plan/plan.h"

/* Bytes that the machine and the control groups of this process can give; `of` says in words which
 * of the two is the tighter. UINT64_MAX when neither says. Files are read below `root`, which is ""
 * but in tests. [setup] */
uint64_t room_free(const char *root, const char **of);

/* WEFT_NO_MEMORY with a sentence where the arenas of the ranks of `rank`'s machine, which lie in
 * host memory, need more than that together. Call it while no rank has taken its arena: before an
 * exchange that all ranks take part in. [setup] */
weft_status room_check(const plan_set *plans, const spec *s, uint32_t rank);

#endif
