/* ckpt/folder.c: the folder OUT/checkpoints.
 *
 *   step-00000100         a checkpoint; complete, unless damaged since
 *   step-00000100.damaged one that a resume found damaged and renamed: never touched again
 *   .step-00000100.tmp    one that is being written, or was when its job was killed
 *   .step-00000100.old    one that is being removed
 *   .lock                 held (flock) by the job that writes
 *
 * All names are made from numbers. Links are never followed below the folder. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "ckpt/internal.h"
#include "data/file.h"
#include "data/folder.h"

void ckpt_shard_name(uint32_t shard, uint32_t shards, char out[CKPT_FILE_MAX])
{
    snprintf(out, CKPT_FILE_MAX, "shard-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", shard, shards);
}

void ckpt_step_name(uint64_t step, const char *prefix, const char *suffix, char out[CKPT_FILE_MAX])
{
    snprintf(out, CKPT_FILE_MAX, "%sstep-%08" PRIu64 "%s", prefix, step, suffix);
}

/* Parse the number, format the name again from it and compare: only the canonical name is
 * accepted. */
static bool step_from(const char *name, const char *prefix, const char *suffix, uint64_t *step)
{
    char again[CKPT_FILE_MAX];
    size_t skip = strlen(prefix) + strlen("step-");
    if (strlen(name) <= skip || name[skip] < '0' || name[skip] > '9')
        return false;
    errno = 0;
    uint64_t number = strtoull(name + skip, NULL, 10);
    if (errno || number > INT64_MAX)
        return false;
    ckpt_step_name(number, prefix, suffix, again);
    if (strcmp(again, name))
        return false;
    *step = number;
    return true;
}

/* A temporary or half-removed folder of ours. */
static bool is_leftover(const char *name)
{
    uint64_t step;
    return step_from(name, ".", ".tmp", &step) || step_from(name, ".", ".old", &step);
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

weft_status ckpt_list(int folder, ckpt_steps *out)
{
    *out = (ckpt_steps){0};
    DIR *d = data_folder_list(folder, ".");
    if (!d)
        return err_fail_errno(WEFT_IO, "cannot list the checkpoints");
    uint64_t step;
    errno = 0; /* readdir() reports an error by errno alone */
    for (const struct dirent *e; (e = readdir(d)); errno = 0)
        if (step_from(e->d_name, "", "", &step))
            *vec_push(out) = step;
    weft_status st = errno ? err_fail_errno(WEFT_IO, "cannot list the checkpoints") : WEFT_OK;
    closedir(d);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, newest_first);
    return st;
}

weft_status ckpt_there(const char *out_dir, bool *there)
{
    char path[CKPT_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/checkpoints", out_dir);
    *there = false;
    if (n < 0 || n >= (int)sizeof path)
        return err_fail(WEFT_USAGE, "the folder name %.64s... is too long", out_dir);
    DIR *d = opendir(path);
    if (!d && errno == ENOENT)
        return WEFT_OK;
    errno = d ? 0 : errno;
    for (const struct dirent *e; d && (e = readdir(d));) {
        uint64_t step;
        *there |= strstr(e->d_name, "step-") && !step_from(e->d_name, ".", ".tmp", &step);
        errno = 0;
    }
    weft_status st = WEFT_OK;
    if (errno == ENOTDIR)
        st = err_fail(WEFT_USAGE, "run.out = %s: it or its checkpoints is a file; name a folder",
                      out_dir);
    else if (errno)
        st = err_fail_errno(data_file_status(errno), "cannot check whether %s contains checkpoints",
                            path);
    if (d)
        closedir(d);
    return st;
}

/* Opens or creates a folder; a new one is fsynced into its parent. */
static int make_folder(const char *path)
{
    if (mkdirat(AT_FDCWD, path, 0777) == 0)
        return data_file_sync_parent(path);
    return errno == EEXIST ? 0 : -1;
}

static int make_below(int out)
{
    if (mkdirat(out, "checkpoints", 0777) == 0)
        return data_file_sync_folder(out);
    return errno == EEXIST ? 0 : -1;
}

weft_status ckpt_folder_open(int out, const char *out_dir, bool make, int *fd)
{
    char path[CKPT_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/checkpoints", out_dir), bad = 0;
    if (n < 0 || n >= (int)sizeof path - CKPT_FILE_MAX)
        return err_fail(WEFT_USAGE, "the folder name %.64s... is too long", out_dir);
    if (make)
        bad = out < 0 ? make_folder(out_dir) || make_folder(path) : make_below(out);
    if (bad)
        return err_fail_errno(data_file_status(errno), "cannot make folder %s", path);
    int folder = openat(out < 0 ? AT_FDCWD : out, out < 0 ? path : "checkpoints",
                        O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return err_fail_errno(data_file_status(errno), "cannot open checkpoint folder %s", path);
    *fd = folder;
    return WEFT_OK;
}

weft_status ckpt_folder_lock(int folder, const char *out_dir, int *fd)
{
    int lock =
        openat(folder, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (lock < 0)
        return err_fail_errno(WEFT_IO, "cannot open the lock of %s/checkpoints", out_dir);
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
        *fd = lock;
        return WEFT_OK;
    }
    if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) {
        log_line(WEFT_LOG_WARN,
                 "the file system of %s/checkpoints does not support locks: make sure that no "
                 "second job "
                 "writes there",
                 out_dir);
        *fd = lock;
        return WEFT_OK;
    }
    weft_status st = errno == EWOULDBLOCK
                         ? err_fail(WEFT_USAGE,
                                    "another job is writing a checkpoint into %s/checkpoints; give "
                                    "each job its own run.out",
                                    out_dir)
                         : err_fail_errno(WEFT_IO, "cannot lock %s/checkpoints", out_dir);
    close(lock);
    return st;
}

static bool is_ours(const char *name)
{
    uint32_t shard, shards;
    char again[CKPT_FILE_MAX];
    if (!strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "manifest.json"))
        return true;
    if (sscanf(name, "shard-%" SCNu32 "-of-%" SCNu32, &shard, &shards) != 2)
        return false;
    ckpt_shard_name(shard, shards, again);
    return !strcmp(name, again);
}

bool ckpt_folder_foreign(int parent, const char *name, char out[CKPT_FILE_MAX])
{
    DIR *d = data_folder_list(parent, name);
    if (!d && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return false;
    bool found = !d; /* what cannot be looked at stays */
    if (!d)
        snprintf(out, CKPT_FILE_MAX, "something");
    for (const struct dirent *e; d && !found && (e = readdir(d));) {
        found = !is_ours(e->d_name);
        if (found)
            snprintf(out, CKPT_FILE_MAX, "%.*s", CKPT_FILE_MAX - 1, e->d_name);
    }
    if (d)
        closedir(d);
    return found;
}

void ckpt_sweep(int folder)
{
    DIR *d = data_folder_list(folder, ".");
    if (!d)
        return;
    for (const struct dirent *e; (e = readdir(d));)
        if (is_leftover(e->d_name) && data_folder_remove(folder, e->d_name) < 0)
            log_line(WEFT_LOG_WARN, "cannot remove the leftover checkpoint folder %s: %s",
                     e->d_name, strerror(errno));
    closedir(d);
}
