/* base/time/awake.c: see awake.h. */
#define _GNU_SOURCE
#include "base/time/awake.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

#define TICK_MS 100u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static awake_count count;
static bool ticks; /* this process has the thread, or cannot have it */

static void hold(void)
{
    pthread_mutex_lock(&lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    ticks = false;
    let_go();
}

static void prepare(void)
{
    pthread_atfork(hold, let_go, in_child);
    count.last = count.sum = clock_ns();
}

static void *tick(void *unused)
{
    for (;; nanosleep(&(struct timespec){0, TICK_MS * 1000000}, NULL))
        (void)awake_ns();
    return unused;
}

static void start(void)
{
    ticks = true;
    count.max = AWAKE_MAX_MS * UINT64_C(1000000);
    if (thread_start(NULL, "weft-awake", tick, NULL))
        count.max = UINT64_MAX;
}

uint64_t awake_ns(void)
{
    pthread_once(&once, prepare);
    hold();
    if (!ticks)
        start();
    const uint64_t now = awake_look(&count, clock_ns());
    let_go();
    return now;
}

uint64_t awake_ms(void)
{
    return awake_ns() / 1000000u;
}
