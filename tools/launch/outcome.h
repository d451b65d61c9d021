/* launch/outcome.h: what a launcher makes of the messages and ends of its ranks: which rank
 * failed first and how, when the others have to end, what is printed, and the exit status.
 *
 * The root cause is found by decide/cause.h, since a rank that gives up because of another one may
 * end before that one. After that the other ranks have a second to end. A final message that
 * several ranks send is printed once. Pure but for the clock and the log: it knows no process, so
 * launchers of local and of remote ranks share it. */
#ifndef LAUNCH_OUTCOME_H
#define LAUNCH_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "job/control/control.h"

#define LAUNCH_ALL UINT32_MAX /* in place of a rank */

typedef struct launch_outcome launch_outcome;

typedef struct launch_end {
    int status;    /* the launcher's exit status (launch.h) */
    bool failed;   /* status 1 because `rank` failed, and no signal has asked for an end */
    uint32_t rank; /* or LAUNCH_ALL */
    int asked;     /* the signal that asked for an end; 0: none */
    bool said;     /* it ended by itself, and `why` is what it said */
    char why[256]; /* how, as printed */
} launch_end;

launch_outcome *launch_outcome_new(uint32_t ranks);
void launch_outcome_free(launch_outcome *o); /* NULL allowed */

/* Messages name the host of a rank; `host` is a static string or outlives `o`. */
void launch_outcome_place(launch_outcome *o, uint32_t rank, const char *host);

/* A record of rank `rank`: CONTROL_SAY, CONTROL_CAUSE or CONTROL_STATUS; others are ignored. */
void launch_outcome_receive(launch_outcome *o, uint32_t rank, const job_control_record *r);

/* `rank` is known to end, or has ended. True: the other ranks are to be told. Further calls for the
 * same rank, and calls after the ranks were killed, do nothing and return false. */
bool launch_outcome_end(launch_outcome *o, uint32_t rank, const job_control_record *end);

/* The process of `rank` no longer exists. */
void launch_outcome_gone(launch_outcome *o, uint32_t rank);

/* The host of `rank` cannot be reached: `rank` failed with `text`, whatever else is heard. */
void launch_outcome_lost(launch_outcome *o, uint32_t rank, const char *text);

/* All ranks that have not ended are frozen, with `text` as the cause: no single one is to blame. */
void launch_outcome_frozen(launch_outcome *o, const char *text);

/* Is it time to kill the remaining ranks? True at most once. `now`: pressure_ms(). */
bool launch_outcome_due(launch_outcome *o, uint64_t now);

/* Milliseconds until launch_outcome_due() may change; -1: only by an event. */
int launch_outcome_wait(const launch_outcome *o, uint64_t now);

/* All ranks have been killed; `by_user`: a second signal asked for that. */
void launch_outcome_killed(launch_outcome *o, bool by_user);
bool launch_outcome_is_killed(const launch_outcome *o);

/* Print the messages of the ranks and how the job ended, and set all of *out. `asked`: the signal
 * that was passed on, `by_ranks`: one that ranks got; 0: none. */
void launch_outcome_conclude(const launch_outcome *o, int asked, int by_ranks, launch_end *out);

#endif
