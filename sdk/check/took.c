/* check/took.c: see took.h. */
#define _GNU_SOURCE /* gettid */
#include "check/took.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/time/took.h"

static uint64_t queued_ns(void)
{
    took_thread t;
    return took_look(gettid(), &t) ? t.queued : 0;
}

/* A wait for the core between the two readings is not a delay of the call: before the call the
 * queue is read first, and last after it. */
uint64_t check_took_begin(void)
{
    const uint64_t queued = queued_ns();
    return clock_ns() - queued;
}

uint64_t check_took_ns(uint64_t since)
{
    const uint64_t now = clock_ns();
    const int64_t took = (int64_t)(now - queued_ns() - since);
    return took > 0 ? (uint64_t)took : 0;
}
