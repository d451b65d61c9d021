/* base/time/took.c: see took.h. */
#include "base/time/took.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

/* The second number of the file: nanoseconds in the queue of a core. */
static uint64_t queued_ns(void)
{
    char text[96];
    unsigned long long waited = 0;
    const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n > 0) {
        text[n] = 0;
        (void)sscanf(text, "%*u %llu", &waited);
    }
    return waited;
}

/* A wait for the core between the two readings is not a delay of the call: before the call the
 * queue is read first, and last after it. */
uint64_t took_begin(void)
{
    const uint64_t queued = queued_ns();
    return clock_ns() - queued;
}

uint64_t took_ns(uint64_t since)
{
    const uint64_t now = clock_ns();
    const int64_t took = (int64_t)(now - queued_ns() - since);
    return took > 0 ? (uint64_t)took : 0;
}
