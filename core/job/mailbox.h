/* job/mailbox.h: what the threads of a job share: wake-ups, answers, the failure record, and the
 * job thread itself.
 *
 * All calls are made with the job lock held unless [any] is given. They make no decisions and send
 * nothing to other ranks: server.c, members.c and client.c do, in act() (state.h). */
#ifndef JOB_MAILBOX_H
#define JOB_MAILBOX_H

#include "job/state.h"

/* Wake the job thread so that it checks the flags of the job again. [any] */
void job_wake(job *j);

/* Wake the threads that wait for `moved` in calls of job.c. */
void job_notify(job *j);

/* Wait for `moved` until awake_ms() is `until`. False: timeout. */
bool job_wait_moved(job *j, uint64_t until);

/* Deliver the answer to request `seq` of this rank; it is dropped if nobody waits for it. */
void job_answer(job *j, uint32_t seq, weft_status st, const void *bytes, uint64_t n);

/* Record a failure and end all waits of this rank. Nothing is sent. */
void job_record_failure(job *j, const char *text);

/* Record that `rank` is the root cause and tell the launcher. `own`: where in `text` the words of
 * that rank begin; NULL: others saw it fail. False: a failure is already recorded. */
bool job_record_cause(job *j, uint32_t rank, const char *text, const char *own);

/* Copy the record to this thread and return WEFT_PEER. */
weft_status job_fail_here(job *j);

/* The current view of this rank, for the decisions of decide/. */
job_view job_view_now(job *j);

/* Ask decide/ what this means, and act on its answer: a sign that `rank` failed; a candidate that
 * is due; signal `number`, if it is not 0, which asked this process to stop; and what the launcher
 * has reported. */
void job_add_sign(job *j, uint32_t rank, uint32_t weight, const char *text);
void job_check_due(job *j);
void job_request_stop(job *j, int number);
void job_read_launcher(job *j);

/* Store the result of the host map: local rank, own address, and whether all ranks share one
 * machine. [setup] */
void job_set_locality(job *j, const job_identity *who);

/* Copy this rank's own address to `who`, once it has joined. [setup] */
void job_get_address(job *j, job_identity *who);

/* Start the job thread. It blocks every signal that another thread may handle. */
weft_status job_start_thread(job *j, void *(*body)(void *));

#endif
