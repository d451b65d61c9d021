/* job/control/once.h: what all ranks of a machine have to say is said by one of them.
 *
 * Our own launcher collects the last words of its ranks. Under srun and mpirun each rank prints its
 * own, and a wrong setting would come once for each. Before ranks have met, and after they have
 * parted, the machine is what they share. */
#ifndef JOB_CONTROL_ONCE_H
#define JOB_CONTROL_ONCE_H

#include "job/job.h"

/* Print the last words `text` of a rank that ends with `st`, or give them to our launcher. What is
 * wrong with a request (WEFT_USAGE, WEFT_ABSENT) is printed by the first of its run on this machine
 * that says it, which stays a second for that; by all where the launcher does not number its runs.
 * Call it at the end of a process. [setup] */
void job_once_say(const job_identity *who, weft_status st, const char *text);

#endif
