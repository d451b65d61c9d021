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

/* Open OUT/checkpoints for a save. */
static weft_status open_place(int out, const char *out_dir, uint64_t step, bool make, ckpt_save *s)
{
    char name[CKPT_FILE_MAX];
    *s = (ckpt_save){.step = step, .folder = -1, .lock = -1};
    if (step > INT64_MAX)
        return err_fail(WEFT_USAGE, "step %" PRIu64 " is too large for a checkpoint", step);
    ckpt_step_name(step, ".", ".tmp", name);
    snprintf(s->temp, sizeof s->temp, "%s/checkpoints/%s", out_dir, name);
    return ckpt_folder_open(out, out_dir, make, &s->folder);
}

/* The temporary folder's name in it. */
static const char *temp_name(const ckpt_save *s)
{
    return strrchr(s->temp, '/') + 1;
}

/* What rank 0 does in the open folder. */
static weft_status make_temp(const ckpt_save *s, const char *out_dir)
{
    char final[CKPT_FILE_MAX];
    struct stat there;
    ckpt_step_name(s->step, "", "", final);
    ckpt_sweep(s->folder);
    if (fstatat(s->folder, final, &there, AT_SYMLINK_NOFOLLOW) == 0)
        return err_fail(WEFT_USAGE,
                        "checkpoint %s/checkpoints/%s exists and is not replaced; check that no "
                        "other job writes into this run.out",
                        out_dir, final);
    if (errno != ENOENT)
        return err_fail_errno(WEFT_IO, "cannot look for checkpoint %s/checkpoints/%s", out_dir,
                              final);
    return mkdirat(s->folder, temp_name(s), 0777) < 0
               ? err_fail_errno(WEFT_IO, "cannot make folder %s", s->temp)
               : WEFT_OK;
}

weft_status ckpt_begin(int out, const char *out_dir, uint64_t step, ckpt_save *s)
{
    weft_status st = open_place(out, out_dir, step, true, s);
    if (st == WEFT_OK)
        st = ckpt_folder_lock(s->folder, out_dir, &s->lock);
    if (st == WEFT_OK)
        st = make_temp(s, out_dir);
    if (st != WEFT_OK)
        ckpt_part(s);
    return st;
}

weft_status ckpt_join(int out, const char *out_dir, uint64_t step, ckpt_save *s)
{
    return open_place(out, out_dir, step, false, s);
}

void ckpt_part(ckpt_save *s)
{
    if (s->folder >= 0)
        close(s->folder);
    if (s->lock >= 0)
        close(s->lock); /* gives up the flock */
    s->folder = s->lock = -1;
}

void ckpt_abandon(ckpt_save *s)
{
    if (s->folder >= 0 && data_folder_remove(s->folder, temp_name(s)) < 0)
        log_line(WEFT_LOG_WARN, "cannot remove %s: %s", s->temp, strerror(errno));
    ckpt_part(s);
}

/* The temporary folder: a descriptor, or -1 with errno. */
static int open_temp(const ckpt_save *s)
{
    return openat(s->folder, temp_name(s), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

weft_status ckpt_write_shard(const ckpt_save *s, uint32_t shard, uint32_t shards,
                             const ckpt_piece *pieces, uint32_t n, const ckpt_halt *halt,
                             ckpt_shard_sum *sum)
{
    const int folder = open_temp(s);
    if (folder < 0)
        return err_fail_errno(WEFT_IO, "cannot write a checkpoint into %s", s->temp);
    const weft_status st = ckpt_shard_write(folder, shard, shards, pieces, n, halt, NULL, sum);
    close(folder);
    if (st != WEFT_OK)
        err_context("%s", s->temp);
    return st;
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

/* Write the manifest of the shards in the open folder, whose headers are read; `m` has all but the
 * ranges. */
static weft_status complete(int folder, ckpt_manifest *m)
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

static weft_status commit(const ckpt_save *s, ckpt_manifest *m, ckpt_keep keep)
{
    char final[CKPT_FILE_MAX];
    const int folder = open_temp(s);
    if (folder < 0)
        return err_fail_errno(WEFT_IO, "cannot open it");
    weft_status st = complete(folder, m);
    close(folder);
    if (st != WEFT_OK)
        return st;
    ckpt_step_name(s->step, "", "", final);
    if (data_folder_rename(s->folder, temp_name(s), final) < 0)
        return err_fail_errno(WEFT_IO, "cannot rename it to %s", final);
    if (data_file_sync_folder(s->folder) < 0)
        return err_fail_errno(WEFT_IO, "cannot sync the folder, so that %s may not last", final);
    if (keep.newest)
        remove_old(s->folder, m->step, keep);
    return WEFT_OK;
}

weft_status ckpt_commit(ckpt_save *s, const char *job_text, const ckpt_shard_sum *sums,
                        uint32_t shards, ckpt_keep keep)
{
    ckpt_manifest m = {.step = s->step, .job = job_text, .shards = shards, .sums = sums};
    const weft_status st = commit(s, &m, keep);
    if (st != WEFT_OK) {
        err_context("checkpoint %s", s->temp);
        ckpt_abandon(s);
    }
    ckpt_part(s);
    return st;
}

weft_status ckpt_write_alone(int folder, const char *job_text, const ckpt_piece *pieces, uint32_t n,
                             const ckpt_values *values)
{
    ckpt_shard_sum sum;
    ckpt_manifest m = {.job = job_text, .shards = 1, .sums = &sum};
    const weft_status st = ckpt_shard_write(folder, 0, 1, pieces, n, NULL, values, &sum);
    return st == WEFT_OK ? complete(folder, &m) : st;
}
