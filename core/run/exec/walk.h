/* run/exec/walk.h: executes a list.
 *
 * A call runs its segment's kernels on the compute stream, a start submits a collective to its
 * link, a wait makes progress until the collective is done. Nothing is allocated or opened, every
 * wait has a deadline, and each entry is written to the flight record before it begins. */
#ifndef RUN_EXEC_WALK_H
#define RUN_EXEC_WALK_H

#include "run/exec/executor.h"

/* After the ranks were connected, if there are several. [setup] */
void run_walk_choose_kinds(run_executor *e);

/* Walks a list once. A failure is reported with rank, step and entry. [compute] [collective] */
weft_status run_exec_list(run_executor *e, const plan_list *l);

#endif
