/* tests/schedule/drawn.h: requests drawn by a seed, for the tests that fuzz schedules.
 *
 * WEFT_COMM_SEED is the first seed and WEFT_COMM_RUNS how many follow it; what fails says which
 * seed to run alone. */
#ifndef TESTS_SCHEDULE_DRAWN_H
#define TESTS_SCHEDULE_DRAWN_H

#include "schedule/algorithm.h"

#define DRAWN_MAX 17

/* A request and all that it borrows. */
typedef struct drawn {
    sched_request r; /* `me` and, for a send, the role are not settled: naive_role() */
    uint32_t machine[DRAWN_MAX], order[DRAWN_MAX];
    sched_layout layout;
    sched_cost cost;
} drawn;

/* One that is possible, for so many ranks and a link of these abilities (0: any), and up to about
 * `bytes`. */
void drawn_request(drawn *d, uint64_t *random, uint32_t ranks, uint64_t caps, uint64_t bytes);

uint32_t drawn_number(uint64_t *random, uint32_t n); /* 0 ... n - 1 */

/* As text, for whoever has to find out what went wrong. */
const char *drawn_text(const sched_request *r, char text[256]);

/* Are results the same bits as those of a sum in the order of the ranks? A sum by the algorithm
 * that the request names or `auto` means: as its `once` says. Anything else: always. */
int drawn_exact(const sched_request *r);

uint64_t drawn_seed(void);             /* WEFT_COMM_SEED, or 1 */
uint64_t drawn_runs(uint64_t usually); /* WEFT_COMM_RUNS, or `usually` */

#endif
