/* job/launch/outcome.h: what a launcher makes of the messages and ends of its ranks: which rank
 * failed first and how, when the others have to end, what is printed, and the exit status.
 *
 * The root cause is found by decide/cause.h, since a rank that gives up because of another one may
 * end before that one. After that the other ranks have a second to end. A final message that
 * several ranks send is printed once. Pure but for the clock and the log: it knows no process, so
 * launchers of local and of remote ranks share it. */
#ifndef JOB_OUTCOME_H
#define JOB_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "job/launch/control.h"

typedef struct job_outcome job_outcome;

typedef struct job_launch_end {
    int status;  /* the launcher's exit status (launch.h) */
    bool failed; /* status 1 because `rank` failed, and no signal has asked for an end */
    uint32_t rank;
    bool said;     /* it ended by itself, and `why` is what it said */
    char why[256]; /* how, as printed */
} job_launch_end;

job_outcome *job_outcome_new(uint32_t ranks);
void job_outcome_free(job_outcome *o); /* NULL allowed */

/* Messages name the host of a rank; `host` is a static string or outlives `o`. */
void job_outcome_place(job_outcome *o, uint32_t rank, const char *host);

/* A record of rank `rank`: CONTROL_SAY, CONTROL_CAUSE or CONTROL_STATUS; others are ignored. */
void job_outcome_hear(job_outcome *o, uint32_t rank, const job_control_record *r);

/* `rank` is known to end, or has ended. True: the other ranks are to be told. Further calls for the
 * same rank, and calls after the ranks were killed, do nothing and return false. */
bool job_outcome_end(job_outcome *o, uint32_t rank, const job_control_record *end);

/* The process of `rank` no longer exists. */
void job_outcome_gone(job_outcome *o, uint32_t rank);

/* The host of `rank` cannot be reached: `rank` failed with `text`, whatever else is heard. */
void job_outcome_lost(job_outcome *o, uint32_t rank, const char *text);

/* Is it time to kill the remaining ranks? True at most once. */
bool job_outcome_due(job_outcome *o, uint64_t now);

/* Milliseconds until job_outcome_due() may change; -1: only by an event. */
int job_outcome_wait(const job_outcome *o, uint64_t now);

/* All ranks have been killed; `by_user`: a second signal asked for that. */
void job_outcome_killed(job_outcome *o, bool by_user);
bool job_outcome_is_killed(const job_outcome *o);

/* Print the messages of the ranks and how the job ended, and set all of *out. `asked`: the signal
 * that was passed on; 0: none. */
void job_outcome_conclude(const job_outcome *o, int asked, job_launch_end *out);

#endif
