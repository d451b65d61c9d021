/* base/sealed.c: see sealed.h. */
#define _GNU_SOURCE
#include "base/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number/check.h"

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

int sealed_number(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t fd;
    if (!text)
        return -1;
    return check_number(&text, 1 << 20, &fd) && !*text && fd > STDERR_FILENO ? (int)fd : -2;
}

int sealed_inherited(const char *variable)
{
    const int fd = sealed_number(variable);
    const int seals = fd < 0 ? 0 : fcntl(fd, F_GET_SEALS);
    if (fd >= 0 && (seals < 0 || (seals & SEALS) != SEALS || fcntl(fd, F_SETFD, FD_CLOEXEC)))
        return -2;
    return fd;
}

void *sealed_map(const char *variable, uint64_t least, uint64_t most, uint64_t *bytes)
{
    struct stat info;
    const int fd = sealed_number(variable), seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &info))
        return NULL;
    *bytes = (uint64_t)info.st_size;
    if (*bytes < least || *bytes > most)
        return NULL;
    void *at = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}
