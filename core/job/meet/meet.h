/* job/meet/meet.h: a rank other than 0 finds rank 0 and joins the job.
 *
 * Rank 0 may start later, its name may resolve later, and its kernel holds this rank's connection
 * in a queue behind others. So attempts are repeated until run.join_timeout. The caller of
 * job_join() does this; the thread that serves the connection begins afterwards. */
#ifndef JOB_MEET_H
#define JOB_MEET_H

#include "job/beats/beats.h"

/* A job_resolve_wait() of the job `j` before its thread runs: a failure that the launcher reports
 * and signals end it, WEFT_PEER. [setup] */
weft_status job_meet_wait_readable(void *j, int fd, uint64_t until);

/* Connect b->store and say hello until rank 0 has welcomed this rank. WEFT_PEER: it was not reached
 * in time, or the job has failed. WEFT_USAGE: it refuses this rank. The socket is closed on
 * failure. [setup] */
weft_status job_meet_rank0(job_beats *b);

#endif
