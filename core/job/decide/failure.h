/* job/decide/failure.h: from signs of a failure to one record that every rank agrees on.
 *
 * Rank 0 monitors the others and tells them of failures; the others monitor only rank 0. A rank
 * adds what the launcher reports about a third rank as an uncertain sign, so that the report of
 * rank 0, which knows how far that rank had come, can be first. The first record counts.
 *
 * Pure; the caller acts on the event (event.h). */
#ifndef JOB_FAILURE_H
#define JOB_FAILURE_H

#include "job/control/control.h"
#include "job/decide/event.h"

typedef enum job_seen {
    JOB_SEEN_UNKNOWN, /* this rank does not monitor that one */
    JOB_SEEN_NEVER,   /* it has not joined */
    JOB_SEEN_AT,      /* it has joined; step and place are its last report, 0 and 0: no report */
} job_seen;

typedef struct job_sign {  /* a sign that `rank` failed */
    uint32_t rank, weight; /* weight: a JOB_CAUSE_ */
    const char *text;      /* continues "rank R " */
    job_seen seen;
    const char *host; /* of that rank, to be named; NULL: unknown, or all ranks have the same */
    bool left;        /* it has left; known only at rank 0 */
    uint64_t step, place;
} job_sign;

/* Add a sign to the candidate. JOB_EVENT_FAILURE when the root cause is certain, else NONE. */
job_event job_failure_sign(job_cause *c, const job_view *v, const job_sign *s);

/* JOB_EVENT_FAILURE when the candidate has been held long enough, else NONE. */
job_event job_failure_due(const job_cause *c, const job_view *v);

/* The launcher reports how a rank ended. `s` is what is known about that rank; its weight and text
 * are not read. JOB_EVENT_END_WAITS: that rank was stopped by request before its first step. */
job_event job_failure_ended(job_cause *c, const job_view *v, const job_control_record *r,
                            const job_sign *s);

#endif
