/* base/time/within.c: see within.h. */
#define _GNU_SOURCE
#include "base/time/within.h"

#include <time.h>

#include "base/time/awake.h"

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

bool within_lock(pthread_mutex_t *m, uint64_t ms)
{
    const uint64_t until = awake_ms() + ms;
    bool got;
    while (!(got = !pthread_mutex_trylock(m)) && awake_ms() < until)
        nap();
    return got;
}

bool within_join(pthread_t t, uint64_t ms)
{
    const uint64_t until = awake_ms() + ms;
    bool over;
    while (!(over = !pthread_tryjoin_np(t, NULL)) && awake_ms() < until)
        nap();
    return over;
}
