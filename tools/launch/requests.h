/* launch/requests.h: the signals that a launcher passes on to its ranks, and what each asks
 * for.
 *
 * The first SIGINT or request to stop (decide/agreement.h) is passed on. Another one repeats the
 * request, since schedulers signal more than once; but SIGINT after any of them kills all ranks.
 * SIGTSTP stops all ranks until SIGCONT. */
#ifndef LAUNCH_REQUESTS_H
#define LAUNCH_REQUESTS_H

#include <signal.h>
#include <stdbool.h>
#include <weft/base.h>

typedef enum {
    REQUEST_NONE,  /* nothing, or a repetition */
    REQUEST_PASS,  /* pass `asked` on to the ranks */
    REQUEST_KILL,  /* kill all ranks */
    REQUEST_PAUSE, /* stop the ranks, then call launch_requests_pause(), then continue them */
} launch_request;

typedef struct launch_requests {
    int fd;    /* readable when a signal has come; -1: not open */
    int asked; /* the signal that was passed on, or SIGINT that kills; 0: none */
    sigset_t caught, before;
    sigset_t of_ranks; /* the mask that the ranks start with */
} launch_requests;

/* Catch the signals, except those that our parent ignores (nohup, a shell's background job).
 * `stops`: the ranks handle requests to stop. Such ranks start with these signals blocked, so that
 * none comes before its handler. Other ranks get SIGTERM and SIGHUP alone. A request that the
 * handler of this process has taken (job/stop.h) comes again, as the first. [setup] */
weft_status launch_requests_open(launch_requests *r, bool stops);

/* What the next signal asks for. */
launch_request launch_requests_take(launch_requests *r);

/* Stop this process as SIGTSTP would; returns when it continues. */
void launch_requests_pause(void);

/* Restore the mask of before; what only repeats a request is dropped. `fd` -1 allowed. */
void launch_requests_close(launch_requests *r);

#endif
