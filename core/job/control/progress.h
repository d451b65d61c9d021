/* job/control/progress.h: how far the ranks of an attempt have come, as the process that may start
 * them again sees it.
 *
 * One page of shared memory: the step that each rank has begun, the newest attempt that a rank has
 * heard of, why the job has failed, the signal that asked it to stop, and a count that moves while
 * a rank lives. A rank that is killed leaves what it wrote. The number of the attempt is in the
 * environment (WEFT_ATTEMPT), 1 for a job that nobody restarts. So is the folder in which attempts
 * before this one have written (WEFT_FOLDER, device and inode): another folder may have its name by
 * now. */
#ifndef JOB_CONTROL_PROGRESS_H
#define JOB_CONTROL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <weft/base.h>

#define ATTEMPT_ENV "WEFT_ATTEMPT"
#define PROGRESS_FD_ENV "WEFT_PROGRESS_FD"
#define FOLDER_ENV "WEFT_FOLDER"
#define ATTEMPTS_MAX 1000000u

/* --- the side that starts ranks --- */

typedef struct job_progress job_progress;

/* A page for `ranks` ranks, all at step 0. Its descriptor is close-on-exec. [setup] */
weft_status job_progress_open(uint32_t ranks, job_progress **out);
int job_progress_fd(const job_progress *p);
void job_progress_close(job_progress *p); /* NULL allowed */

/* The furthest step that a rank has begun, 0: none; that of one rank; the newest attempt that a
 * rank has heard of, 0: none. [any] */
uint64_t job_progress_furthest(const job_progress *p);
uint64_t job_progress_of(const job_progress *p, uint32_t rank);
uint32_t job_progress_newest(const job_progress *p);

/* Put the folder that rank 0 has noted, if any, into this process' environment, for the attempts
 * that follow. [setup] */
void job_progress_keep_folder(const job_progress *p);

#define PROGRESS_WHY 200u

/* Why the job has failed, as a rank has heard it; "": it has heard nothing. True: the rank that
 * failed has said so itself, false: others saw it. [any] */
bool job_progress_why(const job_progress *p, char out[PROGRESS_WHY]);

/* The signal that asked ranks to stop, or one of them to end (SIGINT); 0: none did. `p` NULL: 0.
 * [any] */
int job_progress_asked(const job_progress *p);

/* The signs of life so far, which repeat after 2^32, and after how many milliseconds without one
 * the other ranks give up its rank; 0: it gives none now. Of several ranks the page has the last
 * sign that one of them gave. [any] */
uint32_t job_progress_signs(const job_progress *p, uint32_t *silence_ms);

/* --- a rank's side; without such a page the calls do nothing --- */

/* The attempt that this process belongs to, 1 at least. [any] */
uint32_t job_attempt_number(void);

/* Rank 0 writes into the open folder; the folder of attempts before this one, false: none has noted
 * one. [setup] */
void job_progress_folder(int folder);
bool job_attempt_folder(uint64_t *device, uint64_t *number);

/* This rank begins `step`: one store. [any] */
void job_progress_step(uint32_t rank, uint64_t step);

/* Another process of the job belongs to a newer attempt. [any] */
void job_progress_receive(uint32_t attempt);

/* The job has failed; only the first reason is kept. `said`: by the rank that failed. [any] */
void job_progress_fail(const char *why, bool said);

/* Signal `number` asks the job to stop, or this rank to end; only the first is kept.
 * Async-signal-safe after the first call of job_attempt_number(). [any] */
void job_progress_ask(int number);

/* A sign of life, promised every `silence_ms` at least; 0: there will be no more. [any] */
void job_progress_sign(uint32_t silence_ms);

#endif
