/* job/decide/agreement.h: which step is the last of a job that was asked to stop (job/stop.h).
 *
 * The rank that got the signal asks rank 0 (request). Rank 0 asks every rank for the step that it
 * has begun (begin); each rank answers and begins no later one (hold). The maximum of the answers
 * is the last step (count, settle). 0: no rank has begun a step, so there is nothing to save.
 *
 * Pure; the caller acts on the event (event.h). `begun` and `last` are atomic because the training
 * thread reads and writes them without the lock: it stores `begun` before it loads `last`, and hold
 * stores `last` before it loads `begun`. */
#ifndef JOB_AGREEMENT_H
#define JOB_AGREEMENT_H

#include <signal.h>
#include <stdatomic.h>

#include "job/decide/event.h"

/* Add the signals that ask for a stop to *set. */
void job_agreement_add_signals(sigset_t *set);

/* Does this signal ask for a stop? */
bool job_agreement_asks(int number);

/* `number` if it asks for a stop, else SIGTERM: for a number that another rank has sent. */
int job_agreement_signal(int number);

typedef struct job_agreement {
    _Atomic uint64_t begun; /* the step that this rank has begun or asks for; 0: none yet */
    _Atomic uint64_t last;  /* later steps do not begin; 0: none does until the ranks agree */
    int number;             /* the signal that asked */
    bool asked;             /* the signal that this process got was passed on */
    bool held, agreed;      /* held: the agreement has begun; agreed: the last step is known */
    uint64_t since;         /* awake_ms() when all waits were ended; 0: they were not */
} job_agreement;

/* This process got signal `number` (0: none). Rank 0 begins, another rank gets ASK_STOP. */
job_event job_agreement_request(job_agreement *a, const job_view *v, int number);

/* Rank 0: a rank asks for a stop. HOLD, or NONE when the agreement has already begun. */
job_event job_agreement_begin(job_agreement *a, const job_view *v, int number);

/* Another rank: rank 0 asks for the step that has begun. HOLD with that step. */
job_event job_agreement_hold(job_agreement *a, int number);

/* Rank 0, for each rank: merge its answer into *last. False: it has not answered yet. For a rank
 * that has left, *last becomes UINT64_MAX: it had no step left, so nobody stops. A rank that has
 * not joined is ignored, since no rank has begun a step then. */
bool job_agreement_count(bool joined, bool left, bool held, uint64_t begun, uint64_t *last);

/* All ranks have answered: the event is LAST, or END_WAITS when `last` is 0. */
job_event job_agreement_finish(job_agreement *a, int number, uint64_t last);

#endif
