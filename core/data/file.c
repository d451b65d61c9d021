/* data/file.c: see file.h. */
#define _GNU_SOURCE
#include "data/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_AT_ONCE ((uint64_t)1 << 30) /* Linux transfers less than 2 GiB a call */
#define HAND_ON ((uint64_t)16 << 20)    /* bytes that are much */

int data_file_write(int fd, const void *data, uint64_t bytes)
{
    const unsigned char *at = data;
    while (bytes) {
        ssize_t w = write(fd, at, bytes < MAX_AT_ONCE ? bytes : MAX_AT_ONCE);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0) {
            errno = w < 0 ? errno : EIO;
            return -1;
        }
        at += w;
        bytes -= (uint64_t)w;
    }
    return 0;
}

void data_file_hand_on(int fd, uint64_t *from, uint64_t done)
{
    if (done - *from < HAND_ON)
        return;
    sync_file_range(fd, (off_t)*from, (off_t)(done - *from), SYNC_FILE_RANGE_WRITE);
    *from = done;
}

int data_file_read(int fd, void *out, uint64_t bytes, uint64_t at)
{
    unsigned char *to = out;
    if (at > (uint64_t)INT64_MAX - bytes)
        return 1;
    while (bytes) {
        uint64_t max = bytes < MAX_AT_ONCE ? bytes : MAX_AT_ONCE;
        ssize_t r = pread(fd, to, max, (off_t)at);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -1;
        if (r == 0)
            return 1;
        to += r;
        at += (uint64_t)r;
        bytes -= (uint64_t)r;
    }
    return 0;
}

bool data_file_is(const char *path, const struct stat *file)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

int data_file_sync(int fd)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc < 0 && errno == EINTR);
    return rc;
}

int data_file_sync_folder(int fd)
{
    int rc = data_file_sync(fd);
    return rc < 0 && errno == EINVAL ? 0 : rc;
}

int data_file_sync_parent(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0; /* with the slash, which may be the root */
    if (n >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, path, n);
    folder[n] = 0;
    int fd = open(n ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = data_file_sync_folder(fd);
    int error = errno;
    close(fd);
    errno = error;
    return rc;
}

int data_file_follow(const char *path, char out[PATH_MAX])
{
    struct stat info;
    if (snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return lstat(path, &info) || !S_ISLNK(info.st_mode) || realpath(path, out) ? 0 : -1;
}

int data_file_open_regular(int folder, const char *name, bool follow, struct stat *st)
{
    int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW);
    int fd = openat(folder, name, flags);
    if (fd < 0)
        return -1;
    int error = 0;
    if (fstat(fd, st) < 0)
        error = errno;
    else if (S_ISDIR(st->st_mode))
        error = EISDIR;
    else if (!S_ISREG(st->st_mode) || st->st_size < 0)
        error = ENODEV;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

weft_status data_file_status(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ENODEV:
    case ENXIO:
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case EEXIST:
    case EBUSY:
    case ENAMETOOLONG:
    case EINVAL: return WEFT_USAGE;
    case ENOMEM: return WEFT_NO_MEMORY;
    default: return WEFT_IO;
    }
}

weft_status data_file_damage(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ENODEV:
    case ENXIO:
    case ELOOP: return WEFT_DATA;
    default: return data_file_status(error);
    }
}
