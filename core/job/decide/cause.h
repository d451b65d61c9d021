/* job/decide/cause.h: which failure came first.
 *
 * One failure shows in many ways and not in order: when a rank dies, a neighbour's data connection
 * may break, and the neighbour give up, before anyone is told of the death. So what is only a sign
 * is held for a moment, in which a better explanation replaces it; what is certain is taken at
 * once. The store, every rank and the launcher decide by this same rule. */
#ifndef JOB_BLAME_H
#define JOB_BLAME_H

#include <stdbool.h>
#include <stdint.h>

#define BLAME_TEXT 1024

#define BLAME_SECOND 1u /* a rank gave up because of another one: held for 300 ms */
#define BLAME_GONE 2u   /* a connection or process ended, reason unknown: held for 100 ms        */
#define BLAME_ENDED 3u  /* a process ended with a status: 100 ms, in which its words may arrive  */
#define BLAME_SURE 4u   /* killed by a signal, frozen, or its own words                          */

typedef struct blame {
    uint32_t weight; /* 0: nobody                        */
    uint32_t rank;
    uint64_t due; /* milliseconds of the caller's clock */
    char text[BLAME_TEXT];
} blame;

/* Keep the better of what stands and what is new, and the earlier of their times. */
void blame_add(blame *b, uint32_t rank, uint32_t weight, uint64_t now, const char *text);

/* Is it time to believe what stands? */
bool blame_due(const blame *b, uint64_t now);

#endif
