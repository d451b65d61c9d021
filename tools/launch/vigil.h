/* launch/vigil.h: signs of life, for whoever starts ranks.
 *
 * Ranks name one of them that is frozen, but none of them can when all are, or when it is the only
 * one that this process starts. Whether signs come as a rank has promised in its page
 * (job/control/progress.h) is then judged here, by the time in which this process ran: one that is
 * stopped together with its ranks does not take them for frozen. Ranks that promise no more signs,
 * since they end, are not judged. */
#ifndef LAUNCH_VIGIL_H
#define LAUNCH_VIGIL_H

#include "base/time/awake.h"
#include "launch/progress.h"

#define LAUNCH_VIGIL_MS 200 /* between two looks, at most */

/* For ranks that name each other first. A machine that is short of memory holds them all up, and
 * not the process that started them. */
#define LAUNCH_VIGIL_MARGIN_MS 10000u

typedef struct launch_vigil { /* begins as {.margin_ms, .begin_ms} */
    uint64_t margin_ms;       /* beyond what was promised */
    uint64_t begin_ms;        /* until the first sign; 0: no limit */
    awake_count clock;
    uint64_t since; /* of the last sign */
    uint32_t signs;
} launch_vigil;

/* Milliseconds without a sign from any rank of the page, where that is longer than they promised;
 * else 0. [any] */
uint64_t launch_vigil_silence(launch_vigil *v, const launch_progress *p);

/* Are all ranks of the page frozen? Then `text` says so. [any] */
bool launch_vigil_frozen(launch_vigil *v, const launch_progress *p, char *text, size_t bytes);

#endif
