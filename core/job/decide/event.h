/* job/decide/event.h: input and output of the decisions of this folder.
 *
 * The functions of failure.h and agreement.h are pure: they read a view and an observation, update
 * the state that they are given, and return an event. They send nothing, wake no thread and take no
 * lock. server.c, members.c and client.c act on the event. */
#ifndef JOB_EVENT_H
#define JOB_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "job/decide/cause.h"

typedef struct job_view { /* what a rank knows about itself and the job */
    uint32_t rank, ranks;
    bool rank0;       /* it monitors all other ranks; the others monitor only rank 0 */
    bool launched;    /* our launcher started the ranks and reports how they end */
    bool failed;      /* a failure is on record */
    bool all_left;    /* all ranks have left in good order */
    bool stop_agreed; /* the last step is known */
    bool begun;       /* this rank has begun a step */
    uint64_t now;     /* awake_ms() */
} job_view;

typedef enum job_event_kind {
    JOB_EVENT_NONE,
    JOB_EVENT_FAILURE,   /* `rank` failed, `text` says how: record it and tell all ranks */
    JOB_EVENT_ASK_STOP,  /* ask rank 0 to stop, because of signal `number` */
    JOB_EVENT_HOLD,      /* this rank has begun `step` and begins no later one; rank 0 asks the
                            others for theirs, another rank answers rank 0 */
    JOB_EVENT_LAST,      /* `step` is the last one: wake the threads that wait for it */
    JOB_EVENT_END_WAITS, /* no rank has begun a step: end all waits of this rank; `number` is the
                            signal, 0: the one that this process got */
} job_event_kind;

typedef struct job_event {
    job_event_kind kind;
    uint32_t rank;
    int number;
    uint64_t step;
    char text[JOB_CAUSE_TEXT];
} job_event;

#endif
