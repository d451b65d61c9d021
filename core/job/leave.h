/* job/leave.h: what job.c asks of leave.c, besides job_leave(). */
#ifndef JOB_LEAVE_H
#define JOB_LEAVE_H

#include "job/job.h"

/* End the job's thread and close the connections of the store; state that sessions and other
 * threads use stays. */
void job_part(job *j);

/* This process is a rank of `j`, which has been joined, until job_forget(): if a call of a plugin
 * does not return, the watchdog ends the rank as a failure of `j`. */
void job_remember(job *j);
void job_forget(job *j);

#endif
