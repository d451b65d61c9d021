/* ckpt/save.c: atomic save of a checkpoint.
 *
 *   1. begin   lock, sweep, mkdir .step-N.tmp
 *   2. shards  each rank writes and syncs its own file, and syncs the folder
 *   3. commit  manifest written and synced, folder synced, renamed to step-N, parent synced
 *   4. older ones beyond `keep`: renamed to .step-N.old, then removed
 *
 * A crash before the rename leaves the earlier checkpoints unchanged and a folder that the next
 * begin sweeps; a crash after it leaves both. If step-N exists the save fails: an existing
 * checkpoint is never replaced. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "ckpt/internal.h"
#include "data/file.h"
#include "data/folder.h"

weft_status ckpt_paths(const char *out_dir, uint64_t step, char temp[4096], char final[4096])
{
    char temp_name[CKPT_FILE_MAX], final_name[CKPT_FILE_MAX];
    if (step > INT64_MAX)
        return err_fail(WEFT_USAGE, "step %" PRIu64 " is too large for a checkpoint", step);
    ckpt_step_name(step, ".", ".tmp", temp_name);
    ckpt_step_name(step, "", "", final_name);
    int n = snprintf(temp, CKPT_PATH_MAX, "%s/checkpoints/%s", out_dir, temp_name);
    int m = snprintf(final, CKPT_PATH_MAX, "%s/checkpoints/%s", out_dir, final_name);
    if (n < 0 || n >= CKPT_PATH_MAX || m < 0 || m >= CKPT_PATH_MAX)
        return err_fail(WEFT_USAGE, "the folder name %.64s... is too long", out_dir);
    return WEFT_OK;
}

static weft_status refuse_same_step(int folder, const char *final)
{
    struct stat there;
    if (fstatat(folder, ckpt_last_part(final), &there, AT_SYMLINK_NOFOLLOW) == 0)
        return err_fail(WEFT_USAGE,
                        "checkpoint %s exists and is not replaced; check that no other job writes "
                        "into this run.out",
                        final);
    return errno == ENOENT ? WEFT_OK
                           : err_fail_errno(WEFT_IO, "cannot look for checkpoint %s", final);
}

/* What rank 0 does in the open folder. */
static weft_status make_temp(int folder, const char *temp, const char *final)
{
    ckpt_sweep(folder);
    weft_status st = refuse_same_step(folder, final);
    if (st == WEFT_OK && mkdirat(folder, ckpt_last_part(temp), 0777) < 0)
        st = err_fail_errno(WEFT_IO, "cannot make folder %s", temp);
    return st;
}

weft_status ckpt_begin(int out, const char *out_dir, uint64_t step, char temp[4096],
                       char final[4096])
{
    int folder = -1, lock = -1;
    weft_status st = ckpt_paths(out_dir, step, temp, final);
    if (st == WEFT_OK)
        st = ckpt_place_free();
    if (st == WEFT_OK)
        st = ckpt_folder_open(out, out_dir, true, &folder);
    if (st != WEFT_OK)
        return st;
    st = ckpt_folder_lock(folder, out_dir, &lock);
    if (st == WEFT_OK)
        st = make_temp(folder, temp, final);
    if (st == WEFT_OK) {
        ckpt_place_set(folder, lock, temp);
        return WEFT_OK;
    }
    if (lock >= 0)
        close(lock);
    close(folder);
    return st;
}

weft_status ckpt_join(int out, const char *out_dir, uint64_t step, char temp[4096])
{
    int folder;
    char final[4096];
    weft_status st = ckpt_paths(out_dir, step, temp, final);
    if (st == WEFT_OK)
        st = ckpt_place_free();
    if (st == WEFT_OK)
        st = ckpt_folder_open(out, out_dir, false, &folder);
    if (st == WEFT_OK)
        ckpt_place_set(folder, -1, temp);
    return st;
}

void ckpt_part(const char *temp)
{
    ckpt_place_end(temp);
}

void ckpt_abandon(const char *temp)
{
    if (!temp || !ckpt_is_leftover(ckpt_last_part(temp)))
        return;
    int parent = ckpt_place_parent(temp);
    if (parent >= 0) {
        if (data_folder_remove(parent, ckpt_last_part(temp)) < 0)
            log_line(WEFT_LOG_WARN, "cannot remove %s: %s", temp, strerror(errno));
        close(parent);
    }
    ckpt_place_end(temp);
}

/* --- commit --- */

static weft_status write_manifest(int folder, const char *text, uint64_t bytes)
{
    weft_status st = data_folder_file(folder, "manifest.json", text, bytes);
    if (st == WEFT_OK && data_file_sync_folder(folder))
        st = err_fail_errno(WEFT_IO, "cannot sync the folder");
    return st;
}

/* Check that the headers of all shards cover every tensor exactly once; `m` gets their ranges. The
 * ranks that wrote the bytes have hashed them; they are not read again. */
