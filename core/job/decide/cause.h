/* job/decide/cause.h: which failure is the root cause.
 *
 * One failure shows in many ways and in any order: when a rank dies, a neighbour's data connection
 * may break, and the neighbour may give up, before anyone reports the death. So an uncertain sign
 * is held as a candidate for a short time, in which a better explanation replaces it. A certain
 * sign counts at once. The store, every rank and the launcher use this rule. */
#ifndef JOB_CAUSE_H
#define JOB_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

#define JOB_CAUSE_TEXT 1024

#define JOB_CAUSE_SECOND 1u /* a rank gave up because of another one: held for 300 ms */
#define JOB_CAUSE_GONE 2u   /* a connection or process ended, reason unknown: held for 100 ms */
#define JOB_CAUSE_ENDED                                                                            \
    3u /* a process ended with a status: 100 ms, in which its report may arrive */
#define JOB_CAUSE_SURE 4u /* killed by a signal, frozen, or its own report */

typedef struct job_cause {
    uint32_t weight; /* a JOB_CAUSE_; 0: none */
    uint32_t rank;
    uint64_t due; /* milliseconds of the caller's clock */
    char text[JOB_CAUSE_TEXT];
} job_cause;

/* Keep the better of the candidate and the new sign, and the earlier of their due times. */
void job_cause_add(job_cause *c, uint32_t rank, uint32_t weight, uint64_t now, const char *text);

/* Has the candidate been held long enough? False without a candidate. */
bool job_cause_due(const job_cause *c, uint64_t now);

#endif
