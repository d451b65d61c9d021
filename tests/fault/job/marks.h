/* tests/fault/job/marks.h: have the progress marks of ranks come to those that will name them?
 *
 * Include after ranks.h. */
#ifndef TESTS_FAULT_MARKS_H
#define TESTS_FAULT_MARKS_H

#include "job/members.h"

/* Does rank 0 know a mark of every rank, and has it sent its own at least once? */
static inline bool ranks_marks_came(job *j, uint64_t beat)
{
    pthread_mutex_lock(&j->lock);
    bool all = j->server->number > beat;
    for (uint32_t r = 1; r < j->who.ranks; r++)
        all = all && j->server->members[r].mark.step;
    pthread_mutex_unlock(&j->lock);
    return all;
}

/* In a rank that has called job_mark(), as all do: the marks travel with heartbeats. Rank 0 knows
 * all of them, and its children in the tree know that of rank 0, whose beats they have read before
 * the end of the exchange. */
static inline weft_status ranks_marked(job *j)
{
    weft_status st = job_exchange(j, "set", NULL, 0, NULL);
    if (st == WEFT_OK && !j->who.rank) {
        pthread_mutex_lock(&j->lock);
        const uint64_t beat = j->server->number + 1;
        pthread_mutex_unlock(&j->lock);
        while (!ranks_marks_came(j, beat) && (st = job_failure(j)) == WEFT_OK)
            usleep(1000);
    }
    return st == WEFT_OK ? job_exchange(j, "known", NULL, 0, NULL) : st;
}

#endif
