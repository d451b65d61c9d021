/* job/stop.h: stop on request: SIGTERM, SIGUSR1, SIGHUP or SIGXCPU to any rank, or to the launcher.
 *
 * Schedulers send these signals when a job's time is over, the kernel when a terminal is closed
 * (SIGHUP) or CPU time is used up (SIGXCPU). SIGHUP and SIGXCPU stay ignored in a process that
 * starts with them ignored (nohup). All ranks agree on a last step, finish it, save a checkpoint
 * and exit with STOP_STATUS; the job can be resumed from there.
 *
 * The threads of job.h make the agreement (decide/agreement.h) while training continues, and the
 * others catch up to the last step. If no rank has begun a step there is nothing to save, and all
 * waits of the job end with a failure that says so. Waits of the agreement end when a rank fails,
 * and at a timeout.
 *
 * A request may come before all ranks have met. Our launcher knows how each rank ends, so the ranks
 * that are there stop at once, and one that joins later is told the same. Other launchers often
 * send SIGTERM to the rest because one rank has failed, and STOP_STATUS would have the job started
 * again for ever. There the ranks go on joining for STOP_MEET_MS: they stop with STOP_STATUS when
 * all have met, else the job fails and names who is missing. A rank that is asked before it has
 * joined goes on in both cases, so that rank 0 hears of the request.
 *
 * The handler sets a flag and wakes the thread of the job; rank 0's looks every 50 ms. SIGINT ends
 * a rank after its step, without a checkpoint and with status 1; after a request it ends the
 * process (the launcher that of its ranks). Another request changes nothing. */
#ifndef JOB_STOP_H
#define JOB_STOP_H

#include "job/decide/event.h"
#include "job/job.h"

#define STOP_STATUS 75     /* exit status: stopped on request, nothing is lost (EX_TEMPFAIL) */
#define STOP_GRACE_MS 2000 /* a rank that must stop in set-up is ended after this time */
#define STOP_MEET_MS 10000 /* without our launcher: for ranks that are asked to stop to meet */

/* Install the handlers of SIGINT and of the signals above, and unblock them. `launched`: by our
 * launcher. [setup] */
void job_stop_catch(bool launched);

/* Attempts before this one have begun steps, so the same command would begin anew. What to do after
 * a stop before the first step. [any] */
void job_stop_later_attempt(void);
const char *job_stop_advice(void);

/* With `on`, a request ends the process in its handler, with STOP_STATUS, and SIGINT has its
 * default effect: for a job of one rank before its first step, and for a launcher that plans. [any]
 */
void job_stop_at_once(bool on);

/* An eventfd that the handlers write to, so that a thread that waits for it looks at once; -1:
 * none. [any] */
void job_stop_wake(int fd);

/* The signal that asked this process to stop; 0: none did. [any] */
int job_stop_asked(void);

/* Has SIGINT asked? [any] */
bool job_stop_interrupted(void);

/* "SIGTERM", for messages; "a signal" for 0. */
const char *job_stop_name(int number);

/* The signal that stopped the job before its first step: job_failure() then fails, and the exit
 * status is STOP_STATUS. 0: none did. [any] */
int job_stop_declared(void);

/* Ask for `step` before beginning it; steps are asked for in order. *number is 0 when it may begin,
 * else the signal that asked for the stop: the step before is the last one. Waits while the ranks
 * agree. Without a request it costs one atomic exchange and one load. `j` NULL: one rank.
 * [collective] */
weft_status job_stop_before(job *j, uint64_t step, int *number);

/* --- for the threads of a job, with its lock held --- */

/* Act on JOB_EVENT_LAST and JOB_EVENT_END_WAITS; other events are ignored. */
void job_stop_act(job *j, const job_event *e);

/* Without our launcher: the ranks have been asked to stop and have not met in STOP_MEET_MS. The job
 * fails; `why` says who is missing. */
void job_stop_unmet(job *j, int number, const char *why);

/* End this process if its waits were ended STOP_GRACE_MS ago and it has not left yet. */
void job_stop_end_overdue(const job *j);

#endif
