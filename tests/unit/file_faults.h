/* tests/unit/file_faults.h: make the n-th file operation of the program under test go wrong.
 *
 * The calls of the C library that change files are defined here, in the test program, and so stand
 * before the library's own. Each counts itself and, when its number comes up, fails with the chosen
 * errno, is interrupted, transfers one byte alone, or ends the process on the spot. */
#ifndef FILE_FAULTS_H
#define FILE_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum fault_kind { FAULT_NONE, FAULT_ERROR, FAULT_SHORT, FAULT_EXIT };

static struct {
    enum fault_kind kind;
    long at;       /* the call number, from 1, that goes wrong */
    int error;     /* errno of FAULT_ERROR                     */
    bool for_ever; /* and every call of the kind after it      */
    long calls;
    char log[8192]; /* one letter a call, for tests of order   */
} faults;

static void faults_set(enum fault_kind kind, long at, int error, bool for_ever)
{
    memset(&faults, 0, sizeof faults);
    faults.kind = kind;
    faults.at = at;
    faults.error = error;
    faults.for_ever = for_ever;
}

/* Counts a call; true when it is the one that shall go wrong. */
static bool fault_now(char letter)
{
    if (faults.calls < (long)sizeof faults.log - 1)
        faults.log[faults.calls] = letter;
    faults.calls++;
    if (faults.kind == FAULT_NONE || faults.calls < faults.at ||
        (faults.calls > faults.at && !faults.for_ever))
        return false;
    if (faults.kind == FAULT_EXIT)
        _exit(42);
    errno = faults.error;
    return faults.kind == FAULT_ERROR;
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (fd != STDERR_FILENO && fd != STDOUT_FILENO) {
        if (fault_now('w'))
            return -1;
        if (faults.kind == FAULT_SHORT && faults.calls == faults.at && n > 1)
            n = 1;
    }
    return syscall(SYS_write, fd, data, n);
}

int fsync(int fd)
{
    return fault_now('s') ? -1 : (int)syscall(SYS_fsync, fd);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    if (fault_now(flags & O_CREAT ? 'c' : 'o'))
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    if (fault_now(flags & O_CREAT ? 'c' : 'o'))
        return -1;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    return fault_now('m') ? -1 : (int)syscall(SYS_mkdirat, folder, path, mode);
}

int rename(const char *from, const char *to)
{
    return fault_now('r') ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return fault_now('r') ? -1 : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (fault_now('r'))
        return -1;
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

#endif
