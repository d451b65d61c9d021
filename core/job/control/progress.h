/* job/control/progress.h: how far the ranks of an attempt have come, for the process that may
 * start them again (launch/progress.h).
 *
 * One page of shared memory, which a rank that is killed leaves as it was: the step that each rank
 * has begun, the newest attempt that one has heard of, why the job has failed, the signal that
 * asked it to stop, and a count that moves while a rank lives. The number of the attempt is in the
 * environment (WEFT_ATTEMPT), 1 for a job that nobody restarts; so is the folder in which attempts
 * before it have written (WEFT_FOLDER, device and inode). Without a page the calls do nothing. */
#ifndef JOB_CONTROL_PROGRESS_H
#define JOB_CONTROL_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ATTEMPT_ENV "WEFT_ATTEMPT"
#define PROGRESS_FD_ENV "WEFT_PROGRESS_FD"
#define FOLDER_ENV "WEFT_FOLDER"
#define ATTEMPTS_MAX 1000000u
#define PROGRESS_WHY 200u

typedef struct job_progress_page {
    _Atomic uint32_t newest, signs, silence_ms, met;
    _Atomic int asked;
    _Atomic uint32_t failed;    /* 1: `why` is being written, 2: it is there */
    _Atomic uint64_t folder[2]; /* device, inode; 0: none */
    char why[PROGRESS_WHY];
    uint32_t own;            /* the words of the rank that failed begin at why[own], if it exists */
    _Atomic uint64_t step[]; /* [ranks] */
} job_progress_page;

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

/* The job has failed; only the first reason is kept. `own`: where in `why` the words of the rank
 * that failed begin; NULL: others saw it fail. [any] */
void job_progress_fail(const char *why, const char *own);

/* Signal `number` asks the job to stop, or this rank to end; only the first is kept.
 * Async-signal-safe after the first call of job_attempt_number(). [any] */
void job_progress_ask(int number);

/* A sign of life, promised every `silence_ms` at least; 0: it is the last. `met`: from rank 0, or
 * from one in touch with it. [any] */
void job_progress_sign(uint32_t silence_ms, bool met);

#endif
