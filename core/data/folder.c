/* data/folder.c: see folder.h. */
#define _GNU_SOURCE
#include "data/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "data/file.h"

DIR *data_folder_list(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    return d;
}

bool data_folder_empty(int parent, const char *name)
{
    DIR *d = data_folder_list(parent, name);
    int removed;
    if (!d)
        return false;
    do { /* listing again finds what a changing folder hid */
        removed = 0;
        rewinddir(d);
        for (const struct dirent *e; (e = readdir(d));)
            if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
                removed += unlinkat(dirfd(d), e->d_name, 0) == 0;
    } while (removed);
    closedir(d);
    return true;
}

int data_folder_remove(int parent, const char *name)
{
    if (data_folder_empty(parent, name)) /* what stays fails the unlinkat() */
        return unlinkat(parent, name, AT_REMOVEDIR);
    /* a file or a link of that name goes as such; one that is not there is gone */
    return errno == ENOENT || unlinkat(parent, name, 0) == 0 ? 0 : -1;
}

/* A file system without RENAME_NOREPLACE gets a look and a rename, which replaces no folder with
 * files in it. */
int data_folder_rename(int parent, const char *from, const char *to)
{
    struct stat there;
    if (renameat2(parent, from, parent, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (fstatat(parent, to, &there, AT_SYMLINK_NOFOLLOW) == 0)
        errno = EEXIST;
    return errno == ENOENT ? renameat(parent, from, parent, to) : -1;
}

weft_status data_folder_file(int folder, const char *name, const void *data, uint64_t bytes)
{
    const int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    weft_status st = WEFT_OK;
    if (fd < 0)
        return err_fail_errno(WEFT_IO, "cannot create %s", name);
    if (data_file_write(fd, data, bytes) || data_file_sync(fd))
        st = err_fail_errno(WEFT_IO, "cannot write %s", name);
    if (close(fd) < 0 && st == WEFT_OK)
        st = err_fail_errno(WEFT_IO, "cannot close %s", name);
    return st;
}
