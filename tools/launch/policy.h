/* launch/policy.h: whether a job that has failed is started again, and with how many ranks.
 *
 * The rule. An attempt makes progress if a rank has begun a step beyond those of all attempts
 * before it. After `max` restarts in a row without progress the job ends with its history, so a
 * failure that comes back in the same step ends the job, and one that strikes now and then does
 * not. Restarts without progress wait 0, 1, 2, 4, ... seconds, at most 30.
 *
 * An attempt that fails before its first step and says the same as the attempt before it, such as
 * that a disk is full or that memory is refused, ends the job at once: the next would say so, too.
 *
 * With `least` a rank that fails twice in a row in the same step counts as lost: the next attempt
 * has fewer ranks. Which numbers are legal the job knows; the caller asks it.
 *
 * Pure: no clock, no process. */
#ifndef LAUNCH_POLICY_H
#define LAUNCH_POLICY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"

#define RESTART_TEXT 256
#define RESTART_PAUSE_MAX 30u /* seconds */

typedef struct launch_attempt {
    uint32_t number, ranks;
    uint64_t step;   /* the furthest that a rank has begun; 0: none */
    uint32_t rank;   /* that failed first; LAUNCH_ALL (outcome.h): no single one */
    uint64_t at;     /* the step in which it failed; 0: before the first */
    double seconds;  /* that the attempt took */
    bool said;       /* a rank ended by itself, and `why` from `reason` on is what it said */
    uint32_t reason; /* in bytes */
    char why[RESTART_TEXT];
} launch_attempt;

typedef struct launch_restarts {
    uint32_t max;   /* restarts in a row without progress */
    uint32_t least; /* ranks; 0: as many as at the start */

    uint64_t furthest; /* step of all attempts */
    uint32_t in_a_row; /* failures since the last progress */
    uint32_t same;     /* failures in a row of the same rank in the same step */
    bool repeats; /* the last attempt said what the one before it said, before its first step */
    VEC(launch_attempt) history;
} launch_restarts;

typedef enum {
    RESTART_END,   /* the job ends */
    RESTART_SAME,  /* start as many ranks again */
    RESTART_FEWER, /* start fewer, if the job allows it; else as RESTART_SAME */
} launch_restart;

/* What follows attempt `a`, which has failed. *pause: seconds to wait before the next. */
launch_restart launch_restarts_next(launch_restarts *r, const launch_attempt *a, uint32_t *pause);

/* The next attempt has fewer ranks: failures are counted anew. */
void launch_restarts_fewer(launch_restarts *r);

/* Log why no attempt follows the last one. */
void launch_restarts_say_end(const launch_restarts *r);

/* Log that signal `number` has ended the job before attempt `next`, and what to do. */
void launch_restarts_say_stopped(int number, uint32_t next);

/* A line for each attempt. */
void launch_restarts_print(const launch_restarts *r);

void launch_restarts_free(launch_restarts *r);

#endif
