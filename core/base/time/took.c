/* base/time/took.c: see took.h. */
#include "base/time/took.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The text of a file of /proc; "" if it cannot be read. */
static void read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
}

/* The second number of a schedstat file: nanoseconds in the queue of a core. The first one, those
 * on a core, may be behind by a tick, and a tick may take a second. */
static bool read_queued(const char *path, uint64_t *ns)
{
    char text[96];
    read_text(path, text, sizeof text);
    return sscanf(text, "%*u %" SCNu64, ns) == 1;
}

bool took_look(pid_t tid, took_thread *out)
{
    char path[64], text[96];
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)tid);
    struct timespec ran = {0};
    const clockid_t own = (clockid_t)(~(uint32_t)tid << 3 | 6); /* pthread_getcpuclockid() */
    const bool known = read_queued(path, &out->queued) && !clock_gettime(own, &ran);
    out->ran = (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    read_text(path, text, sizeof text); /* "TID (NAME) STATE ..." */
    const char *name_end = strrchr(text, ')');
    out->can_run = name_end && !strncmp(name_end, ") R", 3);
    return known && name_end;
}

uint64_t took_between(const took_thread *before, const took_thread *after, uint64_t gap)
{
    const bool all = after->can_run && after->ran == before->ran; /* and the queue is not left */
    const uint64_t lost = all ? gap : after->queued - before->queued;
    return lost < gap - gap / 4 ? gap - lost : gap / 4;
}
