/* tests/patience.h: how long a test waits, and what it may say about time.
 *
 * A machine may be busy: what a test waits for comes late, and that is no failure. So a bound on
 * time is ten times what is usual, and ten times that under a sanitizer. With WEFT_TIMED=1 (tests
 * with the label `timed`, which run alone in `make integration`) it is what is usual, times how
 * much slower this machine is now than a quiet one: a process that sleeps for a millisecond is
 * started and waited for. */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define PATIENCE_TIMES 100u
#else
#define PATIENCE_TIMES 10u
#endif
#define PATIENCE_USUAL_NS 1600000.0 /* of such a process */

/* Are there many rounds? Not under a sanitizer, for which WEFT_WHOLE means more tests. */
static inline bool patience_is_whole(void)
{
    return PATIENCE_TIMES == 10 && getenv("WEFT_WHOLE");
}

/* Does this run ask about time? */
static inline bool patience_is_timed(void)
{
    return getenv("WEFT_TIMED") != NULL;
}

static inline double patience_one_process(void)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    const pid_t pid = fork();
    if (!pid) {
        usleep(1000);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
}

/* The slowest of some processes, as against a quiet machine; 1 at least. */
static inline double patience_slower(void)
{
    static double max = PATIENCE_USUAL_NS;
    static bool known;
    for (int i = 0; i < 9 && !known; i++) {
        const double ns = patience_one_process();
        max = ns > max ? ns : max;
    }
    known = true;
    return max / PATIENCE_USUAL_NS;
}

/* The bound for something that usually takes `ms` at most. */
static inline uint64_t patience(uint64_t ms)
{
    if (patience_is_timed())
        return (uint64_t)((double)ms * patience_slower());
    return ms * PATIENCE_TIMES;
}

#endif
