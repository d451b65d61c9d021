/* job/mailbox.h: what the threads of a job share: wake-ups, answers, the failure record, and the
 * thread itself.
 *
 * All calls are made under the lock of the job unless [any] is given. They decide nothing and send
 * nothing to other ranks: server.c, members.c and client.c do. */
#ifndef JOB_MAILBOX_H
#define JOB_MAILBOX_H

#include "job/decide/event.h"
#include "job/launch/control.h"
#include "job/state.h"

#define JOB_LAUNCHER_ENDED "the launcher of this job has ended"

/* The thread looks at the flags of the job again. [any] */
void job_wake(job *j);

/* Wake the calls from outside that wait for `moved`. */
void job_notify(job *j);

/* Wait for `moved` until clock_ms() is `until`. False: the time is over. */
bool job_wait_moved(job *j, uint64_t until);

/* The answer to request `seq` of this rank; one that nobody waits for is dropped. */
void job_answer(job *j, uint32_t seq, weft_status st, const void *bytes, uint64_t n);

/* Record a failure and end all waits of this rank, without telling anybody. */
void job_record_failure(job *j, const char *text);

/* Record that `rank` is the root cause and tell the launcher. False: a failure is on record
 * already. */
bool job_record_cause(job *j, uint32_t rank, const char *text);

/* Returns WEFT_PEER with the record in this thread. */
weft_status job_fail_here(job *j);

/* What this rank knows now, for the decisions of decide/. */
job_view job_view_now(job *j);

/* 1: a record of the launcher; 0: none now; -1, once: the launcher has ended. */
int job_read_launcher(job *j, job_control_record *out);

/* What the ranks have found out by the host map: where this rank is, and whether all are on one
 * machine. [setup] */
void job_set_locality(job *j, const job_identity *who);

/* The one thread of the job. It takes no signal that another thread may handle. */
weft_status job_start_thread(job *j, void *(*body)(void *));

#endif
