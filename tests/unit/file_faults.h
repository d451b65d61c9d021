/* tests/unit/file_faults.h: make the n-th file operation of the program under test go wrong.
 *
 * The calls of the C library that change files, and pread, are defined here, in the test program,
 * and so stand before the library's own. Each counts itself and, when its number comes up, fails
 * with the chosen errno, is interrupted, transfers one byte alone, or ends the process on the spot.
 */
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

    /* Inodes with something in them that no fsync has seen, and how many renames met one that was
     * not the folder of the rename itself. */
    ino_t unsynced[256];
    int n_unsynced, hasty_renames;
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

static ino_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static void note_changed(int fd)
{
    if (faults.n_unsynced < (int)(sizeof faults.unsynced / sizeof *faults.unsynced))
        faults.unsynced[faults.n_unsynced++] = inode_of(fd);
}

static void note_synced(int fd)
{
    ino_t ino = inode_of(fd);
    int kept = 0;
    for (int i = 0; i < faults.n_unsynced; i++)
        if (faults.unsynced[i] != ino)
            faults.unsynced[kept++] = faults.unsynced[i];
    faults.n_unsynced = kept;
}

/* A rename inside `folder` publishes what must all be on the disk by then. */
static void note_rename(int folder)
{
    ino_t ino = inode_of(folder);
    for (int i = 0; i < faults.n_unsynced; i++)
        faults.hasty_renames += faults.unsynced[i] != ino;
    note_changed(folder);
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (fd != STDERR_FILENO && fd != STDOUT_FILENO) {
        if (fault_now('w'))
            return -1;
        if (faults.kind == FAULT_SHORT && faults.calls == faults.at && n > 1)
            n = 1;
        note_changed(fd);
    }
    return syscall(SYS_write, fd, data, n);
}

/* Under a name of its own: the library's header may have a body for this one. */
ssize_t faulty_pread(int fd, void *out, size_t n, off_t at) __asm__("pread");
ssize_t faulty_pread(int fd, void *out, size_t n, off_t at)
{
    return fault_now('p') ? -1 : (ssize_t)syscall(SYS_pread64, fd, out, n, at);
}

/* Noted and not done: no test cuts the power, and a disk may take a second over it. */
int fsync(int fd)
{
    if (fault_now('s'))
        return -1;
    note_synced(fd);
    return fcntl(fd, F_GETFD) < 0 ? -1 : 0;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    if (fault_now(flags & O_CREAT ? 'c' : 'o'))
        return -1;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && flags & O_EXCL)
        note_changed(fd);
    return fd;
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    if (fault_now(flags & O_CREAT ? 'c' : 'o'))
        return -1;
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (fd >= 0 && flags & O_EXCL) {
        note_changed(fd);
        note_changed(folder);
    }
    return fd;
}

/* What the compiler makes of calls without a mode. */
int __open_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);

int __open_2(const char *path, int flags)
{
    return open(path, flags, 0);
}

int __openat_2(int folder, const char *path, int flags)
{
    return openat(folder, path, flags, 0);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    return fault_now('m') ? -1 : (int)syscall(SYS_mkdirat, folder, path, mode);
}

int unlinkat(int folder, const char *path, int flags)
{
    return fault_now('u') ? -1 : (int)syscall(SYS_unlinkat, folder, path, flags);
}

int rename(const char *from, const char *to)
{
    if (fault_now('r'))
        return -1;
    struct stat st;
    for (int i = 0; i < faults.n_unsynced && stat(from, &st) == 0; i++)
        faults.hasty_renames += faults.unsynced[i] == st.st_ino;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    if (fault_now('r'))
        return -1;
    note_rename(to_folder);
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (fault_now('r'))
        return -1;
    note_rename(to_folder);
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

#endif
