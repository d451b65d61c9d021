/* Do the deadlines of the store stand still while all processes of a job are stopped? */
#define _GNU_SOURCE
#include <stdlib.h>
#include <test.h>

#include "ranks.h"

#define WAIT_S 5
#define STOP_S 11 /* longer than rank 1 waits for rank 0, which answers late at WAIT_S + 5 */

/* Rank 0 gives what rank 1 waits for when the test says so. */
static weft_status work(job *j, uint32_t rank, uint32_t n)
{
    (void)n;
    void *value = NULL;
    uint64_t bytes;
    weft_status st = ranks_at_work(j);
    if (st == WEFT_OK && rank == 0) {
        st = ranks_until_told(j);
        if (st == WEFT_OK)
            st = job_put(j, "late", "x", 1);
    } else if (st == WEFT_OK) {
        st = job_get(j, "late", WAIT_S, &value, &bytes);
    }
    free(value);
    return st;
}

TEST(all_are_stopped)
{
    ranks r;
    int status;
    ranks_prepare_to_tell();
    ranks_prepare(&r, 2);
    ranks_start(&r, work);
    ranks_wait_ready(&r, 2);
    for (uint32_t i = 0; i < 2; i++)
        kill(r.pid[i], SIGSTOP);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(waitpid(r.pid[i], &status, WUNTRACED), r.pid[i]);
        assert_true(WIFSTOPPED(status));
    }
    sleep(STOP_S);
    for (uint32_t i = 0; i < 2; i++)
        kill(r.pid[i], SIGCONT);
    usleep(300000); /* what is late by now would fail; the verdict does not depend on it */
    ranks_tell();
    ranks_expect_well(&r);
    ranks_end(&r);
    ranks_end_telling();
}
