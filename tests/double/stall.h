/* stall.h: a device that takes its time, or for ever. */
#ifndef DOUBLE_STALL_H
#define DOUBLE_STALL_H

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

static void nap(uint32_t us)
{
    nanosleep(&(struct timespec){0, us * 1000l}, NULL);
}

static atomic_int hangs;

/* Once the file DOUBLE_HANGS has a byte, no kernel's end is seen. */
static void hang_look(void)
{
    const char *file = getenv("DOUBLE_HANGS");
    struct stat s;
    if (file && !stat(file, &s) && s.st_size)
        atomic_store(&hangs, 1);
}

static void hang(const atomic_int *closing)
{
    while (atomic_load(&hangs) && !atomic_load(closing))
        nap(1000);
}

#endif
