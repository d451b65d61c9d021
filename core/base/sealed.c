/* base/sealed.c: see sealed.h. */
#define _GNU_SOURCE
#include "base/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int sealed_make(const char *name, const void *bytes, size_t n)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    const ssize_t done = write(fd, bytes, n);
    if (done == (ssize_t)n && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    const int error = done < 0 || done == (ssize_t)n ? errno : ENOSPC;
    close(fd);
    errno = error;
    return -1;
}

int sealed_inherited(const char *variable)
{
    const char *text = getenv(variable);
    if (!text)
        return -1;
    char *end = NULL;
    errno = 0;
    long fd = strtol(text, &end, 10);
    if (errno || !*text || *end || fd < 3 || fd > 1 << 20)
        return -2;
    int seals = fcntl((int)fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fcntl((int)fd, F_SETFD, FD_CLOEXEC))
        return -2;
    return (int)fd;
}