static weft_status check_cover(int folder, ckpt_manifest *m, pool *p)
{
    struct stat unused;
    for (uint32_t i = 0; i < m->shards; i++) {
        weft_status st = ckpt_shard_check(folder, i, m->shards, &m->sums[i], false, NULL, p,
                                          &m->ranges, &unused);
        if (st != WEFT_OK)
            return st;
    }
    ckpt_piece *tensors;
    uint32_t *starts, n;
    ckpt_ranges_sort(&m->ranges);
    return ckpt_cover(&m->ranges, p, &tensors, &starts, &n);
}

weft_status ckpt_complete(int folder, ckpt_manifest *m)
{
    pool p = {0};
    char *text = NULL;
    uint64_t bytes = 0;
    weft_status st = check_cover(folder, m, &p);
    if (st == WEFT_DATA) /* not external data: this job has just written it */
        st = WEFT_INTERNAL;
    if (st == WEFT_OK)
        st = ckpt_manifest_build(m, &text, &bytes);
    if (st == WEFT_OK)
        st = write_manifest(folder, text, bytes);
    free(text);
    free(m->ranges.at);
    pool_free(&p);
    return st;
}

/* Of the checkpoints up to `step`, which is the newest of them. Later ones are not this run's, and
 * are not counted; one with a file of somebody else stays. What cannot be removed is no failure of
 * the save. */
static void remove_old(int parent, uint64_t step, ckpt_keep keep)
{
    static uint64_t reported; /* the newest one that a message has named; one save at a time */
    uint64_t named = reported;
    ckpt_steps list;
    uint32_t kept = 0;
    if (ckpt_list(parent, &list) != WEFT_OK) {
        log_line(WEFT_LOG_WARN, "old checkpoints are not removed: %s", err_text());
        return;
    }
    for (uint32_t i = 0; i < list.n; i++) {
        char name[CKPT_FILE_MAX], old[CKPT_FILE_MAX], other[CKPT_FILE_MAX];
        const bool spared = keep.spared && list.at[i] <= keep.spared;
        if (list.at[i] > step || kept++ < keep.newest || spared)
            continue;
        ckpt_step_name(list.at[i], "", "", name);
        ckpt_step_name(list.at[i], ".", ".old", old);
        if (ckpt_folder_foreign(parent, name, other)) {
            named = list.at[i] > named ? list.at[i] : named;
            if (list.at[i] > reported)
                log_line(WEFT_LOG_WARN,
                         "the old checkpoint %s is not removed: %s in it is not weft's", name,
                         other);
            continue;
        }
        if (renameat(parent, name, parent, old) < 0 || data_folder_remove(parent, old) < 0)
            log_line(WEFT_LOG_WARN, "cannot remove the old checkpoint %s: %s", name,
                     strerror(errno));
    }
    reported = named;
    free(list.at);
}

static weft_status commit(int parent, const char *temp, const char *final, ckpt_manifest *m,
                          ckpt_keep keep)
{
    int folder = openat(parent, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return err_fail_errno(WEFT_IO, "cannot open it");
    weft_status st = ckpt_complete(folder, m);
    close(folder);
    if (st != WEFT_OK)
        return st;
    if (data_folder_rename(parent, temp, final) < 0)
        return err_fail_errno(WEFT_IO, "cannot rename it to %s", final);
    if (data_file_sync_folder(parent) < 0)
        return err_fail_errno(WEFT_IO, "cannot sync the folder, so that %s may not last", final);
    if (keep.newest)
        remove_old(parent, m->step, keep);
    return WEFT_OK;
}

weft_status ckpt_commit(const char *temp, const char *final, uint64_t step, const char *job_text,
                        const ckpt_shard_sum *sums, uint32_t shards, ckpt_keep keep)
{
    uint64_t named;
    if (!shards || shards > CKPT_SHARDS_MAX ||
        !ckpt_step_from(ckpt_last_part(final), "", "", &named) || named != step ||
        !ckpt_is_leftover(ckpt_last_part(temp))) {
        ckpt_abandon(temp);
        return err_fail(WEFT_INTERNAL, "a commit of step %" PRIu64 " with %" PRIu32 " shards", step,
                        shards);
    }
    ckpt_shard_sum *own = mem_alloc((uint64_t)shards * sizeof *own);
    memcpy(own, sums, (uint64_t)shards * sizeof *own);
    ckpt_manifest m = {
        .step = step, .job = job_text ? job_text : "", .shards = shards, .sums = own};
    weft_status st = WEFT_OK;
    int parent = ckpt_place_parent(temp);
    if (parent < 0)
        st = err_fail_errno(WEFT_IO, "cannot open its folder");
    if (st == WEFT_OK)
        st = commit(parent, ckpt_last_part(temp), ckpt_last_part(final), &m, keep);
    if (parent >= 0)
        close(parent);
    free(own);
    if (st != WEFT_OK) {
        err_context("checkpoint %s", temp);
        ckpt_abandon(temp);
    }
    ckpt_place_end(temp);
    return st;
}
