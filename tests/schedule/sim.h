/* tests/schedule/sim.h: schedules of all ranks run against each other in one process, with no
 * transport and no buffering: a message moves only when its send and its receive are both posted,
 * and nothing else ever finishes a send (unless the pace says so). Which of the possible things
 * happens next is drawn at random.
 *
 * A rank's input appears when it starts, at a random moment, and its input and output are filled
 * with rubbish the moment it has finished, so that whoever touches them too early or too late gets
 * a wrong result. */
#ifndef TESTS_SCHEDULE_SIM_H
#define TESTS_SCHEDULE_SIM_H

#include "naive.h"
#include "pace.h"
#include "schedule/algorithm.h"

typedef struct sim_case {
    sched_request all; /* `me` is not used; kinds with two roles: see naive_role() */
    int exact;         /* the order of the ranks is kept: results are equal bit by bit */
    uint64_t seed;
    uint32_t pace; /* PACE_..., beside the plain draw */

    /* Compressed sums; NULL for all others: what ranks put in, and whether `out` is right there;
     * [rank] what the operation keeps, and how often that counts. */
    void (*fill)(const struct sim_case *c, uint32_t rank, void *in);
    void (*check)(const struct sim_case *c, uint32_t rank, const void *out);
    float *const *kept;
    float times;
    void *user;
} sim_case;

/* Runs to the end and checks results, guards and bytes; what is wrong is printed and
 * fails the running cmocka test. `name` of the algorithm that ran is returned. */
const char *sim_run(const sim_case *c);

#endif
