/* check/clock.c: see clock.h. */
#include "check/clock.h"

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

uint64_t check_clock_ns(void)
{
    const uint64_t queued = queued_ns();
    return clock_ns() - queued;
}
