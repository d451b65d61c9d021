/* formats/output.c: see output.h. */
#define _GNU_SOURCE
#include "formats/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "data/file.h"
#include "data/folder.h"

/* Cut `path` into its parent and its last part, without slashes at its end. */
static weft_status cut(const char *path, char parent[PATH_MAX], formats_output *f)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from && path[from - 1] != '/')
        from--;
    const size_t length = n - from;
    const bool dots =
        (length == 1 && path[from] == '.') || (length == 2 && !strncmp(path + from, "..", 2));
    if (!length || dots)
        return err_fail(WEFT_USAGE, "'%s' is not the name of a new folder", path);
    if (n >= PATH_MAX - 64 || length > NAME_MAX - 32)
        return err_fail(WEFT_USAGE, "the folder name %.64s... is too long", path);
    snprintf(f->name, sizeof f->name, "%.*s", (int)length, path + from);
    snprintf(parent, PATH_MAX, "%.*s", from ? (int)from : 1, from ? path : ".");
    return WEFT_OK;
}

static weft_status make(const char *path, const char *parent, formats_output *f)
{
    struct stat there;
    if (fstatat(f->parent, f->name, &there, AT_SYMLINK_NOFOLLOW) == 0)
        return err_fail(WEFT_USAGE, "%s exists and is not replaced; name a new folder", path);
    if (errno != ENOENT)
        return err_fail_errno(data_file_status(errno), "cannot look for %s", path);
    snprintf(f->temp, sizeof f->temp, ".%.200s.%ld.tmp", f->name, (long)getpid());
    snprintf(f->path, sizeof f->path, "%.3800s/%.240s", parent, f->temp);
    if (mkdirat(f->parent, f->temp, 0777) < 0)
        return err_fail_errno(data_file_status(errno), "cannot make folder %s", f->path);
    f->fd = openat(f->parent, f->temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return f->fd < 0 ? err_fail_errno(WEFT_IO, "cannot open folder %s", f->path) : WEFT_OK;
}

weft_status formats_output_begin(const char *path, formats_output *f)
{
    char parent[PATH_MAX];
    *f = (formats_output){.parent = -1, .fd = -1};
    weft_status st = cut(path, parent, f);
    if (st != WEFT_OK)
        return st;
    f->parent = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->parent < 0)
        return err_fail_errno(data_file_status(errno),
                              "cannot open the folder %s, where %s is to be made", parent, f->name);
    st = make(path, parent, f);
    if (st != WEFT_OK) {
        close(f->parent);
        f->parent = -1;
    }
    return st;
}

static void close_both(formats_output *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->parent >= 0)
        close(f->parent);
    f->fd = f->parent = -1;
}

/* The files go by the descriptor: another folder may have the name by now. */
void formats_output_abandon(formats_output *f)
{
    if (f->fd >= 0)
        (void)data_folder_empty(f->fd, ".");
    if (f->fd >= 0 && unlinkat(f->parent, f->temp, AT_REMOVEDIR) < 0)
        log_line(WEFT_LOG_WARN, "cannot remove %s: %s", f->path, strerror(errno));
    close_both(f);
}

weft_status formats_output_commit(formats_output *f)
{
    weft_status st = WEFT_OK;
    if (data_file_sync_folder(f->fd) < 0)
        st = err_fail_errno(WEFT_IO, "cannot sync %s", f->path);
    else if (data_folder_rename(f->parent, f->temp, f->name) < 0)
        st = err_fail_errno(WEFT_IO, "cannot rename %s to %s", f->path, f->name);
    if (st != WEFT_OK) {
        formats_output_abandon(f);
        return st;
    }
    if (data_file_sync_folder(f->parent) < 0)
        st = err_fail_errno(WEFT_IO, "cannot sync the folder of %s, so that it may not last",
                            f->name);
    close_both(f);
    return st;
}
